/*
 * What accounts cost.
 *
 * Switch: what a scheduler tells for each G that it runs, cp_execute(NULL) for the one that leaves and
 * cp_execute_next() for the next one, beside the clocks that could be read for it. The ways take turns: an
 * iteration is a loop of each.
 *
 *     ns/switch  both calls; median of the iterations
 *     ns-more    the same, less both calls as they were before there were accounts, just before; quartiles
 *     x-rdtsc    ns-more, as a multiple of reading the processor's clock just before; quartiles
 *
 * The others are compared with the same calls while accounts are off: a wait has cp_g_park() before and
 * cp_g_ready() between; a life is a cp_g_init() and its cp_g_fini().
 */
#include "bench.h"
#include "counters.h"
#include "runtime.h"

#include <stdbool.h>
#include <time.h>

enum { LOOPS = 20000 };

static struct cp_g runs;
static char stack[4096];
static volatile uint64_t result; /* the compiler cannot remove what is stored here */

/* ---- What is measured ------------------------------------------------------------------------ */

__attribute__((noinline)) static void read_ticks(struct cp_m *m)
{
    (void)m;
    for (int i = 0; i < LOOPS; i++)
        result = cp__ticks_early();
}

__attribute__((noinline)) static void read_clock(struct cp_m *m)
{
    struct timespec now;

    (void)m;
    for (int i = 0; i < LOOPS; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        result = (uint64_t)now.tv_nsec;
    }
}

__attribute__((noinline)) static void switch_before(struct cp_m *m)
{
    for (int i = 0; i < LOOPS; i++) {
        cp_execute_uncounted(m, NULL); /* all that cp_execute() was */
        cp_execute_uncounted(m, &runs);
    }
}

__attribute__((noinline)) static void switch_now(struct cp_m *m)
{
    for (int i = 0; i < LOOPS; i++) {
        cp_execute(m, NULL);
        cp_execute_next(m, &runs);
    }
}

__attribute__((noinline)) static void wait_now(struct cp_m *m)
{
    for (int i = 0; i < LOOPS; i++) {
        cp_g_park(&runs, CP_WAIT_LOCK, stack);
        cp_execute(m, NULL);
        cp_g_ready(&runs);
        cp_execute(m, &runs);
    }
}

__attribute__((noinline)) static void live(struct cp_m *m)
{
    struct cp_g g;

    (void)m;
    for (int i = 0; i < LOOPS; i++) {
        cp_g_init(&g, stack, stack + sizeof stack, &runs);
        cp_g_fini(&g);
    }
}

/* ---- How ------------------------------------------------------------------------------------- */

struct way {
    const char *name;
    void (*loop)(struct cp_m *m);
    void (*floor)(struct cp_m *m); /* NULL: the same without accounts */
    bool is_on;
};

static double ns_of(void (*loop)(struct cp_m *m), struct cp_m *m)
{
    double start = bench_now_ns();

    loop(m);
    return (bench_now_ns() - start) / LOOPS;
}

static void compare(struct cp_t *b, void *arg)
{
    const struct way *way = arg;
    struct bench_rounds all = {0}, more = {0}, of_ticks = {0};
    struct cp_m *m = cp_m_self();

    for (; cp_bench_next(b);) {
        double ticks, floor, ns;

        cp_accounts_set(false);
        ticks = ns_of(read_ticks, m);
        floor = ns_of(way->floor != NULL ? way->floor : way->loop, m);
        cp_accounts_set(way->is_on);
        ns = ns_of(way->loop, m);
        bench_add(&all, ns);
        bench_add(&more, ns - floor);
        bench_add(&of_ticks, (ns - floor) / ticks);
    }
    cp_accounts_set(true);
    cp_bench_metric(b, 0, "ns/op");
    bench_median(b, &all, "ns/switch");
    bench_spread(b, &more, "ns-more");
    bench_spread(b, &of_ticks, "x-rdtsc");
}

static void nothing(struct cp_m *m)
{
    (void)m;
}

CP_BENCHMARK(Account)
{
    static struct way ways[] = {
        {"rdtsc", read_ticks, nothing, false},
        {"clock_gettime", read_clock, nothing, false},
        {"switch off", switch_now, switch_before, false},
        {"switch on", switch_now, switch_before, true},
        {"wait on", wait_now, NULL, true},
        {"life on", live, NULL, true},
    };
    struct cp_error err;
    struct cp_m *m;

    if (cp_m_attach(&m, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    cp_g_init(&runs, stack, stack + sizeof stack, NULL);
    cp_execute(m, &runs);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        cp_t_run(b, ways[i].name, compare, &ways[i]);
    cp_execute(m, NULL);
    cp_g_fini(&runs);
    cp_m_detach(m);
}

BENCH_MAIN()
