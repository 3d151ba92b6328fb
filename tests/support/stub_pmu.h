/*
 * A PMU for machines without one. This program's perf_event_open() opens the kernel's task clock for hardware
 * events, one event per nanosecond, and behaves like PMUs that are not available elsewhere.
 */
#ifndef COUNTERPOINT_TESTS_STUB_PMU_H
#define COUNTERPOINT_TESTS_STUB_PMU_H

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <sys/ioctl.h>

#include "atomic.h"
#include "stub_syscall.h"
#include "test.h"

/* The properties of this PMU. Tests set the fields before events are opened. If other threads open events,
 * is_absent and is_silent are stored atomically. */
static struct {
    unsigned most_precise; /* higher levels of precise_ip are refused */
    /* from this level on, events count but deliver no sample; 0: all levels deliver samples */
    unsigned silent_from;
    /* the number of kinds of cores; every thread runs on a core of the first kind */
    unsigned kinds;
    unsigned refuses_kind;       /* the kind of which no event opens */
    bool is_absent;              /* there is no PMU */
    bool is_silent;              /* events open but count nothing */
    bool only_cycles_happen;     /* of all events, only cycles count */
    bool knows_idle;             /* exclude_idle is accepted */
    bool inherits_all;           /* the kernel does not know inherit_thread */
    bool is_failed;              /* every event is in an error state, like a pinned event without a counter */
    struct perf_event_attr last; /* the last attr that was asked for */
    int opened;                  /* how many events were opened */
    uint64_t ioctls;             /* the number of DISABLE and ENABLE, over all events */
    /* Opens watchpoints, with perf_event_open()'s arguments. NULL: the kernel opens them. */
    long (*open_watchpoint)(const struct perf_event_attr *asked, const long a[6]);
    /* Reads any file, with read()'s arguments and result. NULL: the kernel reads. */
    long (*read)(int fd, void *buffer, size_t size);
} stub_pmu;

/* The stub is a clock, and a clock with a shorter period may leave its thread no time. */
#define STUB_LEAST_PERIOD_NS 100000

/* The kinds of cores are PMUs with the numbers STUB_TYPE + 1 and so on. */
#define STUB_TYPE 1000

/* Returns the kind of core that attr names; 0: none. */
static unsigned stub_kind(const struct perf_event_attr *attr)
{
    bool is_general = attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE;
    uint64_t type = is_general ? attr->config >> 32 : attr->type;

    return type > STUB_TYPE ? (unsigned)type - STUB_TYPE : 0;
}

static bool stub_happens(const struct perf_event_attr *attr)
{
    bool is_cycles = attr->type == PERF_TYPE_HARDWARE && (uint32_t)attr->config == PERF_COUNT_HW_CPU_CYCLES;

    /* relaxed: the flag orders nothing else */
    return !cp_load_relaxed(&stub_pmu.is_silent) && (is_cycles || !stub_pmu.only_cycles_happen) &&
           stub_kind(attr) <= 1;
}

static long stub_open(const struct perf_event_attr *asked, long pid, long cpu, long group, long flags)
{
    struct perf_event_attr attr = *asked;
    unsigned kind = stub_kind(asked);

    if (cp_load_relaxed(&stub_pmu.is_absent) || kind > stub_pmu.kinds ||
        (kind != 0 && kind == stub_pmu.refuses_kind)) {
        errno = ENOENT;
        return -1;
    }
    if (asked->precise_ip > stub_pmu.most_precise || (asked->exclude_idle && !stub_pmu.knows_idle)) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (asked->inherit_thread && stub_pmu.inherits_all) {
        errno = EINVAL;
        return -1;
    }
    stub_pmu.last = *asked;
    stub_pmu.opened++;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = stub_happens(asked) ? PERF_COUNT_SW_TASK_CLOCK : PERF_COUNT_SW_EMULATION_FAULTS;
    if (stub_pmu.silent_from != 0 && asked->precise_ip >= stub_pmu.silent_from)
        attr.sample_period = (uint64_t)1 << 40;
    attr.precise_ip = 0;
    if (attr.sample_period != 0 && attr.sample_period < STUB_LEAST_PERIOD_NS)
        attr.sample_period = STUB_LEAST_PERIOD_NS;
    long fd = hand_on(SYS_perf_event_open, (const long[6]){(long)&attr, pid, cpu, group, flags});
    if (fd >= 0 || !attr.inherit_thread)
        return fd;
    attr.inherit_thread = 0; /* the kernel is older than Linux 5.13 */
    return hand_on(SYS_perf_event_open, (const long[6]){(long)&attr, pid, cpu, group, flags});
}

static void stub_count_ioctl(unsigned long request)
{
    if (request == PERF_EVENT_IOC_DISABLE || request == PERF_EVENT_IOC_ENABLE)
        cp_fetch_add_relaxed(&stub_pmu.ioctls, 1); /* relaxed: read after everything is over */
}

static long stub_syscall(long number, const long a[6])
{
    if (number == SYS_perf_event_open) {
        const struct perf_event_attr *attr = (const struct perf_event_attr *)a[0];

        if (attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE ||
            attr->type == PERF_TYPE_RAW || attr->type > STUB_TYPE)
            return stub_open(attr, a[1], a[2], a[3], a[4]);
        if (attr->type == PERF_TYPE_BREAKPOINT && stub_pmu.open_watchpoint != NULL)
            return stub_pmu.open_watchpoint(attr, a);
    }
    if (number == SYS_ioctl)
        stub_count_ioctl((unsigned long)a[1]);
    if (number == SYS_read && stub_pmu.is_failed && a[2] == 4 * sizeof(uint64_t))
        return 0; /* like the end of a file */
    if (number == SYS_read && stub_pmu.read != NULL)
        return stub_pmu.read((int)a[0], (void *)a[1], (size_t)a[2]);
    return hand_on(number, a);
}

#endif
