/*
 * What watches cost.
 *
 * Round: the begin and the end of a round with nothing between them, compared with two calls of
 * clock_gettime(), and with PAPI's calls, in the same run. The ways take turns: an iteration is a loop of
 * each.
 *
 *     ns/round   a begin and an end; median of the iterations
 *     x-clock    the same, as a multiple of two calls of clock_gettime() just before; quartiles
 *     x-papi     the same, as a multiple of two calls of PAPI_get_real_nsec()
 *
 * Switch: the two calls of cp_execute() that a scheduler makes for each G that it runs, compared with what
 * cp_execute() was before there were watches.
 *
 *     ns/switch  two calls; median of the iterations
 *     ns-more    the same, less two calls without a look at watches just before; quartiles
 */
#include "watch.h"
#include "bench.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 2000, SWITCHES = 20000 };

static struct cp_m *attached(struct cp_t *b)
{
    struct cp_error err;
    struct cp_m *m;

    if (cp_m_attach(&m, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    return m;
}

/* ---- PAPI ------------------------------------------------------------------------------------ */

/* Of Debian's libpapi-dev, which is looked for when the benchmark runs, so that it is built without, too. */
static struct {
    int (*library_init)(int version); /* returns the version that it has */
    long long (*get_real_nsec)(void);
    int (*create_eventset)(int *set);
    int (*add_named_event)(int set, const char *name);
    int (*start)(int set);
    int (*read)(int set, long long *values);
    int (*stop)(int set, long long *values);
} papi;
#define NO_PAPI "there is no PAPI here: the package libpapi-dev has it"

static bool find_papi(void)
{
    static const char *const names[] = {
        "library_init", "get_real_nsec", "create_eventset", "add_named_event", "start", "read", "stop"};
    void *library = dlopen("libpapi.so", RTLD_NOW | RTLD_LOCAL);
    void *calls[sizeof names / sizeof names[0]];
    char name[40];
    int version;

    _Static_assert(sizeof calls == sizeof papi, "each call has its name");
    if (library == NULL)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(name, sizeof name, "PAPI_%s", names[i]);
        calls[i] = dlsym(library, name);
        if (calls[i] == NULL)
            return false;
    }
    memcpy(&papi, calls, sizeof calls);
    version = papi.library_init(7 << 24);
    return version > 0 && papi.library_init(version) == version;
}

/* Looks for PAPI once. */
static bool has_papi(void)
{
    static int found = -1;

    if (found < 0)
        found = find_papi();
    return found;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* A way to measure. */
struct way {
    const char *name;
    void (*loop)(struct way *way);   /* makes ROUNDS rounds */
    struct cp_watch_options options; /* of a watch */
    const char *event;               /* of PAPI */
    struct cp_watch *watch;
    int set;
};

static volatile uint64_t result; /* the compiler cannot remove the calls, because this is stored here */

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void clock_loop(struct way *way)
{
    (void)way;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t begin = clock_ns();

        result = clock_ns() - begin;
    }
}

static void papi_clock_loop(struct way *way)
{
    (void)way;
    for (int i = 0; i < ROUNDS; i++) {
        long long begin = papi.get_real_nsec();

        result = (uint64_t)(papi.get_real_nsec() - begin);
    }
}

static void papi_read_loop(struct way *way)
{
    long long begin = 0, end = 0;

    for (int i = 0; i < ROUNDS; i++) {
        papi.read(way->set, &begin);
        papi.read(way->set, &end);
        result = (uint64_t)(end - begin);
    }
}

static void papi_start_loop(struct way *way)
{
    long long count = 0;

    papi.stop(way->set, &count);
    for (int i = 0; i < ROUNDS; i++) {
        papi.start(way->set);
        papi.stop(way->set, &count);
        result = (uint64_t)count;
    }
    papi.start(way->set);
}

static void watch_loop(struct way *way)
{
    struct cp_watch_round round;

    for (int i = 0; i < ROUNDS; i++) {
        cp_watch_begin(way->watch, &round);
        cp_watch_end(&round);
    }
}

static void scope_loop(struct way *way)
{
    for (int i = 0; i < ROUNDS; i++) {
        CP_WATCH_SCOPE(way->watch);
    }
}

static double ns_per_round(struct way *way)
{
    double start = bench_now_ns();

    way->loop(way);
    return (bench_now_ns() - start) / ROUNDS;
}

static void prepare(struct cp_t *b, struct way *way)
{
    struct cp_error err;

    if (way->options.name != NULL) {
        way->options.size = sizeof way->options;
        if (cp_watch_open(&way->watch, &way->options, &err) < 0)
            cp_t_skip(b, "%s", err.message);
    } else if (way->loop != clock_loop && !has_papi()) {
        cp_t_skip(b, NO_PAPI);
    } else if (way->event != NULL) {
        way->set = -1;
        if (papi.create_eventset(&way->set) < 0 || papi.add_named_event(way->set, way->event) < 0 ||
            papi.start(way->set) < 0)
            cp_t_skip(b, "PAPI does not count %s here", way->event);
    }
}

static void clean_up(struct way *way)
{
    long long count;

    if (way->event != NULL)
        papi.stop(way->set, &count);
    cp_watch_close(way->watch);
    way->watch = NULL;
}

static void rounds(struct cp_t *b, void *arg)
{
    static struct way clock = {.loop = clock_loop}, papi_clock = {.loop = papi_clock_loop};
    struct bench_rounds all = {0}, of_clock = {0}, of_papi = {0};
    struct way *way = arg;

    prepare(b, way);
    for (; cp_bench_next(b);) {
        const double floor = ns_per_round(&clock), papi_ns = has_papi() ? ns_per_round(&papi_clock) : 0;
        const double ns = ns_per_round(way);

        bench_add(&all, ns);
        bench_add(&of_clock, ns / floor);
        if (has_papi())
            bench_add(&of_papi, ns / papi_ns);
    }
    clean_up(way);
    cp_bench_metric(b, 0, "ns/op");
    bench_median(b, &all, "ns/round");
    bench_spread(b, &of_clock, "x-clock");
    bench_median(b, &of_papi, "x-papi");
}

/* "instructions" is read without a call if the kernel lets programs read the PMU. */
CP_BENCHMARK(Round)
{
    static struct way ways[] = {
        {.name = "clock_gettime", .loop = clock_loop},
        {.name = "PAPI_get_real_nsec", .loop = papi_clock_loop},
        {.name = "PAPI_read page faults", .loop = papi_read_loop, .event = "perf::PAGE-FAULTS"},
        {.name = "PAPI_start PAPI_stop", .loop = papi_start_loop, .event = "perf::PAGE-FAULTS"},
        {.name = "PAPI_read instructions", .loop = papi_read_loop, .event = "PAPI_TOT_INS"},
        {.name = "time", .loop = watch_loop, .options = {.name = "time"}},
        {.name = "scope", .loop = scope_loop, .options = {.name = "scope"}},
        {.name = "coreCycles", .loop = watch_loop, .options = {.name = "c", .quantities = "coreCycles"}},
        {.name = "instructions", .loop = watch_loop, .options = {.name = "i", .quantities = "instructions"}},
        {.name = "cpi", .loop = watch_loop, .options = {.name = "cpi", .quantities = "cpi"}},
        {.name = "cpuTime", .loop = watch_loop, .options = {.name = "cpu", .quantities = "cpuTime"}},
        {.name = "page faults", .loop = watch_loop, .options = {.name = "p", .quantities = "pageFaults"}},
        {.name = "labels", .loop = watch_loop, .options = {.name = "labels", .labels = "route,method"}},
        {.name = "stacks", .loop = watch_loop, .options = {.name = "stacks", .has_stacks = true}},
    };
    struct cp_m *m = attached(b);

    cp_label_set("route", "/");
    cp_label_set("method", "GET");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        cp_t_run(b, ways[i].name, rounds, &ways[i]);
    cp_m_detach(m);
}

/* ---- Switches -------------------------------------------------------------------------------- */

/* Which watch is open. */
struct situation {
    const char *name;
    bool is_open;
    bool is_others; /* another G has the round */
    const char *quantities;
};

static struct cp_g runs, other;
static char stack[4096];

__attribute__((noinline)) static void switches_before(struct cp_m *m)
{
    for (int i = 0; i < SWITCHES; i++) {
        cp_execute_uncounted(m, &runs); /* all that cp_execute() was */
        cp_execute_uncounted(m, NULL);
    }
}

__attribute__((noinline)) static void switches_now(struct cp_m *m)
{
    for (int i = 0; i < SWITCHES; i++) {
        cp_execute(m, &runs);
        cp_execute(m, NULL);
    }
}

static double ns_per_switch(void (*loop)(struct cp_m *m), struct cp_m *m)
{
    double start = bench_now_ns();

    loop(m);
    return (bench_now_ns() - start) / SWITCHES;
}

static void begin_in(struct cp_t *b, struct cp_g *g, struct cp_watch *watch, struct cp_watch_round *round)
{
    struct cp_m *m = cp_m_self();

    cp_execute(m, g);
    if (cp_watch_begin(watch, round) < 0)
        cp_t_fatal(b, "the round does not begin");
    cp_execute(m, NULL);
}

static void drop_in(struct cp_g *g, struct cp_watch_round *round)
{
    struct cp_m *m = cp_m_self();

    cp_execute(m, g);
    cp_watch_drop(round);
    cp_execute(m, NULL);
}

static struct cp_watch *opened(struct cp_t *b, const struct situation *situation)
{
    const struct cp_watch_options options = {
        .size = sizeof options, .name = "switch", .quantities = situation->quantities};
    struct cp_watch *watch = NULL;
    struct cp_error err;

    if (situation->is_open && cp_watch_open(&watch, &options, &err) < 0)
        cp_t_skip(b, "%s", err.message);
    return watch;
}

static void switches(struct cp_t *b, void *arg)
{
    const struct situation *situation = arg;
    struct cp_watch *watch = opened(b, situation);
    struct cp_g *g = situation->is_others ? &other : &runs;
    struct bench_rounds all = {0}, more = {0};
    struct cp_watch_round round;
    struct cp_m *m = cp_m_self();

    begin_in(b, g, watch, &round);
    for (; cp_bench_next(b);) {
        double before = ns_per_switch(switches_before, m), now = ns_per_switch(switches_now, m);

        bench_add(&all, now);
        bench_add(&more, now - before);
    }
    drop_in(g, &round);
    cp_watch_close(watch);
    cp_bench_metric(b, 0, "ns/op");
    bench_median(b, &all, "ns/switch");
    bench_spread(b, &more, "ns-more");
}

CP_BENCHMARK(Switch)
{
    static struct situation situations[] = {
        {.name = "none open"},
        {.name = "time in the G", .is_open = true},
        {.name = "cpuTime in another G", .is_open = true, .is_others = true, .quantities = "cpuTime"},
        {.name = "cpuTime in the G", .is_open = true, .quantities = "cpuTime"},
        {.name = "page faults in the G", .is_open = true, .quantities = "pageFaults"},
        {.name = "coreCycles in the G", .is_open = true, .quantities = "coreCycles"},
        {.name = "instructions in the G", .is_open = true, .quantities = "instructions"},
    };
    struct cp_m *m = attached(b);

    cp_g_init(&runs, stack, stack + sizeof stack / 2, NULL);
    cp_g_init(&other, stack + sizeof stack / 2, stack + sizeof stack, NULL);
    for (size_t i = 0; i < sizeof situations / sizeof situations[0]; i++)
        cp_t_run(b, situations[i].name, switches, &situations[i]);
    cp_g_fini(&runs);
    cp_g_fini(&other);
    cp_m_detach(m);
}

BENCH_MAIN()
