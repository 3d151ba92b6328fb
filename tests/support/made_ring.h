/* A ring made by a test and filled as the kernel would, of an M that has one event. */
#ifndef COUNTERPOINT_TESTS_MADE_RING_H
#define COUNTERPOINT_TESTS_MADE_RING_H

#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/chunk.h"
#include "runtime/engine/events_linux.h"
#include "runtime/engine/perf_m_linux.h"
#include "runtime/m.h"
#include "runtime/moment.h"
#include "runtime/perf/perf_linux.h"
#include "runtime/prepare.h"
#include "test.h"

#define PERIOD 100000
#define ID 7
#define FD 4000 /* no descriptor of the process has this number */
#define SLOT 3
#define SAMPLE_TYPE (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_READ)

struct ring {
    struct perf_event_mmap_page *page;
    uint64_t *data;
    struct cp__m m;
    struct cp__perf_m perf;
};

static inline struct ring *new_ring(enum cp_event_kind kind)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    struct ring *ring = calloc(1, sizeof *ring);

    cp__prepare();
    cp__perf_has_lost_count = true; /* the records here are those of such a kernel */
    CHECK_EQ(cp__pool_resize(1), 0);
    ring->page = aligned_alloc(size, 2 * size);
    memset(ring->page, 0, 2 * size);
    ring->data = (uint64_t *)((char *)ring->page + size);
    ring->m.own[CP__ENGINE_PERF].memory = &ring->perf;
    ring->perf.ring = (struct cp__ring){
        .page = ring->page, .words = ring->data, .n_words = size / sizeof *ring->data, .fd = -1};
    ring->perf.handles[SLOT] = (struct cp__perf_handle){.seq = 1,
                                                        .period = PERIOD,
                                                        .events = {{.fd = FD, .id = ID}},
                                                        .n_events = 1,
                                                        .layout = cp__record_layout_from_handler(SAMPLE_TYPE),
                                                        .kind = kind,
                                                        .periods.folds = kind == CP_EVENT_CLOCK};
    ring->m.handles[SLOT] = (struct cp__handle){
        .seq = 1, .engine = &cp__engine_perf, .kind = kind, .signal = SIGPROF, .is_open = true};
    ring->m.armed = 1u << SLOT;
    ring->m.stats[SLOT].counts_time = kind == CP_EVENT_CLOCK;
    return ring;
}

static inline void free_ring(struct ring *ring)
{
    cp__samplebuf_free(&ring->m.buffers[SLOT]);
    free(ring->page);
    free(ring);
}

static inline void put_misc(struct ring *ring, uint32_t type, uint16_t misc, const uint64_t *words, size_t n)
{
    uint64_t size_words = (size_t)sysconf(_SC_PAGESIZE) / sizeof(uint64_t);
    struct perf_event_header header = {
        .type = type, .misc = misc, .size = (uint16_t)((n + 1) * sizeof(uint64_t))};
    uint64_t at = ring->page->data_head / sizeof(uint64_t);

    memcpy(&ring->data[at % size_words], &header, sizeof header);
    for (size_t i = 0; i < n; i++)
        ring->data[(at + 1 + i) % size_words] = words[i];
    ring->page->data_head += header.size;
}

static inline void put(struct ring *ring, uint32_t type, const uint64_t *words, size_t n)
{
    put_misc(ring, type, 0, words, n);
}

static inline void put_sample(struct ring *ring, uint64_t id, uint64_t count)
{
    put(ring, PERF_RECORD_SAMPLE, (const uint64_t[]){id, count, count, count, 0}, 5);
}

static inline struct cp__moment read_ring(struct ring *ring)
{
    const siginfo_t info = {.si_code = POLL_IN};
    struct cp__moment moment;

    cp__moment_begin_from_handler(&moment, NULL, CP__SINCE_HERE);
    cp__events_on_signal_from_handler(&ring->m, &info, &moment);
    CHECK_EQ(ring->page->data_tail, ring->page->data_head);
    return moment;
}

static inline void check_moment(struct ring *ring, uint64_t weight, uint64_t stalled)
{
    struct cp__moment moment = read_ring(ring);

    CHECK_EQ(moment.weight[SLOT], weight);
    CHECK_EQ(moment.stalled[SLOT], stalled);
    for (int slot = 0; slot < CP_EV_MAX; slot++)
        CHECK(slot == SLOT || (moment.weight[slot] == 0 && moment.stalled[slot] == 0));
}

#endif
