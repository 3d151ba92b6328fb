/* Watches for keys, on one thread: what they measure, and what they say goes wrong. */
#include "tests/support/keys_tools.h"

#include <malloc.h>
#include <stdlib.h>

#include "tests/support/clock.h"

/* ---- Times ----------------------------------------------------------------------------------- */

/* Sleeps, and returns by the system's clock how long that took. */
static double nap(void)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    uint64_t began = clock_ns(CLOCK_MONOTONIC);

    nanosleep(&ms, NULL);
    return (double)(clock_ns(CLOCK_MONOTONIC) - began);
}

/* The watch's clock is as fast as the system's to within some millionths. */
static void expect_between(double ns, double least, double most)
{
    CHECKF(ns >= least * 0.999 && ns <= most * 1.001, "%.0f ns, %.0f to %.0f", ns, least, most);
}

CP_TEST(a_key_is_timed_in_each_stage_and_as_a_whole)
{
    struct cp_watch_keys *keys = open_keys("item", "queue,work", 0);
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    double queued, worked, all;
    struct taken taken;

    CHECK_EQ(cp_watch_key_begin(keys, 7, 0), 0);
    queued = nap();
    CHECK_EQ(cp_watch_key_move(keys, 7, 1), 0);
    worked = nap();
    CHECK_EQ(cp_watch_key_end(keys, 7), 0);
    all = (double)(clock_ns(CLOCK_MONOTONIC) - began);
    taken = take(keys);
    CHECK_EQ(taken.n, 3);
    CHECK_STR(taken.rows[0].stage, "");
    CHECK_STR(taken.rows[1].stage, "queue");
    CHECK_STR(taken.rows[2].stage, "work");
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(taken.rows[i].count, 1);
        CHECK(taken.rows[i].sum == taken.rows[i].min && taken.rows[i].sum == taken.rows[i].max);
    }
    expect_between(taken.rows[0].sum, queued + worked, all);
    expect_between(taken.rows[1].sum, queued, all - worked);
    expect_between(taken.rows[2].sum, worked, all - queued);
    CHECK(taken.rows[1].sum + taken.rows[2].sum == taken.rows[0].sum);
    cp_watch_keys_close(keys);
}

/* Snapshots before and after each key tell the key's own values, which are whole numbers. */
CP_TEST(the_stages_of_each_key_add_up_to_its_whole)
{
    struct cp_watch_keys *keys = open_keys("item", "a,b,c", 0);
    struct taken before = take(keys);

    for (uint64_t key = 0; key < 200; key++) {
        struct taken after;

        CHECK_EQ(cp_watch_key_begin(keys, key, key % 3), 0);
        for (uint64_t i = 0; i < key % 7; i++)
            CHECK_EQ(cp_watch_key_move(keys, key, (key + i * i) % 3), 0);
        CHECK_EQ(cp_watch_key_end(keys, key), 0);
        after = take(keys);
        CHECK(after.rows[0].sum >= before.rows[0].sum);
        CHECK(after.rows[0].sum - before.rows[0].sum == sum_of_stages(&after) - sum_of_stages(&before));
        before = after;
    }
    CHECK_EQ(before.rows[0].count, 200);
    cp_watch_keys_close(keys);
}

CP_TEST(a_move_into_the_same_stage_begins_it_anew)
{
    struct cp_watch_keys *keys = open_keys("item", "a,b", 0);
    double first, second;
    struct taken taken;

    CHECK_EQ(cp_watch_key_begin(keys, 1, 1), 0);
    first = nap();
    CHECK_EQ(cp_watch_key_move(keys, 1, 1), 0);
    second = nap();
    CHECK_EQ(cp_watch_key_end(keys, 1), 0);
    taken = take(keys);
    CHECK_EQ(row_of(&taken, "")->count, 1);
    CHECK_EQ(row_of(&taken, "a")->count, 0);
    CHECK_EQ(row_of(&taken, "b")->count, 2);
    CHECK(row_of(&taken, "b")->sum == row_of(&taken, "")->sum);
    CHECK(row_of(&taken, "b")->min >= (first < second ? first : second) * 0.999);
    CHECK(row_of(&taken, "b")->max <= row_of(&taken, "")->sum - row_of(&taken, "b")->min);
    cp_watch_keys_close(keys);
}

CP_TEST(without_stages_there_is_the_whole_alone)
{
    struct cp_watch_keys *keys = open_keys("item", NULL, 0);
    double all;
    struct taken taken;

    CHECK_EQ(cp_watch_key_begin(keys, 1, 0), 0);
    all = nap();
    CHECK_EQ(cp_watch_key_move(keys, 1, 0), 0);
    all += nap();
    CHECK_EQ(cp_watch_key_move(keys, 1, 1), -EINVAL);
    CHECK_EQ(cp_watch_key_end(keys, 1), 0);
    taken = take(keys);
    CHECK_EQ(taken.n, 1);
    CHECK_STR(taken.rows[0].stage, "");
    CHECK_EQ(taken.rows[0].count, 1);
    CHECK(taken.rows[0].sum >= all * 0.999);
    cp_watch_keys_close(keys);
}

CP_TEST(any_number_is_a_key)
{
    static const uint64_t all[] = {0, UINT64_MAX, 1, (uint64_t)1 << 63, 0xffffffff};
    struct cp_watch_keys *keys = open_keys("item", NULL, 0);

    for (size_t i = 0; i < 5; i++) {
        CHECK_EQ(cp_watch_key_end(keys, all[i]), -ENOENT);
        CHECK_EQ(cp_watch_key_begin(keys, all[i], 0), 0);
    }
    expect_state(keys, 5, 0, 0, 5);
    for (size_t i = 0; i < 5; i++)
        CHECK_EQ(cp_watch_key_end(keys, all[i]), 0);
    expect_state(keys, 0, 0, 0, 5);
    cp_watch_keys_close(keys);
}

CP_TEST(a_hundred_thousand_keys_come_and_go)
{
    enum { KEYS = 100000 };
    struct cp_watch_keys *keys = open_keys("item", "a,b", 0);

    for (uint64_t round = 1; round <= 2; round++) {
        for (uint64_t i = 0; i < KEYS; i++)
            CHECK_EQ(cp_watch_key_begin(keys, i * 64, 0), 0);
        expect_state(keys, KEYS, 0, 0, 0);
        for (uint64_t i = 0; i < KEYS; i++)
            CHECK_EQ(cp_watch_key_move(keys, i * 7 % KEYS * 64, 1), 0);
        for (uint64_t i = 0; i < KEYS; i++)
            CHECK_EQ(cp_watch_key_end(keys, i * 3 % KEYS * 64), 0);
        expect_state(keys, 0, 0, 0, 0);
        CHECK_EQ(take(keys).rows[0].count, round * KEYS);
    }
    cp_watch_keys_close(keys);
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

CP_TEST(a_second_begin_replaces_the_key)
{
    struct cp_watch_keys *keys = open_keys("item", "a,b", 0);
    double first;
    uint64_t began;
    struct taken taken;

    CHECK_EQ(cp_watch_key_begin(keys, 1, 0), 0);
    first = nap();
    began = clock_ns(CLOCK_MONOTONIC);
    CHECK_EQ(cp_watch_key_begin(keys, 1, 1), -EEXIST);
    expect_state(keys, 1, 0, 1, 0);
    CHECK_EQ(cp_watch_key_end(keys, 1), 0);
    expect_between(take(keys).rows[0].sum, 0, (double)(clock_ns(CLOCK_MONOTONIC) - began));
    taken = take(keys);
    CHECK(first > 0 && row_of(&taken, "a")->count == 0);
    CHECK_EQ(row_of(&taken, "b")->count, 1);
    CHECK_EQ(row_of(&taken, "")->count, 1);
    cp_watch_keys_close(keys);
}

CP_TEST(keys_that_are_not_open_and_stages_that_are_not_there_are_told)
{
    struct cp_watch_keys *keys = open_keys("item", "a,b", 0);

    CHECK_EQ(cp_watch_key_move(keys, 1, 0), -ENOENT);
    CHECK_EQ(cp_watch_key_end(keys, 1), -ENOENT);
    expect_state(keys, 0, 0, 0, 2);
    CHECK_EQ(cp_watch_key_begin(keys, 1, 2), -EINVAL);
    expect_state(keys, 0, 1, 0, 2);
    CHECK_EQ(cp_watch_key_begin(keys, 1, 0), 0);
    CHECK_EQ(cp_watch_key_begin(keys, 1, UINT32_MAX), -EINVAL);
    CHECK_EQ(cp_watch_key_move(keys, 1, UINT32_MAX), -EINVAL);
    CHECK_EQ(cp_watch_key_move(keys, 2, 2), -EINVAL);
    expect_state(keys, 1, 2, 0, 4);
    CHECK_EQ(cp_watch_key_end(keys, 1), 0);
    CHECK_EQ(cp_watch_key_end(keys, 1), -ENOENT);
    expect_state(keys, 0, 2, 0, 5);
    CHECK_EQ(take(keys).rows[1].count, 1);
    cp_watch_keys_close(keys);
}

static void fill_up(size_t keys_max)
{
    struct cp_watch_keys *keys = open_keys("item", NULL, keys_max);

    for (uint64_t key = 0; key < keys_max; key++)
        CHECKF(cp_watch_key_begin(keys, key, 0) == 0, "key %llu of %zu", (unsigned long long)key, keys_max);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(cp_watch_key_begin(keys, keys_max + i, 0), -ENOSPC);
    CHECK_EQ(cp_watch_key_begin(keys, keys_max - 1, 0), -EEXIST);
    expect_state(keys, keys_max, 3, 1, 0);
    /* The place of any key is for any other one. */
    for (uint64_t key = 0; key < keys_max && key < 200; key++) {
        CHECK_EQ(cp_watch_key_end(keys, key), 0);
        CHECK_EQ(cp_watch_key_begin(keys, keys_max + key, 0), 0);
        CHECK_EQ(cp_watch_key_begin(keys, 1000000, 0), -ENOSPC);
    }
    cp_watch_keys_close(keys);
}

CP_TEST(as_many_keys_are_open_as_may_be)
{
    static const size_t limits[] = {1, 2, 63, 64, 65, 127, 4095, 4096, 4097, 20000};

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        fill_up(limits[i]);
}

/* People are told of keys, and not of rounds. */
CP_TEST(what_goes_wrong_is_printed)
{
    struct cp_watch_keys *keys = open_keys("item", NULL, 2);
    struct cp_watch_snapshot *snapshot;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    for (uint64_t key = 0; key < 3; key++)
        cp_watch_key_begin(keys, key, 0);
    cp_watch_key_begin(keys, 0, 0);
    cp_watch_key_end(keys, 7);
    CHECK_EQ(cp_watch_take_keys(&snapshot, keys, NULL), 0);
    CHECK_EQ(cp_watch_print(snapshot, CP_WATCH_TEXT, out), 0);
    fclose(out);
    CHECK_CONTAINS(text, "item: 2 keys were open");
    CHECK_CONTAINS(text, "item: 1 key was refused");
    CHECK_CONTAINS(text, "item: 1 key was lost");
    CHECK_CONTAINS(text, "item: 1 call was ignored: the key to move or to end was not open");
    free(text);
    cp_watch_snapshot_free(snapshot);
    cp_watch_keys_close(keys);
}

/* ---- Opening, closing and taking ------------------------------------------------------------- */

CP_TEST(no_watch_measures_nothing)
{
    struct cp_watch_snapshot *snapshot;

    CHECK_EQ(cp_watch_key_begin(NULL, 1, 0), 0);
    CHECK_EQ(cp_watch_key_move(NULL, 1, 9), 0);
    CHECK_EQ(cp_watch_key_end(NULL, 1), 0);
    cp_watch_keys_close(NULL);
    CHECK_EQ(cp_watch_take_keys(&snapshot, NULL, NULL), 0);
    CHECK_EQ(cp_watch_each(snapshot, take_row, NULL), 0);
    cp_watch_snapshot_free(snapshot);
}

static void expect_refusal(const char *name, const char *stages, int result, const char *says)
{
    const struct cp_watch_keys_options options = {.size = sizeof options, .name = name, .stages = stages};
    struct cp_watch_keys *keys = (void *)(uintptr_t)1;
    struct cp_error err = {0};

    CHECK_EQ(cp_watch_keys_open(&keys, &options, &err), result);
    CHECK(keys == NULL);
    CHECK_EQ(err.code, result);
    CHECK_CONTAINS(err.message, says);
}

CP_TEST(bad_options_are_refused_in_a_sentence)
{
    struct cp_watch_keys_options options = {.size = 0, .name = "item"};
    struct cp_watch_keys *keys;
    char many[4 * CP_WATCH_STAGES_MAX + 10] = "s0";

    CHECK_EQ(cp_watch_keys_open(&keys, &options, NULL), -EINVAL);
    expect_refusal(NULL, NULL, -EINVAL, "name");
    expect_refusal("", NULL, -EINVAL, "name");
    expect_refusal("a 64 bytes long name is one byte longer than a watch's name may be", NULL, -EINVAL, "63");
    expect_refusal("a\nb", NULL, -EINVAL, "control characters");
    expect_refusal("item", "", -EINVAL, "Stage 0 has no name");
    expect_refusal("item", "a,", -EINVAL, "Stage 1 has no name");
    expect_refusal("item", "a,,b", -EINVAL, "Stage 1 has no name");
    expect_refusal("item", "a,b,a", -EINVAL, "Stages 0 and 2 are both named \"a\"");
    expect_refusal("item", "a,b\x1b[m", -EINVAL, "Stage 1 has a bad name");
    expect_refusal("item", "a\xff", -EINVAL, "Stage 0 has a bad name");
    expect_refusal("item", "\xc2\x9b", -EINVAL, "Stage 0 has a bad name");
    expect_refusal("item", "a 64 bytes long name is one byte longer than a stage's name can be", -EINVAL,
                   "bad name");
    for (int i = 1; i < CP_WATCH_STAGES_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",s%d", i);
    cp_watch_keys_close(open_keys("item", many, 0));
    snprintf(many + strlen(many), sizeof many - strlen(many), ",more");
    expect_refusal("item", many, -EINVAL, "at most 64 stages. Leave \"more\"");
}

CP_TEST(a_name_is_free_again_after_the_close)
{
    struct cp_watch_keys *keys = open_keys("item", NULL, 0);

    expect_refusal("item", NULL, -EEXIST, "item");
    cp_watch_keys_close(keys);
    cp_watch_keys_close(open_keys("item", NULL, 0));
}

/* AddressSanitizer looks for what is not freed. */
CP_TEST(keys_may_be_open_at_the_close)
{
    struct cp_watch_keys *keys = open_keys("item", "a,b,c", 0);

    for (uint64_t key = 0; key < 10000; key++) {
        CHECK_EQ(cp_watch_key_begin(keys, key, 0), 0);
        CHECK_EQ(cp_watch_key_move(keys, key, 2), 0);
    }
    cp_watch_keys_close(keys);
}

static int note_name(void *context, const struct cp_watch_state *state)
{
    char *names = context;

    snprintf(names + strlen(names), 64 - strlen(names), "%s ", state->watch);
    return 0;
}

CP_TEST(all_watches_are_taken_in_the_order_of_their_opening)
{
    struct cp_watch_keys *b = open_keys("b", NULL, 0), *a = open_keys("a", NULL, 0);
    struct cp_watch_keys *c = open_keys("c", NULL, 0);
    struct cp_watch_snapshot *snapshot;
    char names[64] = "";

    cp_watch_keys_close(a);
    CHECK_EQ(cp_watch_take_all(&snapshot, NULL), 0);
    CHECK_EQ(cp_watch_states(snapshot, note_name, names), 0);
    CHECK_STR(names, "b c ");
    cp_watch_snapshot_free(snapshot);
    cp_watch_keys_close(b);
    cp_watch_keys_close(c);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

#if TEST_ASAN || TEST_TSAN
CP_TEST(without_memory_a_key_does_not_begin)
{
    SKIP("A sanitizer has the allocator that this test takes the place of.");
}
#else
#include "tests/support/failing_memory.h"

CP_TEST(without_memory_a_key_does_not_begin)
{
    struct cp_watch_keys *keys = open_keys("item", NULL, 1);
    int result;

    fail_calls(1, 1);
    result = cp_watch_key_begin(keys, 1, 0);
    CHECK(have_failed());
    CHECK_EQ(result, -ENOMEM);
    expect_state(keys, 0, 1, 0, 0);
    /* The key has not used up the only place. */
    CHECK_EQ(cp_watch_key_begin(keys, 1, 0), 0);
    fail_calls(1, 1);
    result = cp_watch_key_end(keys, 1);
    CHECK(have_failed());
    CHECK_EQ(result, -ENOMEM);
    expect_state(keys, 0, 1, 1, 0);
    CHECK_EQ(take(keys).rows[0].count, 0);
    CHECK_EQ(cp_watch_key_begin(keys, 2, 0), 0);
    cp_watch_keys_close(keys);
}

/* Memory runs out at each place in turn, and often: what was allocated before is freed. What the allocator
 * caches for the thread counts as in use. */
CP_TEST(without_memory_no_watch_is_opened)
{
    const struct cp_watch_keys_options options = {.size = sizeof options, .name = "item", .stages = "a,b"};
    struct cp_watch_keys *keys = NULL;
    struct cp_error err;
    size_t in_use;
    int result = -ENOMEM;

    cp_watch_keys_close(open_keys("first", NULL, 0)); /* makes what is made once */
    in_use = mallinfo2().uordblks;
    for (unsigned n = 0; result < 0; n++) {
        fail_calls(1 + n / 300, 1 + n / 300);
        result = cp_watch_keys_open(&keys, &options, &err);
        CHECKF(have_failed() == (result < 0), "%d", result);
        CHECK(result == 0 || (result == -ENOMEM && keys == NULL && strstr(err.message, "memory") != NULL));
        CHECK(result == 0 || mallinfo2().uordblks < in_use + 8192);
    }
    cp_watch_keys_close(keys);
}
#endif
