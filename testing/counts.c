/* See counts.h. */
#include "counts.h"

#include "counter.h"
#include "report.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { COUNTS_MAX = 32 };

/* The runner chooses the events, and the process of a benchmark opens them. */
static struct cp_event_spec specs[COUNTS_MAX];
static struct cp_counter *counters[COUNTS_MAX];
static size_t count;
/* The opened counters, those of clocks last. */
static struct cp_counter *by_kind[COUNTS_MAX];
static size_t clocks;

/* The events that the process of the benchmark could not open, and why. */
static struct refusal {
    char event[sizeof(specs[0].name)];
    struct cp_error reason;
} refusals[COUNTS_MAX];
static size_t refused;

/* ---- In the runner --------------------------------------------------------------------------- */

/* Adds an event that can be opened here; of an event that cannot, a note says why. */
static void add_counter(const struct cp_event_spec *spec)
{
    struct cp_counter *counter;
    struct cp_error err;
    for (size_t i = 0; i < count; i++)
        if (strcmp(specs[i].name, spec->name) == 0)
            return;
    if (cp_counter_open(&counter, spec, &err) < 0) {
        cp__report_note("# no %s: %s\n", spec->name, err.message);
        return;
    }
    cp_counter_close(counter);
    specs[count++] = *spec;
}

int cp__counts_choose(char *list, struct cp_error *err)
{
    for (char *name; (name = cp_event_next(&list));) {
        struct cp_event_spec spec = {.size = sizeof spec};
        int result = cp_event_parse(name, &spec, err);
        if (result == -EINVAL || result == -ENAMETOOLONG)
            return result;
        if (result < 0)
            cp__report_note("# no %s: %s\n", name, err->message);
        else if (count == COUNTS_MAX)
            cp__report_note("# no %s: at most %d events can be counted at once.\n", name, COUNTS_MAX);
        else
            add_counter(&spec);
    }
    return 0;
}

/* ---- In the benchmark's process --------------------------------------------------------------- */

/* Fills by_kind from counters. */
static void put_clocks_last(void)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (specs[i].kind != CP_EVENT_CLOCK)
            by_kind[n++] = counters[i];
    clocks = count - n;
    for (size_t i = 0; i < count; i++)
        if (specs[i].kind == CP_EVENT_CLOCK)
            by_kind[n++] = counters[i];
}

/* The kernel may refuse an event here that the runner could open alone: there may be a limit on descriptors,
 * or too few * hardware counters for all events at once. The other events keep their order. */
void cp__counts_open(void)
{
    static bool is_open;
    if (is_open)
        return;
    size_t opened = 0;
    for (size_t i = 0; i < count; i++)
        if (cp_counter_open(&counters[opened], &specs[i], &refusals[refused].reason) < 0)
            memcpy(refusals[refused++].event, specs[i].name, sizeof(specs[i].name));
        else
            specs[opened++] = specs[i];
    count = opened;
    put_clocks_last();
    is_open = true;
}

void cp__counts_reset(void)
{
    for (size_t i = 0; i < count; i++)
        cp_counter_reset(counters[i]);
}

/* Starts the clocks last, and cp__counts_stop() stops the clocks first: a clock also counts time in the
 * kernel, and must * not count the time in which the other counters are started and stopped. */
void cp__counts_start(void)
{
    cp_counters_start(by_kind, count);
}

void cp__counts_stop(void)
{
    size_t others = count - clocks;
    cp_counters_stop(by_kind + others, clocks);
    cp_counters_stop(by_kind, others);
}

static void print_value(FILE *stream, struct cp__bench *bench, const struct cp_event_spec *spec,
                        const struct cp_counter_value *value, double n)
{
    char unit[sizeof(spec->name) + sizeof("-ns/op")];
    snprintf(unit, sizeof(unit), "%s%s/op", spec->name, spec->kind == CP_EVENT_CLOCK ? "-ns" : "");
    cp__bench_print_figure(stream, bench, (double)value->count / n, unit);
    if (!value->is_scaled)
        return;
    snprintf(unit, sizeof(unit), "%%%s", spec->name);
    cp__bench_print_figure(stream, bench, 100 * (double)value->running_ns / (double)value->enabled_ns, unit);
}

/* Prints one figure for each event. If the kernel counted an event only part of the time, its figure is an
 * estimate, and * a second figure says which part of the time was counted. */
void cp__counts_print(FILE *stream, struct cp__bench *bench, double n)
{
    struct cp_counter_value cycles = {.size = sizeof(cycles)}, instructions = {.size = sizeof(instructions)};
    for (size_t i = 0; i < refused; i++)
        cp__t_log(cp_t_self(), "%s is not counted: %s", refusals[i].event, refusals[i].reason.message);
    for (size_t i = 0; i < count; i++) {
        struct cp_counter_value value = {.size = sizeof value};
        struct cp_error err;
        if (cp_counter_read(counters[i], &value, &err) < 0) {
            cp__t_log(cp_t_self(), "%s is not shown: %s", specs[i].name, err.message);
            continue;
        }
        print_value(stream, bench, &specs[i], &value, n);
        bool had_both = cycles.count && instructions.count;
        if (specs[i].event == CP_CPUPROF_HW_CPU_CYCLES && specs[i].modes == 0)
            cycles = value;
        if (specs[i].event == CP_CPUPROF_HW_INSTRUCTIONS && specs[i].modes == 0)
            instructions = value;
        if (!had_both && cycles.count && instructions.count)
            cp__bench_print_figure(stream, bench, (double)instructions.count / (double)cycles.count, "IPC");
    }
}
