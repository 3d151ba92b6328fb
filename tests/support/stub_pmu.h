/*
 * A PMU where there is none: perf_event_open() of this program gives the kernel's task clock for hardware
 * events, a nanosecond an event, and answers as PMUs do that can be had nowhere else.
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

/* What this PMU is like; fields are set before events are opened. If other threads open them, is_absent and
 * is_silent are stored atomically. */
static struct {
    unsigned most_precise;       /* levels of precise_ip above it are refused */
    unsigned silent_from;        /* from this level on events count and deliver no sample; 0: none are */
    unsigned kinds;              /* of cores; every thread is on one of the first kind */
    unsigned refuses_kind;       /* of which no event opens */
    bool is_absent;              /* there is no PMU */
    bool is_silent;              /* events open and count nothing */
    bool only_cycles_happen;     /* of all events */
    bool knows_idle;             /* exclude_idle is not refused */
    bool inherits_all;           /* the kernel does not know inherit_thread */
    bool is_failed;              /* every event is in an error state, as a pinned one without a counter */
    struct perf_event_attr last; /* what was asked for last */
    int opened;                  /* how often */
    uint64_t ioctls;             /* DISABLE and ENABLE of any event */
    /* Opens watchpoints, with perf_event_open()'s arguments; NULL: the kernel does. */
    long (*open_watchpoint)(const struct perf_event_attr *asked, const long a[6]);
    /* Reads any file, with read()'s arguments and result; NULL: the kernel does. */
    long (*read)(int fd, void *buffer, size_t size);
} stub_pmu;

/* The kinds of cores are PMUs number STUB_TYPE + 1 and so on. */
#define STUB_TYPE 1000

/* 0: none was named. */
static unsigned stub_kind(const struct perf_event_attr *attr)
{
    bool is_general = attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE;
    uint64_t type = is_general ? attr->config >> 32 : attr->type;

    return type > STUB_TYPE ? (unsigned)type - STUB_TYPE : 0;
}

static bool stub_happens(const struct perf_event_attr *attr)
{
    bool is_cycles = attr->type == PERF_TYPE_HARDWARE && (uint32_t)attr->config == PERF_COUNT_HW_CPU_CYCLES;

    /* relaxed: a flag of its own */
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
    long fd = real_syscall(SYS_perf_event_open, &attr, pid, cpu, group, flags);
    if (fd >= 0 || !attr.inherit_thread)
        return fd;
    attr.inherit_thread = 0; /* the kernel is older than Linux 5.13 */
    return real_syscall(SYS_perf_event_open, &attr, pid, cpu, group, flags);
}

static void stub_count_ioctl(unsigned long request)
{
    if (request == PERF_EVENT_IOC_DISABLE || request == PERF_EVENT_IOC_ENABLE)
        cp_fetch_add_relaxed(&stub_pmu.ioctls, 1); /* relaxed: looked at when all is over */
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
        return 0; /* as at the end of a file */
    if (number == SYS_read && stub_pmu.read != NULL)
        return stub_pmu.read((int)a[0], (void *)a[1], (size_t)a[2]);
    return hand_on(number, a);
}

#endif
