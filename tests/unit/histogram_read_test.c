/* Distributions: readers beside a writer, memory that runs out, and forks. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "atomic.h"
#include "runtime/watch/histogram.h"
#include "tests/support/test.h"
#if !TEST_ASAN && !TEST_TSAN
#include "tests/support/failing_memory.h"
#endif

/* ---- Readers beside a writer ----------------------------------------------------------------- */

static int add_bucket(void *context, uint64_t low, uint64_t high, uint64_t count)
{
    (void)low, (void)high;
    *(uint64_t *)context += count;
    return 0;
}

/* Returns how many values the buckets have. */
static uint64_t in_buckets(const struct cp__histogram *h)
{
    uint64_t count = 0;

    CHECK_EQ(cp__histogram_each(h, add_bucket, &count), 0);
    return count;
}

/* Merges h into an empty histogram and returns it. */
static struct cp__histogram *taken(const struct cp__histogram *h)
{
    struct cp__histogram *result = malloc(sizeof *result);

    cp__histogram_init(result);
    CHECK_EQ(cp__histogram_merge(result, h), 0);
    return result;
}

static void free_taken(struct cp__histogram *h)
{
    cp__histogram_fini(h);
    free(h);
}

CP_TEST(values_written_while_others_read_are_aside_and_not_lost)
{
    struct cp__histogram h, *all;

    cp__histogram_init(&h);
    CHECK_EQ(cp__histogram_record(&h, 5), 0);
    h.readers = 1; /* as a reader does it */
    CHECK_EQ(cp__histogram_record(&h, 6), 0);
    CHECK(h.count == 1 && h.max == 5);
    h.aside->readers = 1;
    CHECK_EQ(cp__histogram_record(&h, 7), 0);
    CHECK_EQ(h.aside->count, 1);
    h.aside->readers = h.readers = 0;
    CHECK_EQ(cp__histogram_record(&h, 8), 0);
    CHECK_EQ(h.count, 2);
    all = taken(&h);
    CHECK(all->count == 4 && all->min == 5 && all->max == 8 && all->sum[0] == 26 && all->aside == NULL);
    CHECK_EQ(in_buckets(all), 4);
    free_taken(all);
    cp__histogram_fini(&h);
}

CP_TEST(a_change_that_does_not_end_is_not_waited_for)
{
    struct cp__histogram h, *all;

    cp__histogram_init(&h);
    CHECK_EQ(cp__histogram_record(&h, 5), 0);
    h.changes++; /* as if the writer had been stopped when it had added to the count alone */
    h.count++;
    all = taken(&h);
    CHECK_EQ(all->count, 1);
    CHECK_EQ(in_buckets(all), 1);
    CHECK_EQ(h.readers, 0);
    free_taken(all);
    h.changes++;
    cp__histogram_fini(&h);
}

#define VALUE 98765
struct shared {
    struct cp__histogram h;
    uint64_t recorded; /* how many values the writer has added for certain */
    bool must_end;
};

static void *write_on(void *context)
{
    struct shared *shared = context;

    /* Relaxed: the flag tells nothing but itself. */
    while (!cp_load_relaxed(&shared->must_end)) {
        CHECK_EQ(cp__histogram_record(&shared->h, VALUE), 0);
        /* Pairs with the acquire in check_taken(): who sees the number sees the values. */
        cp_store_release(&shared->recorded, shared->recorded + 1);
    }
    return NULL;
}

/* All values are equal, so that whatever a reader has must agree with itself. Returns the count. */
static uint64_t check_taken(struct shared *shared, uint64_t least)
{
    /* Pairs with the release in write_on(). */
    const uint64_t before = cp_load_acquire(&shared->recorded);
    struct cp__histogram *all = taken(&shared->h);
    const uint64_t count = all->count;
    const unsigned __int128 sum = (unsigned __int128)count * VALUE, squares = sum * VALUE;

    CHECKF(count >= before && count >= least, "%llu of %llu", (unsigned long long)count,
           (unsigned long long)before);
    CHECK_EQ(in_buckets(all), count);
    CHECK(all->sum[0] == (uint64_t)sum && all->sum[1] == (uint64_t)(sum >> 64));
    CHECK(all->squares[0] == (uint64_t)squares && all->squares[1] == (uint64_t)(squares >> 64));
    CHECK(count == 0 || (all->min == VALUE && all->max == VALUE));
    free_taken(all);
    return count;
}

/* Reads until the writer was seen at work many times. */
static void *read_on(void *context)
{
    struct shared *shared = context;
    uint64_t count = 0;

    for (unsigned seen = 0; seen < 1000 / TEST_SLOWDOWN;) {
        const uint64_t now = check_taken(shared, count);

        if (now == count)
            sched_yield();
        seen += now != count;
        count = now;
    }
    return NULL;
}

static void check_beside_writer(unsigned n_readers)
{
    struct shared shared = {.recorded = 0};
    pthread_t writer, readers[4];

    cp__histogram_init(&shared.h);
    CHECK_EQ(pthread_create(&writer, NULL, write_on, &shared), 0);
    for (unsigned i = 0; i < n_readers; i++)
        CHECK_EQ(pthread_create(&readers[i], NULL, read_on, &shared), 0);
    for (unsigned i = 0; i < n_readers; i++)
        CHECK_EQ(pthread_join(readers[i], NULL), 0);
    cp_store_relaxed(&shared.must_end, true); /* the same as in write_on() */
    CHECK_EQ(pthread_join(writer, NULL), 0);
    CHECK_EQ(check_taken(&shared, 0), shared.recorded);
    CHECK_EQ(shared.h.readers, 0);
    cp__histogram_fini(&shared.h);
}

CP_TEST(a_reader_beside_a_writer_that_never_rests_sees_whole_values)
{
    check_beside_writer(1);
}

CP_TEST(readers_do_not_keep_each_other_from_whole_values)
{
    check_beside_writer(3);
}

/* ---- Memory that runs out, and forks --------------------------------------------------------- */

CP_TEST(forgetting_makes_it_empty)
{
    struct cp__histogram h;
    uint64_t *block;

    cp__histogram_init(&h);
    CHECK_EQ(cp__histogram_record(&h, 5), 0);
    block = h.blocks[0];
    h.changes++; /* another thread was writing, and others were reading */
    h.readers = 3;
    cp__histogram_forget(&h);
    CHECK_EQ(cp__histogram_record(&h, 9), 0);
    CHECK(h.count == 1 && h.min == 9 && h.max == 9 && h.changes % 2 == 0 && h.aside == NULL);
    CHECK(h.blocks[0] != block);
    cp__histogram_fini(&h);
    free(block);
}

#if TEST_ASAN || TEST_TSAN
CP_TEST(without_memory_nothing_changes)
{
    SKIP("A sanitizer has the allocator that this test takes the place of.");
}
#else
static void check_merge_without_memory(struct cp__histogram *into, const struct cp__histogram *from)
{
    struct cp__histogram *before = taken(into);
    unsigned n;
    int result = -ENOMEM;

    for (n = 1; result != 0; n++) {
        fail_calls(n, UINT32_MAX);
        result = cp__histogram_merge(into, from);
        CHECK_EQ(result, have_failed() ? -ENOMEM : 0);
        if (result != 0)
            CHECK(into->count == before->count && into->sum[0] == before->sum[0] &&
                  into->max == before->max && in_buckets(into) == before->count);
    }
    CHECK_EQ(n, 2 + 3); /* two blocks of `from`, one of its `aside` */
    CHECK_EQ(into->count, 1 + 3);
    free_taken(before);
}

CP_TEST(without_memory_nothing_changes)
{
    struct cp__histogram h, other;

    cp__histogram_init(&h);
    cp__histogram_init(&other);
    CHECK_EQ(cp__histogram_record(&h, 5), 0);
    fail_calls(1, UINT32_MAX);
    CHECK_EQ(cp__histogram_record(&h, 6), 0); /* the block is there */
    CHECK_EQ(cp__histogram_record(&h, 1000), -ENOMEM);
    CHECK(h.count == 2 && h.max == 6 && h.changes % 2 == 0);
    h.readers = 1;
    CHECK_EQ(cp__histogram_record(&h, 7), 0); /* there is no memory for what is aside */
    CHECK(have_failed() && h.count == 3);
    CHECK_EQ(cp__histogram_record(&h, 1), 0);
    CHECK(h.count == 3 && h.aside->count == 1);
    h.readers = 0;
    cp__histogram_fini(&h);

    CHECK_EQ(cp__histogram_record(&other, 70), 0);
    CHECK_EQ(cp__histogram_record(&h, 5), 0);
    CHECK_EQ(cp__histogram_record(&h, 1000), 0);
    h.readers = 1;
    CHECK_EQ(cp__histogram_record(&h, 7), 0);
    h.readers = 0;
    check_merge_without_memory(&other, &h);
    cp__histogram_fini(&h);
    cp__histogram_fini(&other);
}
#endif
