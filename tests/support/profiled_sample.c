/* Tests and benchmarks that run long enough to be profiled, for runner_profile_test.c. */
#include "sched.h"
#include "testing.h"

#include <stdlib.h>
#include <time.h>

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Each function contains its own name, because the compiler would merge equal functions. */
#define BURN(name)                                                                                           \
    __attribute__((noinline)) static void name(double seconds)                                               \
    {                                                                                                        \
        for (double end = cpu_seconds() + seconds; cpu_seconds() < end;)                                     \
            for (int i = 0; i < 10000; i++)                                                                  \
                __asm__ volatile("/* " #name " */" : "+r"(i));                                               \
    }

BURN(burn_one)
BURN(burn_two)
BURN(burn_before_exit)
BURN(burn_setup)
BURN(burn_loop)
BURN(burn_paused)
BURN(burn_g)

CP_TEST(one)
{
    burn_one(0.3);
}

CP_TEST(two)
{
    burn_two(0.3);
}

__attribute__((noinline)) static void send_here(struct cp_chan *chan)
{
    cp_chan_send(chan, NULL);
    __asm__ volatile("");
}

__attribute__((noinline)) static void receive_here(struct cp_chan *chan)
{
    cp_chan_recv(chan, NULL);
    __asm__ volatile("");
}

static void send_late(void *chan)
{
    send_here(chan);
}

/* With one M, the receiver waits each time: the sender begins when it does. */
CP_TEST(waits)
{
    struct cp_chan *chan = cp_chan_new(0, 0);

    for (int i = 0; i < 5; i++) {
        cp_go(send_late, chan);
        receive_here(chan);
    }
    cp_chan_free(chan);
}

CP_TEST(crashes)
{
    burn_before_exit(0.1);
    abort();
}

CP_BENCHMARK(loop)
{
    burn_setup(0.3);
    for (; cp_bench_next(b);)
        burn_loop(0.003);
}

CP_BENCHMARK(paused)
{
    for (; cp_bench_next(b);) {
        cp_bench_pause(b);
        burn_paused(0.003);
        cp_bench_resume(b);
        burn_loop(0.003);
    }
}

static void run_g(void *group)
{
    burn_g(0.003);
    cp_wait_group_done(group);
}

CP_BENCHMARK(gs)
{
    struct cp_wait_group *group = cp_wait_group_new();
    for (; cp_bench_next(b);) {
        cp_wait_group_add(group, 2);
        cp_go(run_g, group);
        cp_go(run_g, group);
        cp_wait_group_wait(group);
    }
    cp_wait_group_free(group);
}

CP_TEST_MAIN()
