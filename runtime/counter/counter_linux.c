/*
 * Counters through perf_event_open(2).
 *
 * An inherited event (attr.inherit) counts on the thread that opened it. It also counts on every thread that
 * one of its threads starts, because the kernel copies the event. A read sums up all copies, also those of
 * threads that have ended; enabling and disabling reach all copies. See design/0021-counters.md.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counter.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/sized.h"
#include "runtime/base/sys_linux.h"
#include "runtime/event/rows.h"
#include "runtime/perf/core_pmu_linux.h"
#include "runtime/perf/perf_linux.h"

/* What read(2) of an event returns, or the sum of several such readings. */
struct reading {
    uint64_t count;
    uint64_t enabled;
    uint64_t running;
};

struct cp_counter {
    struct {
        int fd;
        uint64_t id;
    } events[CP__CORE_PMUS]; /* the event on each kind of core */
    int n;
    struct reading zero; /* the reading that counts as 0 */
    struct cp__event_text name;
};

/* Opens the event on one kind of core. Kernels before 5.13 do not know inherit_thread; they also copy the
 * event to children of fork(). */
static int add_counted_from_handler(void *context, struct perf_event_attr *attr)
{
    struct cp_counter *counter = context;
    int fd = cp__perf_open_from_handler(attr, 0);

    if (fd == -EINVAL) {
        attr->inherit_thread = 0;
        fd = cp__perf_open_from_handler(attr, 0);
    }
    if (fd < 0)
        return fd;
    counter->events[counter->n].fd = fd;
    counter->events[counter->n++].id = cp__perf_id_from_handler(fd);
    return 0;
}

static int open_events(struct cp_counter *counter, const struct cp_slot_request *request)
{
    struct perf_event_attr attr = cp__perf_attr_from_handler(&request->config);

    attr.inherit = 1;
    attr.inherit_thread = 1;
    return cp__core_pmus_add_from_handler(&attr, add_counted_from_handler, counter);
}

/* Refuses what perf_event_open(2) does not know. */
static int refuse_uncounted(const struct cp_event_spec *spec, struct cp_error *err)
{
    if (spec->event == CP_CPUPROF_OS_TIMER)
        return cp__error_because(
            err, -EINVAL, "no event to count",
            "The event timer cannot be counted: the timer is a clock's signal and not an event of the "
            "kernel. Use taskClock, which counts the same CPU time in nanoseconds.");
    if (spec->kind == CP_EVENT_WAIT)
        return cp__error_because(err, -EINVAL, "no event to count",
                                 "The event %s cannot be counted: the runtime tells of waits, and not the "
                                 "kernel. cp_g_stats() has for how long a G has waited, and how often.",
                                 spec->name);
    return 0;
}

int cp_counter_open(struct cp_counter **out, const struct cp_event_spec *spec, struct cp_error *err)
{
    struct cp_slot_request request;
    struct cp_event_spec own;
    struct cp_counter *counter;
    int result = CP__TAKE(cp_event_spec, &own, spec, err);

    if (result == 0)
        result = cp__spec_request(&own, &request, err);
    if (result == 0)
        result = refuse_uncounted(&own, err);
    if (result < 0)
        return result;
    counter = calloc(1, sizeof *counter);
    if (counter == NULL)
        return cp__error(err, -ENOMEM, "There is no memory for a counter (%zu bytes).", sizeof *counter);
    counter->name = cp__request_name(&request);
    cp__perf_prepare();
    cp__fork_delay(); /* because events are opened */
    result = cp__perf_try_count(&request);
    if (result == 0)
        result = open_events(counter, &request);
    cp__fork_allow();
    if (result < 0) {
        cp_counter_close(counter);
        return cp__perf_explain_count(result, &request, err);
    }
    *out = counter;
    return 0;
}

void cp_counter_close(struct cp_counter *counter)
{
    if (counter == NULL)
        return;
    cp__fork_delay();
    for (int i = 0; i < counter->n; i++)
        cp__perf_close_from_handler(counter->events[i].fd, counter->events[i].id);
    cp__fork_allow();
    free(counter);
}

/* The program may have closed a descriptor, and opened something else that has its number now. */
static bool has_its_events(const struct cp_counter *counter)
{
    bool is = true;

    for (int i = 0; i < counter->n; i++)
        is = is && cp__perf_is_event_from_handler(counter->events[i].fd, counter->events[i].id);
    return is;
}

/* Applies an ioctl() to all events of n counters, or to none if one of the events is gone. All are looked at
 * first, so that what is counted of that is the same for each counter, or nothing. */
static int control(struct cp_counter *const *counters, size_t n, unsigned long request)
{
    for (size_t i = 0; i < n; i++) {
        if (!has_its_events(counters[i]))
            return -EBADF;
    }
    for (size_t i = 0; i < n; i++) {
        for (int kind = 0; kind < counters[i]->n; kind++) {
            int result = cp__sys_ioctl_from_handler(counters[i]->events[kind].fd, request, 0);

            if (result < 0)
                return result;
        }
    }
    return 0;
}

int cp_counters_start(struct cp_counter *const *counters, size_t n)
{
    return control(counters, n, PERF_EVENT_IOC_ENABLE);
}

/* Stops in the order of starting, so that every counter counts the same work besides the caller's. */
int cp_counters_stop(struct cp_counter *const *counters, size_t n)
{
    return control(counters, n, PERF_EVENT_IOC_DISABLE);
}

/* Sums up the events on all kinds of cores. While the thread runs, all of them are enabled and one of them
 * runs, so the running times add up and the enabled times do not. */
static int read_counter(const struct cp_counter *counter, struct reading *sum)
{
    *sum = (struct reading){.count = 0};
    if (!has_its_events(counter))
        return -EBADF;
    for (int i = 0; i < counter->n; i++) {
        struct reading one;
        long size = cp__sys_read_from_handler(counter->events[i].fd, &one, sizeof one);

        if (size != sizeof one)
            return size < 0 ? (int)size : -EIO;
        sum->count += one.count;
        sum->running += one.running;
        sum->enabled = one.enabled > sum->enabled ? one.enabled : sum->enabled;
    }
    return 0;
}

/* Makes the value of a reading. Returns -EBUSY if the event never had a counter. */
static int make_value(const struct cp_counter *counter, const struct reading *now,
                      struct cp_counter_value *value, struct cp_error *err)
{
    *value = (struct cp_counter_value){
        .count = now->count - counter->zero.count,
        .raw = now->count - counter->zero.count,
        .enabled_ns = now->enabled - counter->zero.enabled,
        .running_ns = now->running - counter->zero.running,
    };
    if (value->running_ns >= value->enabled_ns)
        return 0;
    if (value->running_ns == 0)
        return cp__error_because(err, -EBUSY, "never had a counter",
                                 "The event %s was not counted: the event never had one of the PMU's "
                                 "counters while the threads ran. Count fewer events at once or for longer, "
                                 "end other profilers, or set kernel.nmi_watchdog=0 with sysctl.",
                                 counter->name.text);
    value->is_scaled = true;
    value->count =
        (uint64_t)((double)value->raw * (double)value->enabled_ns / (double)value->running_ns + 0.5);
    return 0;
}

int cp_counter_read(struct cp_counter *counter, struct cp_counter_value *value, struct cp_error *err)
{
    struct cp_counter_value own = {.count = 0};
    struct reading now;
    int result = read_counter(counter, &now), filled;

    if (result < 0)
        cp__error(err, result, "The counter of %s cannot be read (%s). Close the counter and open a new one.",
                  counter->name.text, strerror(-result));
    else
        result = make_value(counter, &now, &own, err);
    filled = CP__GIVE(cp_counter_value, value, &own, err);
    return filled < 0 ? filled : result;
}

int cp_counter_reset(struct cp_counter *counter)
{
    struct reading now;
    int result = read_counter(counter, &now);

    if (result == 0)
        counter->zero = now;
    return result;
}
