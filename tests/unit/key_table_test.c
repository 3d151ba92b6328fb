/* The table of a shard's open keys, against a plain list of them. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/watch/key_table.h"

/* ---- Tables ---------------------------------------------------------------------------------- */

static void add(struct cp__key_table **table, uint64_t key, uint64_t began)
{
    struct cp__key_entry *entry = cp__key_add(table, key);

    CHECK(entry != NULL);
    CHECK(entry->key == key);
    entry->began = began;
    entry->staged = 1;
}

static void expect(struct cp__key_table *table, uint64_t key, uint64_t began)
{
    const struct cp__key_entry *entry = cp__key_find(table, key);

    CHECKF(entry != NULL, "the key %#llx", (unsigned long long)key);
    CHECK(entry->key == key && entry->began == began);
}

static void take_away(struct cp__key_table *table, uint64_t key)
{
    struct cp__key_entry *entry = cp__key_find(table, key);

    CHECK(entry != NULL);
    cp__key_remove(table, entry);
    CHECK(cp__key_find(table, key) == NULL);
}

/* Returns the n-th key, from 0, whose search begins at a place of tables of 16 entries. */
static uint64_t key_at(unsigned place, unsigned n)
{
    for (uint64_t key = 0;; key++) {
        if ((cp__key_hash(key) & 15) == place && n-- == 0)
            return key;
    }
}

/* ---- Tests ----------------------------------------------------------------------------------- */

CP_TEST(any_number_is_a_key)
{
    static const uint64_t keys[] = {0, 1, UINT64_MAX, UINT64_MAX - 1, (uint64_t)1 << 63};
    struct cp__key_table *table = NULL;

    CHECK(cp__key_find(table, 0) == NULL);
    for (size_t i = 0; i < 5; i++)
        add(&table, keys[i], i);
    for (size_t i = 0; i < 5; i++)
        expect(table, keys[i], i);
    CHECK_EQ(table->used, 5);
    for (size_t i = 0; i < 5; i++)
        take_away(table, keys[i]);
    CHECK_EQ(table->used, 0);
    free(table);
}

/* Keys that begin their search at the last places of the table continue at the first ones. */
CP_TEST(a_removal_closes_the_gap_across_the_end)
{
    enum { KEYS = 9 };
    uint64_t keys[KEYS];

    for (unsigned i = 0; i < KEYS; i++)
        keys[i] = key_at((13 + i / 2) & 15, i % 2);
    for (unsigned removed = 0; removed < KEYS; removed++) {
        struct cp__key_table *table = NULL;

        for (unsigned i = 0; i < KEYS; i++)
            add(&table, keys[i], i);
        CHECK_EQ(table->capacity, 16);
        take_away(table, keys[removed]);
        for (unsigned i = 0; i < KEYS; i++) {
            if (i != removed)
                expect(table, keys[i], i);
        }
        free(table);
    }
}

/* Adds and removes keys at random, and compares the table with a list of all keys that there may be. */
CP_TEST(the_table_has_what_was_added_and_not_removed)
{
    enum { KEYS = 3000, STEPS = 300000 };
    static bool is_there[KEYS];
    struct cp__key_table *table = NULL;
    uint64_t random = 1;
    size_t n = 0;

    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)((random = random * 6364136223846793005u + 1442695040888963407u) >> 33) % KEYS;
        uint64_t key = (uint64_t)i << 12;

        CHECK_EQ(cp__key_find(table, key) != NULL, is_there[i]);
        if (is_there[i])
            take_away(table, key);
        else
            add(&table, key, i);
        is_there[i] = !is_there[i];
        n += is_there[i] ? 1 : (size_t)-1;
        CHECK_EQ(table->used, n);
    }
    for (unsigned i = 0; i < KEYS; i++) {
        if (is_there[i])
            expect(table, (uint64_t)i << 12, i);
    }
    CHECK(table->capacity <= 4096);
    free(table);
}

/* A table that has the same number of keys, always other ones, stays as it is. */
CP_TEST(a_table_in_use_needs_no_memory)
{
    const struct cp__key_table *first;
    struct cp__key_table *table = NULL;

    for (uint64_t key = 0; key < 12; key++)
        add(&table, key, key);
    first = table;
    for (uint64_t key = 12; key < 100000; key++) {
        take_away(table, key - 12);
        add(&table, key, key);
    }
    CHECK(table == first);
    CHECK_EQ(table->capacity, 16);
    free(table);
}

/* The shard is chosen by the upper 6 bits. Of 64 * 1000 keys of a pattern, each shard has about 1000. */
CP_TEST(patterns_of_keys_are_spread)
{
    for (unsigned shift = 0; shift <= 48; shift += 4) {
        unsigned counts[64] = {0};

        for (uint64_t i = 0; i < 64000; i++)
            counts[cp__key_hash(i << shift) >> 58]++;
        for (unsigned i = 0; i < 64; i++)
            CHECKF(counts[i] > 500 && counts[i] < 2000, "shift %u: shard %u has %u", shift, i, counts[i]);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

#if TEST_ASAN || TEST_TSAN
CP_TEST(without_memory_nothing_changes)
{
    SKIP("A sanitizer has the allocator that this test takes the place of.");
}
#else
#include "tests/support/failing_memory.h"

CP_TEST(without_memory_nothing_changes)
{
    struct cp__key_table *table = NULL;
    const struct cp__key_entry *entry;

    fail_calls(1, 1);
    entry = cp__key_add(&table, 7);
    CHECK(have_failed());
    CHECK(entry == NULL && table == NULL);
    for (uint64_t key = 0; key < 12; key++)
        add(&table, key, key);
    fail_calls(1, 1);
    entry = cp__key_add(&table, 12);
    CHECK(have_failed());
    CHECK(entry == NULL);
    CHECK_EQ(table->used, 12);
    for (uint64_t key = 0; key < 12; key++)
        expect(table, key, key);
    CHECK(cp__key_find(table, 12) == NULL);
    free(table);
}
#endif
