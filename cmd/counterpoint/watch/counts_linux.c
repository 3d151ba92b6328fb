/* What is counted in rounds beside time. See probes.h. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "probes.h"
#include "runtime/base/fail.h"
#include "runtime/event/rows.h"
#include "runtime/perf/core_pmu_linux.h"
#include "runtime/perf/perf_linux.h"

/* Where the value of a quantity comes from. */
enum count_source {
    COUNT_TIME,     /* the records' times: while a thread runs, this is its CPU time */
    COUNT_SWITCHES, /* the records of the thread's own switches */
    COUNT_EVENT,    /* an event of its own */
};

struct watch_counts {
    size_t n;
    struct cp__watch_quantity quantities[WATCH_COUNTS];
    enum count_source sources[WATCH_COUNTS];
    struct cp_slot_request requests[WATCH_COUNTS];
    struct cp_event_spec specs[WATCH_COUNTS];
};

size_t watch_counts_n(const struct watch_counts *counts)
{
    return counts->n;
}

const struct cp__watch_quantity *watch_counts_quantities(const struct watch_counts *counts)
{
    return counts->quantities;
}

void watch_counts_free(struct watch_counts *counts)
{
    free(counts);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static bool is_cpu_clock_of_cpu(const struct cp_event_spec *spec)
{
    return spec->event == CP_CPUPROF_SW_TASK_CLOCK || spec->event == CP_CPUPROF_SW_CPU_CLOCK;
}

static int add_event_to_count(struct watch_counts *counts, const char *name, struct cp_error *err)
{
    const size_t i = counts->n;
    struct cp_event_spec *spec = &counts->specs[i];
    int result;

    *spec = (struct cp_event_spec){.size = sizeof *spec};
    result = cp_event_parse(name, spec, err);
    if (result == 0 && spec->event == CP_CPUPROF_OS_TIMER)
        result = cp__error(err, -EINVAL,
                           "The event timer cannot be counted, because it is a clock's signal. Use cpuTime.");
    if (result == 0 && spec->kind == CP_EVENT_WAIT)
        result = cp__error(
            err, -EINVAL,
            "The event %s cannot be counted, because the program's runtime tells of it. Profile the "
            "program: counterpoint run -e %s.",
            spec->name, spec->name);
    if (result == 0)
        result = cp__spec_request(spec, &counts->requests[i], err);
    if (result < 0)
        return result;
    counts->sources[i] = is_cpu_clock_of_cpu(spec)                       ? COUNT_TIME
                         : spec->event == CP_CPUPROF_SW_CONTEXT_SWITCHES ? COUNT_SWITCHES
                                                                         : COUNT_EVENT;
    memcpy(counts->quantities[i].name, spec->name, sizeof spec->name);
    return 0;
}

static int add_name_to_count(struct watch_counts *counts, const char *name, struct cp_error *err)
{
    const size_t i = counts->n;
    int result = 0;

    if (i == WATCH_COUNTS)
        return cp__error(err, -E2BIG, "At most %d events can be counted in the rounds of a function.",
                         WATCH_COUNTS);
    if (strcmp(name, "time") == 0)
        return cp__error(err, -EINVAL, "The time is always measured: leave \"time\" out.");
    counts->sources[i] = COUNT_TIME;
    if (strcmp(name, "cpuTime") == 0)
        snprintf(counts->quantities[i].name, sizeof counts->quantities[i].name, "%s", name);
    else
        result = add_event_to_count(counts, name, err);
    for (size_t other = 0; other < i && result == 0; other++)
        if (strcmp(counts->quantities[other].name, counts->quantities[i].name) == 0)
            result = cp__error(err, -EINVAL, "The event %s is named twice.", counts->quantities[i].name);
    counts->quantities[i].unit = counts->sources[i] == COUNT_TIME ? "ns" : "count";
    counts->quantities[i].scale = 1;
    counts->n++;
    return result;
}

int watch_counts_new(struct watch_counts **out, const char *names, struct cp_error *err)
{
    struct watch_counts *counts = calloc(1, sizeof *counts);
    char *own = strdup(names == NULL ? "" : names), *rest = names == NULL ? NULL : own, *name;
    int result = 0;

    if (counts == NULL || own == NULL)
        result = cp__error(err, -ENOMEM, "There is not enough memory.");
    cp__perf_prepare();
    while (result == 0 && (name = cp_event_next(&rest)) != NULL)
        result = add_name_to_count(counts, name, err);
    free(own);
    if (result == 0)
        *out = counts;
    else
        watch_counts_free(counts);
    return result;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* An event that is being opened on a CPU. */
struct count_to_open {
    int cpu;
    int leader;
    int fd;
};

/* A CPU's core has one of the PMUs, and the others refuse. */
static int open_count(void *context, struct perf_event_attr *attr)
{
    struct count_to_open *count = context;
    int fd;

    if (count->fd >= 0)
        return 0;
    fd = (int)syscall(SYS_perf_event_open, attr, -1, count->cpu, count->leader, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return -errno;
    count->fd = fd;
    return 0;
}

int watch_counts_open(const struct watch_counts *counts, int cpu, int leader, int *fds, struct cp_error *err)
{
    int n = 0;

    for (size_t i = 0; i < counts->n; i++) {
        struct count_to_open count = {.cpu = cpu, .leader = leader, .fd = -1};
        struct perf_event_attr attr;
        int result;

        if (counts->sources[i] != COUNT_EVENT)
            continue;
        attr = cp__perf_attr_from_handler(&counts->requests[i].config);
        attr.disabled = 0;
        attr.read_format = PERF_FORMAT_GROUP;
        attr.use_clockid = 1; /* as the leader has it */
        attr.clockid = CLOCK_MONOTONIC;
        result = cp__core_pmus_add_from_handler(&attr, open_count, &count);
        if (count.fd < 0)
            return cp__perf_explain_count(result, &counts->requests[i], err);
        fds[n++] = count.fd;
    }
    return n;
}

static uint32_t counts_from(const struct watch_counts *counts, enum count_source source)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < counts->n; i++)
        bits |= (uint32_t)(counts->sources[i] == source) << i;
    return bits;
}

void watch_counts_take_switch(const struct watch_counts *counts, struct watch_record *record)
{
    record->counted = counts_from(counts, COUNT_TIME);
    for (size_t i = 0; i < counts->n; i++)
        record->counts[i] = record->time;
    if (record->kind == WATCH_SWITCH)
        record->switches = counts_from(counts, COUNT_SWITCHES);
}

void watch_counts_take(const struct watch_counts *counts, const uint64_t *values, size_t n,
                       struct watch_record *record)
{
    uint64_t *to = record->counts;
    size_t at = 1; /* the leader's value is the first one */

    for (size_t i = 0; i < counts->n; i++) {
        if (counts->sources[i] == COUNT_TIME)
            to[i] = record->time;
        else if (counts->sources[i] == COUNT_EVENT)
            to[i] = at < n ? values[at] : 0, at++;
    }
    record->counted = counts_from(counts, COUNT_TIME) | counts_from(counts, COUNT_EVENT);
}
