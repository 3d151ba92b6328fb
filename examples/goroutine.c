/*
 * Ten functions, f1 to f10, cost the same and run on ten green threads: a profile must give each of them 10
 * %. From the Go proposal "hardware performance counters for CPU profiling", section 2.3.1. Flags: see
 * common.h.
 *
 * With -gs N, N green threads run the ten functions in turn. All green threads yield all the time.
 */
#include "common.h"

#include "sched.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

EXAMPLE_FUNCTION(f1, 1)
EXAMPLE_FUNCTION(f2, 2)
EXAMPLE_FUNCTION(f3, 3)
EXAMPLE_FUNCTION(f4, 4)
EXAMPLE_FUNCTION(f5, 5)
EXAMPLE_FUNCTION(f6, 6)
EXAMPLE_FUNCTION(f7, 7)
EXAMPLE_FUNCTION(f8, 8)
EXAMPLE_FUNCTION(f9, 9)
EXAMPLE_FUNCTION(f10, 10)

enum { FUNCTIONS = 10 };
static struct example_function functions[FUNCTIONS] = {
    {.run = f1, .name = "f1"},   {.run = f2, .name = "f2"}, {.run = f3, .name = "f3"},
    {.run = f4, .name = "f4"},   {.run = f5, .name = "f5"}, {.run = f6, .name = "f6"},
    {.run = f7, .name = "f7"},   {.run = f8, .name = "f8"}, {.run = f9, .name = "f9"},
    {.run = f10, .name = "f10"},
};

static const struct example *example;
static struct cp_wait_group *ended;
/* Each green thread does this many chunks of work. A chunk has this many steps on average, and the green
 * thread yields after each chunk. */
static uint64_t chunks;
static uint64_t steps;
static uint64_t result; /* the compiler cannot remove the work, because the work's result is stored here */

/* The work of one green thread. Chunks differ in length, because chunks of one length could fall into step
 * with the samples. The i-th chunk has the same length in all green threads. */
static void work(void *function)
{
    uint64_t x = 1;
    uint32_t random = 1;
    for (uint64_t i = 0; i < chunks; i++) {
        random = random * 1664525 + 1013904223;
        x = example_run(example, function, x, steps / 2 + (steps * (random >> 16) >> 16));
        cp_yield();
    }
    cp_store_relaxed(&result, x); /* relaxed: nobody reads the result */
    cp_wait_group_done(ended);
}

static void run_all(void *unused)
{
    (void)unused;
    cp_wait_group_add(ended, example->gs);
    for (unsigned i = 0; i < example->gs; i++) {
        functions[i % FUNCTIONS].weight++;
        int error = cp_go(work, &functions[i % FUNCTIONS]);
        if (error < 0) {
            fprintf(stderr, "Green thread %u cannot be started: %s.\n", i + 1, strerror(-error));
            exit(1);
        }
    }
    cp_wait_group_wait(ended);
}

/* Returns how long a step takes on this machine if nothing interrupts it. */
static double step_ns(void)
{
    enum { STEPS = 100000 };
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        result = f1(result, STEPS);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / STEPS;
        best = ns < best ? ns : best;
    }
    return best;
}

/* Plans chunks of 300 us, or shorter ones, so that each green thread yields at least a hundred times. */
static void plan(void)
{
    cpu_set_t set;
    unsigned cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
    double ns = example->seconds * 1e9 * (example->threads < cpus ? example->threads : cpus) / example->gs;
    double chunk_ns = ns < 100 * 300e3 ? ns / 100 : 300e3;
    chunks = (uint64_t)(ns / chunk_ns + 0.5);
    steps = (uint64_t)(chunk_ns / step_ns()) + 1;
}

int main(int argc, char **argv)
{
    struct example e = {.threads = 2, .gs = FUNCTIONS, .seconds = 3};
    example_parse(&e, argc, argv);
    example = &e;
    plan();
    ended = cp_wait_group_new();
    if (!ended)
        abort();
    example_run_all(&e, run_all);
    cp_wait_group_free(ended);
    example_print(&e, functions, FUNCTIONS);
    return 0;
}
