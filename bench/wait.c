/*
 * What recordings of waits cost a switch.
 *
 * Wait: a G parks, another G takes its M and makes the first one ready, and the M takes that again; nothing
 * happens between these. All four calls are made on one stack, which has ten frames, so that no switch of
 * stacks is measured. Each iteration makes two loops: with accounts alone, and with what runs beside them.
 *
 *     ns/wait   the four calls; median of the iterations
 *     ns-more   the same, less the loop with accounts alone just before; quartiles
 *     x-clock   the same as a multiple of a call of clock_gettime() just before; median
 */
#include "bench.h"
#include "runtime/wait/recording.h"
#include "sched.h"

#include <time.h>

/* The other frames are of wait_often(), of the three functions around wait_below(), and of the scheduler. */
enum { WAITS = 1000, FRAMES = 10, BELOW = 4 };

/* What runs. */
struct situation {
    const char *name;
    bool is_recorded;
    enum cp__wait_event event;
    uint64_t period;
};

static double ns_of_clock(void)
{
    double start = bench_now_ns();
    struct timespec now;

    for (int i = 0; i < WAITS; i++)
        clock_gettime(CLOCK_MONOTONIC, &now);
    return (bench_now_ns() - start) / WAITS;
}

static struct cp_g waker; /* has the same stack */

__attribute__((noinline)) static void wait_often(struct cp_m *m, int waits)
{
    struct cp_g *g = cp_g_self();

    for (int i = 0; i < waits; i++) {
        cp_g_park(g, CP_WAIT_PARK, NULL);
        cp_execute(m, &waker);
        cp_g_ready(g);
        cp_execute(m, g);
    }
}

/* Makes so many frames of its own. */
__attribute__((noinline)) static void wait_below(struct cp_m *m, int frames, int waits)
{
    if (frames > 1)
        wait_below(m, frames - 1, waits);
    else
        wait_often(m, waits);
    __asm__ volatile("");
}

static double ns_per_wait(struct cp_m *m)
{
    double start = bench_now_ns();

    wait_below(m, BELOW, WAITS);
    return (bench_now_ns() - start) / WAITS;
}

static int most_frames(void *context, const struct cp__waits *waits)
{
    unsigned *depth = context;

    *depth = waits->depth > *depth ? waits->depth : *depth;
    return 0;
}

/* Checks that what the situation is about has been recorded. */
static void check_recorded(struct cp_t *b, struct cp__recording *recording, const struct situation *situation)
{
    struct cp__recording_stats stats;
    unsigned depth = 0;

    cp__recording_each(recording, &stats, most_frames, &depth);
    if (stats.dropped > 0 || (situation->period == 1 && depth < FRAMES))
        cp_t_fatal(b, "%u frames, %llu waits were dropped", depth, (unsigned long long)stats.dropped);
}

/* What a G does. */
struct work {
    struct cp_t *b;
    const struct situation *situation;
    struct bench_rounds all, more, of_clock;
};

__attribute__((noinline)) static void measure(struct work *work)
{
    const struct situation *situation = work->situation;
    const double clock = ns_of_clock(), before = ns_per_wait(cp_m_self());
    struct cp__recording *recording = NULL;
    struct cp_error err;
    double now;

    if (situation->is_recorded &&
        cp__recording_start(situation->event, situation->period, &recording, &err) < 0)
        cp_t_fatal(work->b, "%s", err.message);
    wait_below(cp_m_self(), BELOW, 100);
    now = ns_per_wait(cp_m_self());
    if (recording != NULL)
        check_recorded(work->b, recording, situation);
    cp__recording_free(recording);
    bench_add(&work->all, now);
    bench_add(&work->more, now - before);
    bench_add(&work->of_clock, now / clock);
}

static void in_g(void *arg)
{
    struct work *work = arg;
    const struct cp_g *g = cp_g_self();

    cp_g_init(&waker, (void *)g->stack_lo, (void *)g->stack_hi, g);
    while (cp_bench_next(work->b))
        measure(work);
    cp_g_fini(&waker);
}

static void one_situation(struct cp_t *b, void *arg)
{
    const struct cp_sched_options options = {.size = sizeof options, .threads = 1};
    struct work work = {.b = b, .situation = arg};
    struct cp_error err;

    if (cp_sched_run(&options, in_g, &work, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    cp_bench_metric(b, 0, "ns/op");
    bench_median(b, &work.all, "ns/wait");
    bench_spread(b, &work.more, "ns-more");
    bench_median(b, &work.of_clock, "x-clock");
}

CP_BENCHMARK(Wait)
{
    static struct situation situations[] = {
        {.name = "accounts alone"},
        {"wait none taken", true, CP__WAIT_EVENT_WAIT, 1000000000},
        {"wait default period", true, CP__WAIT_EVENT_WAIT, 1000000},
        {"wait each taken", true, CP__WAIT_EVENT_WAIT, 1},
        {"runnable none taken", true, CP__WAIT_EVENT_RUNNABLE, 1000000000},
        {"runnable each taken", true, CP__WAIT_EVENT_RUNNABLE, 1},
        {"lock none taken", true, CP__WAIT_EVENT_LOCK, 1000000000},
        {"lock each taken", true, CP__WAIT_EVENT_LOCK, 1},
        {"wall", true, CP__WAIT_EVENT_WALL, 10000000},
    };

    for (size_t i = 0; i < sizeof situations / sizeof situations[0]; i++)
        cp_t_run(b, situations[i].name, one_situation, &situations[i]);
}

BENCH_MAIN()
