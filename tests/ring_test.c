/* What a ring's records stand for: a ring of the test's own, filled as the kernel would. */
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/m.h"
#include "runtime/os.h"
#include "runtime/record.h"
#include "test.h"

#define PERIOD 100000
#define ID 7
#define SLOT 3
/* What a sample's record has before the event's count: header and identifier. */
#define READ_OFFSET 2

struct ring {
    struct perf_event_mmap_page *page;
    uint64_t *data;
    struct cp__m m;
};

static struct ring *new_ring(enum cp_event_kind kind)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    struct ring *ring = calloc(1, sizeof *ring);

    cp__m_prepare();
    ring->page = aligned_alloc(size, 2 * size);
    memset(ring->page, 0, 2 * size);
    ring->data = (uint64_t *)((char *)ring->page + size);
    ring->m.ring.page = ring->page;
    ring->m.handles[SLOT] = (struct cp__handle){.seq = 1,
                                                .period = PERIOD,
                                                .perf_id = ID,
                                                .read_offset = READ_OFFSET,
                                                .fd = 100,
                                                .kind = kind,
                                                .folds = kind == CP_EVENT_CLOCK};
    return ring;
}

static void free_ring(struct ring *ring)
{
    free(ring->page);
    free(ring);
}

static void put(struct ring *ring, uint32_t type, const uint64_t *words, size_t n)
{
    uint64_t size_words = (size_t)sysconf(_SC_PAGESIZE) / sizeof(uint64_t);
    struct perf_event_header header = {.type = type, .size = (uint16_t)((n + 1) * sizeof(uint64_t))};
    uint64_t at = ring->page->data_head / sizeof(uint64_t);

    memcpy(&ring->data[at % size_words], &header, sizeof header);
    for (size_t i = 0; i < n; i++)
        ring->data[(at + 1 + i) % size_words] = words[i];
    ring->page->data_head += header.size;
}

static void put_sample(struct ring *ring, uint64_t id, uint64_t count)
{
    put(ring, PERF_RECORD_SAMPLE, (const uint64_t[]){id, count, count, count, 0}, 5);
}

static struct cp__moment read_ring(struct ring *ring)
{
    const siginfo_t info = {.si_code = POLL_IN};
    struct cp__moment moment;

    cp__moment_begin_from_handler(&moment, NULL, 0);
    cp__sigprof_pmu_handler(&ring->m, &info, &moment);
    CHECK_EQ(ring->page->data_tail, ring->page->data_head);
    return moment;
}

static void check_moment(struct ring *ring, uint64_t weight, uint64_t stalled)
{
    struct cp__moment moment = read_ring(ring);

    CHECK_EQ(moment.weight[SLOT], weight);
    CHECK_EQ(moment.stalled[SLOT], stalled);
    for (int slot = 0; slot < CP_EV_MAX; slot++)
        CHECK(slot == SLOT || (moment.weight[slot] == 0 && moment.stalled[slot] == 0));
}

CP_TEST(each_record_is_a_sample)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    check_moment(ring, 0, 0);
    for (uint64_t i = 1; i <= 5; i++)
        put_sample(ring, ID, i * PERIOD + 900);
    put_sample(ring, ID + 1, 77); /* of an event that is gone */
    check_moment(ring, 5, 0);
    CHECK_EQ(ring->m.stats[SLOT].count, 5 * PERIOD + 900);
    CHECK_EQ(ring->m.stats[SLOT].overruns, 0);
    check_moment(ring, 0, 0);
    free_ring(ring);
}

/* The ring goes round many times, and records run over its end. */
CP_TEST(records_run_over_the_rings_end)
{
    struct ring *ring = new_ring(CP_EVENT_SOFTWARE);

    for (uint64_t i = 1; i <= 1000; i++) {
        put_sample(ring, ID, i);
        check_moment(ring, 1, 0);
    }
    free_ring(ring);
}

CP_TEST(a_late_record_stands_for_the_periods_it_missed)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    put_sample(ring, ID, PERIOD);
    check_moment(ring, 1, 0);
    put_sample(ring, ID, 6 * PERIOD + PERIOD / 2); /* four were missed */
    check_moment(ring, 5, 0);
    put_sample(ring, ID, 7 * PERIOD); /* and the next is in time again */
    check_moment(ring, 1, 0);
    CHECK_EQ(ring->m.stats[SLOT].overruns, 4);
    free_ring(ring);
}

/* A few counts early or late, in the noise of reading, is neither a period more nor one fewer. */
CP_TEST(noise_is_no_period)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    put_sample(ring, ID, PERIOD - 500);
    put_sample(ring, ID, 2 * PERIOD + PERIOD / 2);
    put_sample(ring, ID, 3 * PERIOD - 500);
    put_sample(ring, ID, 4 * PERIOD);
    check_moment(ring, 4, 0);
    put_sample(ring, ID, 6 * PERIOD - 500); /* one was missed */
    check_moment(ring, 2, 0);
    free_ring(ring);
}

/* The machine stood still for 30 ms: no function's time, but not forgotten. */
CP_TEST(a_long_gap_is_no_functions_time)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    put_sample(ring, ID, PERIOD);
    check_moment(ring, 1, 0);
    put_sample(ring, ID, 302 * PERIOD);
    check_moment(ring, 1, 300);
    put_sample(ring, ID, 303 * PERIOD);
    check_moment(ring, 1, 0);
    CHECK_EQ(ring->m.stats[SLOT].overruns, 300);
    free_ring(ring);
}

/* Other events have a record for each period, whatever their count says meanwhile. */
CP_TEST(only_clocks_are_folded)
{
    struct ring *ring = new_ring(CP_EVENT_SOFTWARE);

    put_sample(ring, ID, 10 * PERIOD);
    put_sample(ring, ID, 500 * PERIOD);
    check_moment(ring, 2, 0);
    free_ring(ring);
}

CP_TEST(throttling_is_told)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    put(ring, PERF_RECORD_THROTTLE, (const uint64_t[]){12345, ID, ID}, 3);
    put(ring, PERF_RECORD_THROTTLE, (const uint64_t[]){12345, ID + 1, ID + 1}, 3);
    put(ring, PERF_RECORD_UNTHROTTLE, (const uint64_t[]){12346, ID, ID}, 3);
    check_moment(ring, 0, 0);
    CHECK_EQ(ring->m.stats[SLOT].throttled, 1);
    free_ring(ring);
}
