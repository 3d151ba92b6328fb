/*
 * What the scheduler's operations cost, beside what switching stacks costs at least on the same machine: a
 * bare pair of context switches, and the C library's swapcontext. Each figure is the best of some rounds.
 */
#include "context.h"
#include "runtime/sched.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#define ROUNDS 30 /* short ones, so that some are undisturbed */

static double now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double floor_ns;

static void report(const char *what, double ns)
{
    printf("%-44s %9.1f ns  %6.1f x\n", what, ns, ns / floor_ns);
}

static void run(unsigned threads, void (*fn)(void *), void *arg)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = threads};
    struct cp_error err;

    if (cp_sched_run(&options, fn, arg, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
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

static double bare_switch(unsigned n)
{
    double start;

    cp__context_init(&there, stack, stack + sizeof stack, goes_back, NULL);
    start = now_ns();
    for (unsigned i = 0; i < n; i++)
        cp__context_switch(&here, &there);
    return (now_ns() - start) / n / 2;
}

static double swapcontext_switch(unsigned n)
{
    double start;

    getcontext(&uthere);
    uthere.uc_stack.ss_sp = stack;
    uthere.uc_stack.ss_size = sizeof stack;
    makecontext(&uthere, ugoes_back, 0);
    start = now_ns();
    for (unsigned i = 0; i < n; i++)
        swapcontext(&uhere, &uthere);
    return (now_ns() - start) / n / 2;
}

/* ---- Yielding -------------------------------------------------------------------------------- */

struct crowd {
    unsigned gs;
    unsigned yields; /* each */
    double ns;
    struct cp_wait_group *ready, *go, *done;
};

static void yields(void *arg)
{
    struct crowd *crowd = arg;

    cp_wait_group_done(crowd->ready);
    cp_wait_group_wait(crowd->go);
    for (unsigned i = 0; i < crowd->yields; i++)
        cp_yield();
    cp_wait_group_done(crowd->done);
}

static void yield_crowd(void *arg)
{
    struct crowd *crowd = arg;
    double start;

    crowd->ready = cp_wait_group_new();
    crowd->go = cp_wait_group_new();
    crowd->done = cp_wait_group_new();
    cp_wait_group_add(crowd->ready, crowd->gs);
    cp_wait_group_add(crowd->done, crowd->gs);
    cp_wait_group_add(crowd->go, 1);
    for (unsigned i = 0; i < crowd->gs; i++)
        cp_go(yields, crowd);
    cp_wait_group_wait(crowd->ready);
    start = now_ns();
    cp_wait_group_done(crowd->go);
    cp_wait_group_wait(crowd->done);
    crowd->ns = (now_ns() - start) / crowd->gs / crowd->yields;
    cp_wait_group_free(crowd->ready);
    cp_wait_group_free(crowd->go);
    cp_wait_group_free(crowd->done);
}

static void bench_yield(unsigned threads, unsigned gs)
{
    double best = 1e99;
    char what[64];

    for (int round = 0; round < ROUNDS; round++) {
        struct crowd crowd = {.gs = gs, .yields = 200000 / gs};

        run(threads, yield_crowd, &crowd);
        best = crowd.ns < best ? crowd.ns : best;
    }
    snprintf(what, sizeof what, "cp_yield, %u Gs on %u M%s", gs, threads, threads > 1 ? "s" : "");
    report(what, best);
}

/* ---- Channels, birth ------------------------------------------------------------------------- */

static struct cp_chan *ping, *pong;

static void answers(void *arg)
{
    (void)arg;
    while (cp_chan_recv(ping, NULL) == 0)
        cp_chan_send(pong, NULL);
}

static void asks(void *ns)
{
    const unsigned n = 20000;
    double start;

    cp_go(answers, NULL);
    start = now_ns();
    for (unsigned i = 0; i < n; i++) {
        cp_chan_send(ping, NULL);
        cp_chan_recv(pong, NULL);
    }
    *(double *)ns = (now_ns() - start) / n;
    cp_chan_close(ping);
}

static void is_born(void *arg)
{
    (void)arg;
}

static void bears(void *ns)
{
    const unsigned n = 20000;
    double start = now_ns();

    for (unsigned i = 0; i < n; i++) {
        cp_go(is_born, NULL);
        if (i % 32 == 31)
            cp_yield();
    }
    cp_yield();
    *(double *)ns = (now_ns() - start) / n;
}

static void bears_all_at_once(void *ns)
{
    const unsigned n = 100000;
    double start = now_ns();

    for (unsigned i = 0; i < n; i++)
        cp_go(is_born, NULL);
    *(double *)ns = (now_ns() - start) / n;
}

static void bench(const char *what, unsigned threads, void (*fn)(void *))
{
    double ns, best = 1e99;

    for (int round = 0; round < ROUNDS; round++) {
        ping = cp_chan_new(0, 0);
        pong = cp_chan_new(0, 0);
        run(threads, fn, &ns);
        best = ns < best ? ns : best;
        cp_chan_free(ping);
        cp_chan_free(pong);
    }
    report(what, best);
}

int main(void)
{
    double peer = 1e99, ns;

    floor_ns = 1e99;
    for (int round = 0; round < ROUNDS; round++) {
        ns = bare_switch(100000);
        floor_ns = ns < floor_ns ? ns : floor_ns;
        ns = swapcontext_switch(20000);
        peer = ns < peer ? ns : peer;
    }
    report("a bare context switch", floor_ns);
    report("swapcontext", peer);
    bench_yield(1, 1);
    bench_yield(1, 2);
    bench_yield(1, 10);
    bench_yield(1, 1000);
    bench_yield(1, 10000);
    bench_yield(2, 10);
    bench_yield(2, 1000);
    bench_yield(64, 10000);
    bench("a round trip over two channels, 1 M", 1, asks);
    bench("a round trip over two channels, 2 Ms", 2, asks);
    bench("a G's whole life, on a used stack", 1, bears);
    bench("starting 100000 Gs, on new stacks", 1, bears_all_at_once);
    return 0;
}
