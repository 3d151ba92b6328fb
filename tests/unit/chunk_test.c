/* The pool of the sample buffers' chunks. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "event.h"
#include "runtime/chunk.h"
#include "tests/support/test.h"

static size_t target;

static void fill_pool(void)
{
    CHECK_EQ(cp__pool_resize(CP_EV_MAX), 0);
    target = cp__pool_target();
    CHECK(target > 0 && target <= CP__POOL_CHUNKS);
    CHECK_EQ(cp__pool_level(), target);
}

/* Each chunk once; that half of them are left is told once. */
CP_TEST(a_pool_gives_what_it_has)
{
    static struct cp__chunk *taken[CP__POOL_CHUNKS];
    bool low;

    fill_pool();
    for (size_t i = 0; i < target; i++) {
        taken[i] = cp__chunk_take_from_handler(&low);
        CHECK(taken[i] != NULL);
        CHECK_EQ(low, target - i == target / 2);
        CHECK_EQ(taken[i]->words[0], 0);
        memset(taken[i]->words, 1, cp__chunk_size - sizeof *taken[i]);
        CHECK(cp__chunk_of(cp__chunk_end(taken[i]) - 1) == taken[i]);
    }
    CHECK(cp__chunk_take_from_handler(&low) == NULL);
    CHECK_EQ(cp__pool_level(), 0);
    for (size_t i = 0; i < target; i++) {
        cp__chunk_give(taken[i]);
        CHECK_EQ(cp__pool_level(), i + 1);
    }
    for (size_t i = 0; i < target; i++)
        CHECK(cp__chunk_take_from_handler(&low) == taken[i]);
    cp__pool_fill();
    CHECK_EQ(cp__pool_level(), target);
    cp__chunk_give(taken[0]); /* the pool has enough: it goes to the system */
    CHECK_EQ(cp__pool_level(), target);
}

CP_TEST(a_pool_follows_the_slots_in_use)
{
    fill_pool();
    CHECK_EQ(cp__pool_resize(1), 0);
    CHECK(cp__pool_target() < target || target == CP__POOL_CHUNKS);
    CHECK_EQ(cp__pool_level(), cp__pool_target());
    CHECK_EQ(cp__pool_resize(0), 0);
    CHECK_EQ(cp__pool_level(), 0);
}

static int count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    int c, n = 0;

    CHECK(file != NULL);
    while ((c = getc(file)) != EOF)
        n += c == '\n';
    fclose(file);
    return n;
}

#define MANY 1000

/* Whatever chunks are free between others, they take no memory and no mappings of their own. */
CP_TEST(chunks_that_are_not_wanted_go_to_the_system)
{
    static struct cp__chunk *chunks[MANY];
    int mappings = count_mappings();

    CHECK_EQ(cp__pool_resize(0), 0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            chunks[i] = cp__chunk_new();
            CHECK(chunks[i] != NULL && chunks[i]->next == NULL);
            for (uint64_t *word = chunks[i]->words; word < cp__chunk_end(chunks[i]); word++)
                CHECK_EQ(*word, 0);
            memset(chunks[i], 1, cp__chunk_size);
        }
        for (int i = 0; i < MANY; i += 2)
            cp__chunk_give(chunks[i]);
        CHECK(TEST_TSAN || count_mappings() <= mappings + 2 + MANY / 64);
        for (int i = 0; i < MANY; i += 2)
            chunks[i] = cp__chunk_new();
        for (int i = 0; i < MANY; i++) {
            CHECK(chunks[i] != NULL && chunks[i]->words[0] == (i % 2 == 0 ? 0 : 0x0101010101010101));
            cp__chunk_give(chunks[i]);
        }
        CHECK(TEST_TSAN || count_mappings() <= mappings);
    }
}

/* ---- Several threads ------------------------------------------------------------------------- */

#define TAKERS 4
#define TURNS (100000 / TEST_SLOWDOWN)

/* Marks each chunk as its own, and would see another's mark. */
static void *take_and_give(void *arg)
{
    uint64_t mark = (uint64_t)(uintptr_t)arg;
    struct cp__chunk *held[8];
    bool low;

    for (int turn = 0; turn < TURNS; turn++) {
        size_t n = 0;

        while (n < 8 && (held[n] = cp__chunk_take_from_handler(&low)) != NULL)
            held[n++]->words[0] = mark;
        for (size_t i = 0; i < n; i++) {
            CHECK_EQ(held[i]->words[0], mark);
            cp__chunk_give(held[i]);
        }
    }
    return NULL;
}

/* The pool's chunks go to the system all at once, but those between them that somebody has taken. */
CP_TEST(a_chunk_that_is_in_use_keeps_its_words)
{
    static struct cp__chunk *taken[CP__POOL_CHUNKS], *given[CP__POOL_CHUNKS];
    size_t n;
    bool low;

    CHECK_EQ(cp__pool_resize(1), 0);
    n = cp__pool_level();
    CHECK(n >= 3);
    for (size_t i = 0; i < n; i++) {
        taken[i] = cp__chunk_take_from_handler(&low);
        CHECK(taken[i] != NULL);
        memset(taken[i], 1, cp__chunk_size);
    }
    for (size_t i = 0; i < n; i++) {
        if (i % 3 != 0)
            cp__chunk_give(taken[i]); /* to the pool, which has room */
    }
    CHECK_EQ(cp__pool_resize(0), 0);
    for (size_t i = 0; i < n; i += 3)
        CHECK_EQ(taken[i]->words[0], 0x0101010101010101);
    for (size_t i = 0; i < n; i++) {
        given[i] = cp__chunk_new();
        CHECK(given[i] != NULL && given[i]->next == NULL && given[i]->words[0] == 0);
    }
    for (size_t i = 0; i < n; i += 3)
        cp__chunk_give(taken[i]);
    for (size_t i = 0; i < n; i++)
        cp__chunk_give(given[i]);
}

CP_TEST(a_chunk_is_one_takers_only)
{
    pthread_t takers[TAKERS];

    fill_pool();
    for (uintptr_t i = 0; i < TAKERS; i++)
        CHECK_EQ(pthread_create(&takers[i], NULL, take_and_give, (void *)(i + 1)), 0);
    for (int i = 0; i < TAKERS; i++)
        CHECK_EQ(pthread_join(takers[i], NULL), 0);
    CHECK_EQ(cp__pool_level(), target);
}
