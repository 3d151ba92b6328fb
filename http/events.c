/* The list of events for the pages; see events.h. */
#include "events.h"

#include <string.h>

#include "pprof/rate_linux.h"
#include "switches.h"

/* What the events of this list are good for, and the period for those without a preset (0: the preset). */
static const struct advice {
    const char *event;
    uint64_t period;
    const char *use;
} advices[] = {
    {"timer", 0, "Where CPU time goes. Works everywhere, and costs the least."},
    {"taskClock", 100000,
     "Where CPU time goes, in short recordings too. If threads wake each other thousands of times a second, "
     "the timer or a period of ten milliseconds costs them less."},
    {"cpuClock", 1000000, "As taskClock, by another clock of the kernel."},
    {"cycles", 0, "Where the processor is busy, whatever its frequency."},
    {"instructions", 0, "Which code executes the most; beside cycles it shows what stalls."},
    {"cacheReferences", 0, "Which code goes out to the last cache."},
    {"cacheMisses", 0, "Which code waits for memory."},
    {"branches", 0, "Which code decides the most."},
    {"branchMisses", 0, "Which decisions the processor cannot foresee."},
    {"pageFaults", 100, "Who touches memory for the first time."},
    {"minorFaults", 100, "Who touches memory for the first time."},
    {"majorFaults", 1, "Who waits for pages from the disk."},
    {"contextSwitches", 100, "Who blocks, or is pushed off its CPU."},
    {"cpuMigrations", 1, "Who is moved between CPUs."},
    {"wait", 0, "Where the program waits, and what for."},
    {"runnable", 0, "Who could run and has no thread: too few of them, or code that keeps its thread."},
    {"lock", 0, "Who makes others wait: code that holds a lock, or is late with a message."},
    {"wall", 0, "What each green thread does, running and waiting: where a slow request spends its time."},
};

/* Returns the advice for an event, or NULL. */
static const struct advice *find_advice(const char *event)
{
    for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++) {
        if (strcmp(advices[i].event, event) == 0)
            return &advices[i];
    }
    return NULL;
}

/* Returns whether the pages list the event. PMUs and tracepoints may have thousands of events, so they are
 * left to "counterpoint events". */
static bool is_event_listed(const struct cp_event_info *info)
{
    return strcmp(info->group, "presets") == 0 || strcmp(info->group, "waits") == 0 ||
           strcmp(info->group, "software") == 0 || strcmp(info->group, "cache") == 0;
}

/* The context of take_event(). */
struct walk {
    const struct cp__exchange *exchange;
    void (*fn)(void *context, const struct cp__http_event *event);
    void *context;
};

/* Returns the smallest of 1, 2, 5, 10, 20, 50 and so on that is not below least. */
static uint64_t round_advice_up(uint64_t least)
{
    uint64_t unit = 1;

    while (5 * unit < least)
        unit *= 10;
    if (least > 2 * unit)
        return 5 * unit;
    return least > unit ? 2 * unit : unit;
}

/* Returns the kernel's limit of samples per second; 0 if the limit does not matter: the timer is not a perf
 * event, and the rate of other events is not known beforehand. */
static uint64_t max_rate_of(const struct cp_event_spec *spec)
{
    return spec->kind == CP_EVENT_CLOCK ? cp__rate_limit() : 0;
}

/* Returns an upper bound for how many of an event happen in a ns of CPU time; 0: unknown. */
static unsigned most_a_ns(const struct cp_event_spec *spec)
{
    if (spec->kind == CP_EVENT_CLOCK)
        return 1;
    return spec->event == CP_CPUPROF_HW_CPU_CYCLES || spec->event == CP_CPUPROF_HW_INSTRUCTIONS ||
                   strncmp(spec->name, "refCycles", strlen("refCycles")) == 0
               ? CP__HTTP_CYCLES_A_NS
               : 0;
}

/* What decides how short a period may be. */
struct limits {
    enum cp_event_kind kind;
    uint64_t cost; /* of a sample, in ns */
    double switches_a_ns;
    unsigned percent; /* the most that the event may take of a thread's time */
};

static struct limits limits_of(const struct cp__exchange *exchange, const struct cp_event_spec *spec)
{
    const unsigned percent = exchange->options->max_cost_percent;
    const uint64_t cost = cp_sample_cost_ns(NULL);

    return (struct limits){.kind = spec->kind,
                           .cost = cost != 0 ? cost : CP_SAMPLE_COST_ASSUMED_NS,
                           .switches_a_ns = cp__http_switches_a_ns(),
                           .percent = percent != 0 ? percent : CP__HTTP_MAX_COST};
}

/* What a switch costs under a clock if that is not known: a program whose threads keep its CPUs busy leaves
 * none for the measurement, and these are the programs that switch the most. No machine was seen to take more
 * from two threads. */
#define SWITCH_COST_ASSUMED_NS 5000

/* Returns the share of a thread's time that the event takes at switches with samples so far apart. */
static double share_at_switches(const struct limits *limits, uint64_t ns)
{
    uint64_t cost;

    if (limits->switches_a_ns == 0)
        return 0;
    cost = cp_switch_cost_ns(limits->kind, ns);
    if (cost == 0 && limits->kind == CP_EVENT_CLOCK)
        cost = SWITCH_COST_ASSUMED_NS;
    return limits->switches_a_ns * (double)cost;
}

static bool is_allowed(const struct limits *limits, uint64_t ns)
{
    return 100 * ((double)limits->cost + share_at_switches(limits, ns) * (double)ns) <=
           limits->percent * (double)ns;
}

/* Returns the least time between two samples that is allowed; a second if none is. Both samples and switches
 * cost less the longer it is. */
static uint64_t least_ns(const struct limits *limits)
{
    uint64_t less = CP__HTTP_MIN_NS - 1, enough = 1000000000;

    while (enough - less > 1) {
        const uint64_t middle = less + (enough - less) / 2;

        if (is_allowed(limits, middle))
            enough = middle;
        else
            less = middle;
    }
    return enough;
}

uint64_t cp__http_min_period(const struct cp__exchange *exchange, const struct cp_event_spec *spec)
{
    struct limits limits;
    uint64_t period;

    if (most_a_ns(spec) == 0)
        return 0;
    limits = limits_of(exchange, spec);
    period = most_a_ns(spec) * least_ns(&limits);
    return spec->preset_period != 0 && spec->preset_period < period ? spec->preset_period : period;
}

/* What a switch costs is measured with two threads of one CPU. With 64, whose events are in no cache, it was
 * seen to cost twice that. */
#define COLD 2
/* Returns whether a clock with samples so far apart may take a hundredth of the program's time at
 * switches. */
static bool is_dear_at_switches(const struct cp__exchange *exchange, const struct cp_event_spec *spec,
                                uint64_t ns)
{
    const struct limits limits = limits_of(exchange, spec);

    return spec->kind == CP_EVENT_CLOCK && COLD * share_at_switches(&limits, ns) >= 0.01;
}

/* Returns the period that the pages propose: the advised one or, for clocks if the program's threads switch
 * often, the preset, raised to the limits of the kernel and of the endpoint. */
static uint64_t advised_period(const struct cp__exchange *exchange, const struct advice *advice,
                               const struct cp_event_spec *spec)
{
    uint64_t period = spec->preset_period != 0 ? spec->preset_period : 1;
    uint64_t max_rate = max_rate_of(spec);
    uint64_t least = max_rate != 0 ? (1000000000 + max_rate - 1) / max_rate : 0;
    uint64_t min = cp__http_min_period(exchange, spec);

    least = least < min ? min : least;
    if (advice != NULL && advice->period != 0 && !is_dear_at_switches(exchange, spec, CP__HTTP_MIN_NS))
        period = advice->period;
    return period < least ? round_advice_up(least) : period;
}

uint64_t cp__http_period(const struct cp__exchange *exchange, const char *event)
{
    struct cp_event_spec spec = {.size = sizeof spec};

    return cp_event_parse(event, &spec, NULL) < 0 ? 0 : advised_period(exchange, find_advice(event), &spec);
}

const char *cp__http_recommended(const struct cp__exchange *exchange)
{
    const char *clock = cp_event_name(CP_CPUPROF_SW_TASK_CLOCK);
    struct cp_event_spec spec = {.size = sizeof spec};

    if (cp_event_parse(clock, &spec, NULL) == 0 &&
        !is_dear_at_switches(exchange, &spec, advised_period(exchange, find_advice(clock), &spec)))
        return clock;
    return cp_event_name(CP_CPUPROF_OS_TIMER);
}

/* Hands an event of the list to the page. */
static int take_listed_event(void *context, const struct cp_event_info *info)
{
    const struct walk *walk = context;
    const struct advice *advice = find_advice(info->name);
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp__http_event event;
    struct cp_error err;
    int result;

    if (!is_event_listed(info) || cp_event_parse(info->name, &spec, NULL) < 0)
        return 0;
    result = cp_event_probe(&spec, &err);
    event = (struct cp__http_event){
        .info = info,
        .use = advice != NULL ? advice->use : "",
        .period = advised_period(walk->exchange, advice, &spec),
        .is_time = spec.kind == CP_EVENT_TIMER || spec.kind == CP_EVENT_CLOCK || spec.kind == CP_EVENT_WAIT,
        .is_wait = spec.kind == CP_EVENT_WAIT,
        .is_wall = spec.event == CP_CPUPROF_WALL,
        .max_rate = max_rate_of(&spec),
    };
    if (result != 0)
        event.refusal = err.reason[0] != '\0' ? err.reason : strerror(-err.code);
    walk->fn(walk->context, &event);
    return 0;
}

void cp__http_events(const struct cp__exchange *exchange,
                     void (*fn)(void *context, const struct cp__http_event *event), void *context)
{
    cp_event_each(take_listed_event, &(struct walk){exchange, fn, context});
}
