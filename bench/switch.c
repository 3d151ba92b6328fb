/*
 * What the scheduler's operations cost, compared with the least that a switch of stacks costs on the same
 * machine: a bare context switch, which is measured before and after each operation, and the C library's
 * swapcontext(). A figure in x-bare is a number of bare switches.
 */
#include "bench.h"
#include "context.h"
#include "sched.h"

#include <ucontext.h>

static void run(struct cp_t *b, unsigned threads, void (*fn)(void *), void *arg)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = threads};
    struct cp_error err;

    if (cp_sched_run(&options, fn, arg, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
}

/* ---- Without the scheduler ------------------------------------------------------------------- */

static char stack[65536] __attribute__((aligned(64)));
static struct cp__context here, there;
static ucontext_t uhere, uthere;

static void goes_back(void *arg)
{
    (void)arg;
    for (;;)
        cp__context_switch(&there, &here);
}

static void ugoes_back(void)
{
    for (;;)
        swapcontext(&uthere, &uhere);
}

static void begin_bare_switches(void)
{
    cp__context_init(&there, stack, stack + sizeof stack, goes_back, NULL);
}

static double bare_switch_ns(void)
{
    const unsigned n = 1000000;
    double start;

    begin_bare_switches();
    start = bench_now_ns();
    for (unsigned i = 0; i < n; i++)
        cp__context_switch(&here, &there);
    return (bench_now_ns() - start) / n / 2;
}

/* The time of the loop, and the floor measured before it. */
struct timing {
    struct cp_t *b;
    double floor_ns, start_ns, total_ns;
};

static struct timing begin(struct cp_t *b)
{
    return (struct timing){.b = b, .floor_ns = bare_switch_ns()};
}

static void start(struct timing *timing)
{
    timing->start_ns = bench_now_ns();
}

static void stop(struct timing *timing)
{
    timing->total_ns += bench_now_ns() - timing->start_ns;
}

/* Reports the times of an iteration of so many operations. unit names the time of one operation. */
static void report(const struct timing *timing, double operations, const char *unit)
{
    double ns = timing->total_ns / (double)cp_bench_iterations(timing->b) / operations;

    if (operations > 1)
        cp_bench_metric(timing->b, ns, unit);
    cp_bench_metric(timing->b, 2 * ns / (timing->floor_ns + bare_switch_ns()), "x-bare");
}

static void bare(struct cp_t *b, void *arg)
{
    struct timing timing = begin(b);

    (void)arg;
    begin_bare_switches();
    start(&timing);
    for (; cp_bench_next(b);)
        cp__context_switch(&here, &there);
    stop(&timing);
    report(&timing, 2, "ns/switch");
}

static void swapcontexts(struct cp_t *b, void *arg)
{
    struct timing timing = begin(b);

    (void)arg;
    getcontext(&uthere);
    uthere.uc_stack.ss_sp = stack;
    uthere.uc_stack.ss_size = sizeof stack;
    makecontext(&uthere, ugoes_back, 0);
    start(&timing);
    for (; cp_bench_next(b);)
        swapcontext(&uhere, &uthere);
    stop(&timing);
    report(&timing, 2, "ns/switch");
}

/* An iteration switches there and back. */
CP_BENCHMARK(Switch)
{
    cp_t_run(b, "bare", bare, NULL);
    cp_t_run(b, "swapcontext", swapcontexts, NULL);
}

/* ---- Yielding -------------------------------------------------------------------------------- */

enum { YIELDS = 200000 };

struct crowd {
    struct timing timing;
    const char *name;
    unsigned gs, threads;
    struct cp_wait_group *ready, *go, *done;
};

static void yields(void *arg)
{
    struct crowd *crowd = arg;

    cp_wait_group_done(crowd->ready);
    cp_wait_group_wait(crowd->go);
    for (unsigned i = 0; i < YIELDS / crowd->gs; i++)
        cp_yield();
    cp_wait_group_done(crowd->done);
}

static void yield_crowd(void *arg)
{
    struct crowd *crowd = arg;

    crowd->ready = cp_wait_group_new();
    crowd->go = cp_wait_group_new();
    crowd->done = cp_wait_group_new();
    cp_wait_group_add(crowd->ready, crowd->gs);
    cp_wait_group_add(crowd->done, crowd->gs);
    cp_wait_group_add(crowd->go, 1);
    for (unsigned i = 0; i < crowd->gs; i++)
        cp_go(yields, crowd);
    cp_wait_group_wait(crowd->ready);
    cp_bench_resume(crowd->timing.b);
    start(&crowd->timing);
    cp_wait_group_done(crowd->go);
    cp_wait_group_wait(crowd->done);
    stop(&crowd->timing);
    cp_bench_pause(crowd->timing.b);
    cp_wait_group_free(crowd->ready);
    cp_wait_group_free(crowd->go);
    cp_wait_group_free(crowd->done);
}

static void crowds(struct cp_t *b, void *arg)
{
    struct crowd *crowd = arg;

    crowd->timing = begin(b);
    for (; cp_bench_next(b);) {
        cp_bench_pause(b);
        run(b, crowd->threads, yield_crowd, crowd);
    }
    report(&crowd->timing, YIELDS, "ns/yield");
}

CP_BENCHMARK(Yield)
{
    static struct crowd all[] = {
        {.name = "1 G on 1 M", .gs = 1, .threads = 1},
        {.name = "2 Gs on 1 M", .gs = 2, .threads = 1},
        {.name = "10 Gs on 1 M", .gs = 10, .threads = 1},
        {.name = "1000 Gs on 1 M", .gs = 1000, .threads = 1},
        {.name = "10000 Gs on 1 M", .gs = 10000, .threads = 1},
        {.name = "10 Gs on 2 Ms", .gs = 10, .threads = 2},
        {.name = "1000 Gs on 2 Ms", .gs = 1000, .threads = 2},
        {.name = "10000 Gs on 64 Ms", .gs = 10000, .threads = 64},
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        cp_t_run(b, all[i].name, crowds, &all[i]);
}

/* ---- Channels, birth ------------------------------------------------------------------------- */

static struct cp_chan *ping, *pong;

static void answers(void *arg)
{
    (void)arg;
    while (cp_chan_recv(ping, NULL) == 0)
        cp_chan_send(pong, NULL);
}

static void asks(void *arg)
{
    struct timing *timing = arg;

    cp_go(answers, NULL);
    start(timing);
    for (; cp_bench_next(timing->b);) {
        cp_chan_send(ping, NULL);
        cp_chan_recv(pong, NULL);
    }
    stop(timing);
    cp_chan_close(ping);
}

static void round_trips(struct cp_t *b, void *threads)
{
    struct timing timing = begin(b);

    ping = cp_chan_new(0, 0);
    pong = cp_chan_new(0, 0);
    run(b, *(const unsigned *)threads, asks, &timing);
    cp_chan_free(ping);
    cp_chan_free(pong);
    report(&timing, 1, "");
}

CP_BENCHMARK(RoundTripOverChannels)
{
    static unsigned one = 1, two = 2;

    cp_t_run(b, "1 M", round_trips, &one);
    cp_t_run(b, "2 Ms", round_trips, &two);
}

static void is_born(void *arg)
{
    (void)arg;
}

static void bears(void *arg)
{
    struct timing *timing = arg;

    start(timing);
    for (unsigned i = 0; cp_bench_next(timing->b); i++) {
        cp_go(is_born, NULL);
        if (i % 32 == 31)
            cp_yield();
    }
    stop(timing);
}

static void on_a_used_stack(struct cp_t *b, void *arg)
{
    struct timing timing = begin(b);

    (void)arg;
    run(b, 1, bears, &timing);
    report(&timing, 1, "");
}

enum { BORN = 100000 };

static void bears_all_at_once(void *arg)
{
    struct timing *timing = arg;

    cp_bench_resume(timing->b);
    start(timing);
    for (unsigned i = 0; i < BORN; i++)
        cp_go(is_born, NULL);
    stop(timing);
    cp_bench_pause(timing->b);
}

static void on_new_stacks(struct cp_t *b, void *arg)
{
    struct timing timing = begin(b);

    (void)arg;
    for (; cp_bench_next(b);) {
        cp_bench_pause(b);
        run(b, 1, bears_all_at_once, &timing);
    }
    report(&timing, BORN, "ns/start");
}

/* The whole life of a G, and the start of 100 000 Gs. */
CP_BENCHMARK(Go)
{
    cp_t_run(b, "life on a used stack", on_a_used_stack, NULL);
    cp_t_run(b, "starts on new stacks", on_new_stacks, NULL);
}

BENCH_MAIN()
