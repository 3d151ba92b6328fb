/*
 * Meters through perf_event_open(2).
 *
 * If the kernel lets programs read the PMU's counters, an event's page says in which of them the event is,
 * and what to add: then a reading is some instructions. The page's lock is odd or changes while the kernel
 * changes the page, at the latest when it switches to the thread; no other CPU does. Otherwise, and for
 * events that the kernel itself counts, a reading is a read(2), before which the descriptor must be known to
 * be the event's still: a program may close what it does not know, and what it then opens must not be read.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core_cycles.h"
#include "counters.h"
#include "meter.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"
#include "runtime/perf/core_pmu_linux.h"
#include "runtime/perf/perf_linux.h"

/* ---- Opening --------------------------------------------------------------------------------- */

/* Maps the page of an event. Every event has one, and the kernel counts it as locked memory, of which a user
 * has some: without the page, readings take a call. */
static void *map_page(int fd)
{
    void *page = mmap(NULL, cp__perf_page_size, PROT_READ, MAP_SHARED, fd, 0);

    return page == MAP_FAILED ? NULL : page;
}

/* Returns whether the event is of the PMU of a core, whose config1 has the bits of CP__PMC_CONFIG1. */
static bool is_of_core_pmu(const struct perf_event_attr *attr)
{
    bool is =
        attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE || attr->type == PERF_TYPE_RAW;

    for (int i = 0; i < cp__core_pmus.n; i++)
        is = is || attr->type == cp__core_pmus.types[i];
    return is;
}

/* Opens an event, so that the program can read its counter if that can be: the kernel may not know the bits
 * that ask for it, or the counter may not have the width. */
static int open_readable_from_handler(struct perf_event_attr *attr)
{
    int fd = -EINVAL;

    for (uint64_t bits = is_of_core_pmu(attr) ? CP__PMC_CONFIG1 : 0; bits != 0; bits &= bits - 1) {
        struct perf_event_attr readable = *attr;

        readable.config1 |= bits;
        fd = cp__perf_open_from_handler(&readable, 0);
        if (fd != -EINVAL && fd != -EOPNOTSUPP)
            return fd;
    }
    return cp__perf_open_from_handler(attr, 0);
}

/* Opens the event on one kind of core. */
static int add_counting_from_handler(void *context, struct perf_event_attr *attr)
{
    struct cp__meter_on_m *on_m = context;
    int fd = open_readable_from_handler(attr);

    if (fd < 0)
        return fd;
    on_m->events[on_m->n].fd = fd;
    on_m->events[on_m->n].id = cp__perf_id_from_handler(fd);
    on_m->events[on_m->n++].page = map_page(fd);
    return 0;
}

/* Opens an event that counts nothing, and whose page tells when the kernel has switched to the thread. */
static int open_dummy(struct cp__meter_on_m *on_m)
{
    struct perf_event_attr attr = cp__perf_dummy_attr_from_handler();
    int result;

    attr.disabled = 0;
    result = add_counting_from_handler(on_m, &attr);
    if (result == 0 && on_m->events[0].page == NULL) {
        cp__meter_close(on_m);
        return -ENOMEM;
    }
    return result;
}

static int open_event(struct cp__meter_on_m *on_m, const struct cp__meter *meter)
{
    struct perf_event_attr attr = cp__perf_attr_from_handler(&meter->request.config);

    attr.disabled = 0;
    return cp__core_pmus_add_from_handler(&attr, add_counting_from_handler, on_m);
}

int cp__meter_open(struct cp__meter_on_m *on_m, const struct cp__meter *meter)
{
    int result = 0;

    if (on_m->seq == meter->seq)
        return 0;
    cp__meter_close(on_m);
    if (meter->kind != CP__METER_CPU_TIME) {
        cp__fork_delay(); /* because events are opened */
        result = meter->kind == CP__METER_EVENT ? open_event(on_m, meter) : open_dummy(on_m);
        cp__fork_allow();
    }
    if (result < 0)
        return result;
    on_m->failures++; /* what was counted before is gone */
    on_m->missed = 0;
    on_m->seq = meter->seq;
    return 0;
}

void cp__meter_close(struct cp__meter_on_m *on_m)
{
    for (unsigned i = 0; i < on_m->n; i++) {
        if (on_m->events[i].page != NULL)
            cp__sys_munmap_from_handler(on_m->events[i].page, cp__perf_page_size);
        cp__perf_close_from_handler(on_m->events[i].fd, on_m->events[i].id);
    }
    on_m->n = 0;
    on_m->seq = 0;
}

void cp__meter_forget(struct cp__meter_on_m *on_m, bool has_descriptors)
{
    for (unsigned i = 0; i < on_m->n && has_descriptors; i++) /* the kernel maps no page in the child */
        cp__perf_close_from_handler(on_m->events[i].fd, on_m->events[i].id);
    on_m->n = 0;
    on_m->seq = 0;
}

int cp__meter_try(const struct cp__meter *meter, struct cp_error *err)
{
    struct cp__meter_on_m trial = {.seq = 0};
    const struct cp__meter opened = {.seq = 1, .kind = meter->kind, .request = meter->request};
    int result;

    cp__perf_prepare();
    cp__fork_delay();
    result = cp__perf_try_count(&meter->request);
    cp__fork_allow();
    if (result == 0)
        result = cp__meter_open(&trial, &opened);
    cp__meter_close(&trial);
    return result < 0 ? cp__perf_explain_count(result, &meter->request, err) : 0;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads an event by its page. Returns false if the program cannot read the event's counter, or the event has
 * none now. Relaxed, all: the kernel changes the page on this CPU, or while the thread does not run. */
static inline bool read_page(const struct perf_event_mmap_page *page, struct cp__count *count)
{
    uint32_t lock, index;
    uint64_t value;

    do {
        lock = cp_load_relaxed(&page->lock);
        cp_fence_signal();
        index = cp_load_relaxed(&page->index);
        if (index == 0 || !page->cap_user_rdpmc)
            return false;
        count->time_enabled = cp_load_relaxed(&page->time_enabled);
        count->time_running = cp_load_relaxed(&page->time_running);
        value = cp__pmc(index) << (64 - page->pmc_width);
        count->value =
            (uint64_t)cp_load_relaxed(&page->offset) + (uint64_t)((int64_t)value >> (64 - page->pmc_width));
        cp_fence_signal();
    } while (cp_load_relaxed(&page->lock) != lock);
    return true;
}

/* Reads an event by a call. */
static bool read_by_call(const struct cp__meter_on_m *on_m, unsigned i, struct cp__count *count)
{
    return cp__perf_is_event_from_handler(on_m->events[i].fd, on_m->events[i].id) &&
           cp__sys_read_from_handler(on_m->events[i].fd, count, sizeof *count) > 0;
}

/* The count of a clock is the time for which it ran: see cp__m_count_from_handler(). */
static bool is_clock(const struct cp__meter *meter)
{
    const struct cp_event_encoding *encoding = &meter->request.config.encoding;

    return encoding->type == PERF_TYPE_SOFTWARE &&
           (encoding->config == PERF_COUNT_SW_CPU_CLOCK || encoding->config == PERF_COUNT_SW_TASK_CLOCK);
}

/* If there are several events, what they miss is told if it is more ns than this: they are not read at one
 * moment. */
#define UNTOLD_NS 50000u

/* Sums up the events on all kinds of cores. While the thread runs, all of them are enabled and one of them
 * runs. The one that was opened last is read first, and tells for how long they were enabled: so what they
 * missed is never too much. It only grows, whatever the readings take. */
static bool read_events(struct cp__meter_on_m *on_m, const struct cp__meter *meter,
                        struct cp__reading *reading)
{
    uint64_t enabled = 0, running = 0;

    for (unsigned i = on_m->n; i-- > 0;) {
        struct cp__count one;
        const bool by_page = CP__HAS_PMC && on_m->n == 1 && on_m->events[i].page != NULL;

        if (!(by_page && read_page(on_m->events[i].page, &one)) && !read_by_call(on_m, i, &one))
            return false;
        reading->value += is_clock(meter) ? one.time_running : one.value;
        running += one.time_running;
        enabled = i == on_m->n - 1 ? one.time_enabled : enabled;
    }
    if (enabled > running + on_m->missed + (on_m->n > 1 ? UNTOLD_NS : 0))
        on_m->missed = enabled - running;
    reading->missed = on_m->missed;
    return true;
}

/* Reads the core's cycles. If the kernel has switched to the thread since the last reading, the core may have
 * made cycles for others, or be another one. */
static void read_core_cycles(struct cp__meter_on_m *on_m, struct cp__reading *reading)
{
    const struct perf_event_mmap_page *page = on_m->events[0].page;
    uint32_t lock;

    do {
        lock = cp_load_relaxed(&page->lock); /* relaxed, both: as in read_page() */
        cp_fence_signal();
        reading->value = cp__core_cycles();
        cp_fence_signal();
    } while (cp_load_relaxed(&page->lock) != lock);
    on_m->failures += lock != on_m->page_lock;
    on_m->page_lock = lock;
    reading->missed = 0;
}

struct cp__reading cp__meter_read(struct cp__meter_on_m *on_m, const struct cp__meter *meter)
{
    struct cp__reading reading = {.value = 0};

    if (on_m->seq != meter->seq) {
        on_m->failures++; /* the M could not open the meter */
        reading.value = on_m->base.value;
    } else if (meter->kind == CP__METER_CPU_TIME) {
        reading.value = cp__os_clock_ns_from_handler(CLOCK_THREAD_CPUTIME_ID);
    } else if (meter->kind == CP__METER_CORE_CYCLES) {
        read_core_cycles(on_m, &reading);
    } else if (!read_events(on_m, meter, &reading)) {
        cp__meter_close(on_m);
        on_m->failures++;
        reading.value = on_m->base.value;
    }
    reading.missed += on_m->failures;
    return reading;
}
