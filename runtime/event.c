#include "event.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "os.h"

#define MAX_HZ 1000000
#define NS_PER_SECOND 1000000000u

/*
 * Periods below min_period are refused: a clock faster than 10 us is what the kernel itself rounds up (and
 * less than a sample costs); a PMU event that comes every cycle or so, at a period under 1000, would leave
 * time for nothing else. Presets are the prototype's (uber-dev/go, pmu_pprof) for the PMU and 100 Hz for
 * clocks. How often a program faults or switches differs by orders of magnitude, so those events have no
 * preset.
 */
#define HARDWARE(c, preset, name, alias)                                                                     \
    {                                                                                                        \
        name, alias, CP_EVENT_HARDWARE, PERF_TYPE_HARDWARE, PERF_COUNT_HW_##c, preset, 1000,                 \
            CP__KERNEL_NEVER                                                                                 \
    }
#define CLOCK(c, name, alias)                                                                                \
    {                                                                                                        \
        name, alias, CP_EVENT_CLOCK, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##c, 10000000, 10000,                 \
            CP__KERNEL_PREFERRED                                                                             \
    }
#define SOFTWARE(c, kernel, name, alias)                                                                     \
    {                                                                                                        \
        name, alias, CP_EVENT_SOFTWARE, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##c, 0, 1, kernel                  \
    }

#define NAMED(kind, preset, min, kernel)                                                                     \
    {                                                                                                        \
        "named", "named", CP_EVENT_##kind, 0, 0, preset, min, kernel                                         \
    }

static const struct cp__event events[CP_CPUPROF_EVENT_COUNT] = {
    [CP_CPUPROF_OS_TIMER] = {"timer", "timer", CP_EVENT_TIMER, 0, 0, 10000000, NS_PER_SECOND / MAX_HZ,
                             CP__KERNEL_PREFERRED},
    [CP_CPUPROF_HW_CPU_CYCLES] = HARDWARE(CPU_CYCLES, 10000000, "cycles", "cpu-cycles"),
    [CP_CPUPROF_HW_INSTRUCTIONS] = HARDWARE(INSTRUCTIONS, 1000000, "instructions", "instructions"),
    [CP_CPUPROF_HW_CACHE_REFERENCES] =
        HARDWARE(CACHE_REFERENCES, 100000, "cacheReferences", "cache-references"),
    [CP_CPUPROF_HW_CACHE_MISSES] = HARDWARE(CACHE_MISSES, 10000, "cacheMisses", "cache-misses"),
    [CP_CPUPROF_HW_BRANCH_INSTRUCTIONS] =
        HARDWARE(BRANCH_INSTRUCTIONS, 100000, "branches", "branch-instructions"),
    [CP_CPUPROF_HW_BRANCH_MISSES] = HARDWARE(BRANCH_MISSES, 10000, "branchMisses", "branch-misses"),
    [CP_CPUPROF_HW_RAW] = {"raw", "raw", CP_EVENT_HARDWARE, PERF_TYPE_RAW, 0, 100000, 1000, CP__KERNEL_NEVER},
    [CP_CPUPROF_SW_TASK_CLOCK] = CLOCK(TASK_CLOCK, "taskClock", "task-clock"),
    [CP_CPUPROF_SW_CPU_CLOCK] = CLOCK(CPU_CLOCK, "cpuClock", "cpu-clock"),
    [CP_CPUPROF_SW_PAGE_FAULTS] = SOFTWARE(PAGE_FAULTS, CP__KERNEL_PREFERRED, "pageFaults", "page-faults"),
    [CP_CPUPROF_SW_CONTEXT_SWITCHES] =
        SOFTWARE(CONTEXT_SWITCHES, CP__KERNEL_REQUIRED, "contextSwitches", "context-switches"),
    [CP_CPUPROF_SW_CPU_MIGRATIONS] =
        SOFTWARE(CPU_MIGRATIONS, CP__KERNEL_REQUIRED, "cpuMigrations", "cpu-migrations"),
    [CP_CPUPROF_NAMED] = NAMED(HARDWARE, 100000, 1000, CP__KERNEL_NEVER),
};

/* What an encoding's type says of an event that has no row. */
static const struct cp__event named_software = NAMED(SOFTWARE, 0, 1, CP__KERNEL_PREFERRED);
static const struct cp__event named_tracepoint = NAMED(TRACEPOINT, 1, 1, CP__KERNEL_REQUIRED);
static const struct cp__event named_watchpoint = NAMED(WATCHPOINT, 1, 1, CP__KERNEL_NEVER);

const struct cp__event *cp__event(enum cp_cpu_event event, const struct cp_event_encoding *encoding)
{
    if ((unsigned)event >= CP_CPUPROF_EVENT_COUNT)
        return NULL;
    if (event != CP_CPUPROF_NAMED)
        return &events[event];
    switch (encoding->type) {
    case PERF_TYPE_SOFTWARE:
        return &named_software;
    case PERF_TYPE_TRACEPOINT:
        return &named_tracepoint;
    case PERF_TYPE_BREAKPOINT:
        return &named_watchpoint;
    default:
        return &events[event];
    }
}

const char *cp_event_name(enum cp_cpu_event event)
{
    return (unsigned)event < CP_CPUPROF_EVENT_COUNT ? events[event].name : NULL;
}

/* "r" and 1 to 16 hexadecimal digits. */
static bool parse_raw(const char *name, uint64_t *raw)
{
    size_t digits = strspn(name + 1, "0123456789abcdefABCDEF");

    if (name[0] != 'r' || digits == 0 || digits > 16 || name[1 + digits] != '\0')
        return false;
    *raw = strtoull(name + 1, NULL, 16);
    return true;
}

static int unknown(const char *name, struct cp_error *err)
{
    char list[256] = "";
    size_t used = 0;

    for (int i = 0; i < CP_CPUPROF_EVENT_COUNT; i++) {
        if (i != CP_CPUPROF_HW_RAW && i != CP_CPUPROF_NAMED)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s, ", events[i].name);
    }
    return cp__error(
        err, -EINVAL,
        "There is no event named \"%.40s%s\". Use one of %sor rHEX for the processor's own event "
        "number, of 1 to 16 hexadecimal digits.",
        name, strlen(name) > 40 ? "..." : "", list);
}

/* The name of an event, which tells raw events apart. */
static void spell(enum cp_cpu_event event, uint64_t raw, char *name, size_t size)
{
    if (event == CP_CPUPROF_HW_RAW)
        snprintf(name, size, "r%" PRIx64, raw);
    else
        snprintf(name, size, "%s", events[event].name);
}

int cp_event_parse(const char *name, struct cp_event_spec *spec, struct cp_error *err)
{
    uint64_t raw = 0;
    int i;

    if (name == NULL || name[0] == '\0')
        return unknown("", err);
    if (parse_raw(name, &raw)) {
        i = CP_CPUPROF_HW_RAW;
    } else {
        for (i = 0; i < CP_CPUPROF_EVENT_COUNT; i++) {
            if (i != CP_CPUPROF_HW_RAW && i != CP_CPUPROF_NAMED &&
                (strcmp(name, events[i].name) == 0 || strcmp(name, events[i].alias) == 0))
                break;
        }
        if (i == CP_CPUPROF_EVENT_COUNT)
            return unknown(name, err);
    }
    *spec = (struct cp_event_spec){.event = (enum cp_cpu_event)i,
                                   .kind = events[i].kind,
                                   .raw_event = raw,
                                   .preset_period = events[i].preset_period};
    spell(spec->event, raw, spec->name, sizeof spec->name);
    return 0;
}

static int no_event(enum cp_cpu_event event, struct cp_error *err)
{
    return cp__error(err, -EINVAL, "There is no event number %d. Use one of enum cp_cpu_event, 0 to %d.",
                     (int)event, CP_CPUPROF_EVENT_COUNT - 1);
}

static int check_period(const struct cp__event *row, const char *name, uint64_t period, struct cp_error *err)
{
    const char *unit = row->kind == CP_EVENT_CLOCK || row->kind == CP_EVENT_TIMER ? " ns" : "";

    if (period == 0 && row->preset_period != 0)
        return cp__error(
            err, -EINVAL,
            "The config for %s has a period of 0. Set one; cp_cpu_profile_config_init() takes the "
            "preset, %" PRIu64 "%s.",
            name, row->preset_period, unit);
    if (period == 0)
        return cp__error(
            err, -EINVAL,
            "The event %s has no preset period, since programs differ too much in it. Give one: 1 "
            "samples every occurrence, 100 every hundredth.",
            name);
    if (period < row->min_period)
        return cp__error(err, -EINVAL,
                         "A period of %" PRIu64 "%s is too small for %s: the smallest is %" PRIu64 "%s%s.",
                         period, unit, name, row->min_period, unit,
                         row->preset_period != 0 ? ", and 0 takes the preset" : "");
    if (period > INT64_MAX)
        return cp__error(err, -EINVAL,
                         "A period of %" PRIu64 "%s is too large for %s: the largest is %" PRId64 "%s.",
                         period, unit, name, INT64_MAX, unit);
    return 0;
}

/* Whether a config of ours lets an event count in the kernel. A thread's CPU clock always does. */
static bool counts_kernel(const struct cp__event *row)
{
    if (row->kernel_mode == CP__KERNEL_PREFERRED)
        return row->kind == CP_EVENT_TIMER || cp__os_may_count_kernel();
    return row->kernel_mode == CP__KERNEL_REQUIRED;
}

struct cp__event_text cp__request_name(const struct cp_slot_request *request)
{
    struct cp__event_text name;

    if (request->name != NULL)
        snprintf(name.text, sizeof name.text, "%s", request->name);
    else
        spell(request->event, request->config.raw_event, name.text, sizeof name.text);
    return name;
}

int cp__request_check(const struct cp_slot_request *request, struct cp_error *err)
{
    const struct cp_cpu_profile_config *config = &request->config;
    const struct cp__event *row = cp__config_event(request->event, config);
    struct cp__event_text text;
    const char *name = text.text;

    if (row == NULL)
        return no_event(request->event, err);
    text = cp__request_name(request);
    if (config->size != sizeof *config)
        return cp__error(err, -EINVAL,
                         "The config for %s says it is %zu bytes long, this library's is %zu. Set size to "
                         "sizeof(struct cp_cpu_profile_config), and build against the library's own header.",
                         name, config->size, sizeof *config);
    if (config->precise_ip > CP_CPUPROF_IP_NO_SKID)
        return cp__error(err, -EINVAL, "The precision level %d for %s is not one of 0 to %d.",
                         (int)config->precise_ip, name, CP_CPUPROF_IP_NO_SKID);
    if (config->is_user_excluded && !config->is_kernel_included && !config->is_hv_included)
        return cp__error(err, -EINVAL,
                         "The config for %s lets no mode count: user mode is excluded, kernel and hypervisor "
                         "are not included.",
                         name);
    if (row->kernel_mode == CP__KERNEL_REQUIRED && !config->is_kernel_included)
        return cp__error(err, -EINVAL,
                         "The event %s happens in the kernel only, and the config leaves the kernel out. Set "
                         "is_kernel_included.",
                         name);
    if (row->kind != CP_EVENT_TIMER)
        return check_period(row, name, config->period, err);
    if (config->hz == 0 || config->hz > MAX_HZ)
        return cp__error(err, -EINVAL, "A rate of %" PRIu64 " Hz is not one that the timer has: 1 to %d.",
                         config->hz, MAX_HZ);
    return 0;
}

int cp_cpu_profile_config_init(struct cp_cpu_profile_config *config, const struct cp_event_spec *spec,
                               uint64_t period, struct cp_error *err)
{
    const struct cp__event *row = cp__event(spec->event, &spec->encoding);
    bool in_kernel;
    int result;

    if (row == NULL)
        return no_event(spec->event, err);
    if (period == 0)
        period = spec->preset_period != 0 ? spec->preset_period : row->preset_period;
    result = check_period(row, spec->name, period, err);
    if (result < 0)
        return result;
    in_kernel = spec->modes != 0 ? (spec->modes & CP_EVENT_KERNEL) != 0 : counts_kernel(row);
    *config = (struct cp_cpu_profile_config){
        .size = sizeof *config,
        .period = period,
        .raw_event = spec->raw_event,
        .precise_ip = spec->precise_ip,
        .is_sample_ip_included = true,
        .is_kernel_included = in_kernel,
        .is_hv_included = (spec->modes & CP_EVENT_HV) != 0,
        .is_sample_callchain_included = (spec->modes & CP_EVENT_KERNEL) != 0,
        .is_callchain_kernel_included = (spec->modes & CP_EVENT_KERNEL) != 0,
        .is_user_excluded = spec->modes != 0 && (spec->modes & CP_EVENT_USER) == 0,
        .encoding = spec->encoding,
    };
    if (row->kind == CP_EVENT_TIMER)
        config->hz = period >= NS_PER_SECOND ? 1 : NS_PER_SECOND / period;
    return 0;
}
