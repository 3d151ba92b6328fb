/*
 * What the handler's parts cost: finding a call chain, next to libunwind's unw_backtrace() and unw_step() in
 * the same rounds, and keeping the sample. Besides, what a thread's attach takes to find where its stack
 * ends.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/os.h"
#include "runtime/samplebuf.h"
#include "runtime/unwind.h"

enum { ROUNDS = 31, CHAINS = 2000, MAX = 256 };
static const int depths[] = {5, 20, 100};

static double now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* ---- Ways to find a chain -------------------------------------------------------------------- */

static struct cp__stack stack;
static uintptr_t frames[MAX];
static uint64_t result;

/* The registers of the calling function, at the call. */
__attribute__((noinline)) static struct cp__registers registers_here(void)
{
    const uintptr_t *frame = __builtin_frame_address(0);

    return (struct cp__registers){.pc = frame[1], .sp = (uintptr_t)(frame + 2), .fp = frame[0]};
}

static unsigned by_frame_pointers(void)
{
    const struct cp__registers regs = registers_here();
    unsigned flags;

    return cp__unwind_from_handler(&regs, &stack, frames, MAX, &flags);
}

static unsigned by_unw_backtrace(void)
{
    return (unsigned)unw_backtrace((void **)frames, MAX);
}

static unsigned by_unw_step(void)
{
    unw_context_t context;
    unw_cursor_t cursor;
    unw_word_t pc;
    unsigned n = 0;

    unw_getcontext(&context);
    unw_init_local(&cursor, &context);
    do {
        unw_get_reg(&cursor, UNW_REG_IP, &pc);
        frames[n++] = pc;
    } while (n < MAX && unw_step(&cursor) > 0);
    return n;
}

struct way {
    const char *name;
    unsigned (*find)(void);
    int chains; /* a round */
};
static const struct way ways[] = {{"cp__unwind_from_handler", by_frame_pointers, CHAINS},
                                  {"unw_backtrace", by_unw_backtrace, CHAINS},
                                  {"unw_step", by_unw_step, CHAINS / 50}};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* ---- Rounds ---------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median, and the quarters below and above it. */
static void print(const char *what, double *values, const char *unit)
{
    qsort(values, ROUNDS, sizeof *values, ascending);
    printf("  %-28s %9.2f %s (%.2f to %.2f)\n", what, values[ROUNDS / 2], unit, values[ROUNDS / 4],
           values[ROUNDS - 1 - ROUNDS / 4]);
}

static double a_frame[WAYS][ROUNDS];
static unsigned n_frames[WAYS];

static void measure(int round)
{
    for (int way = 0; way < WAYS; way++) {
        double start = now_ns();

        for (int i = 0; i < ways[way].chains; i++)
            n_frames[way] = ways[way].find();
        a_frame[way][round] = (now_ns() - start) / ways[way].chains / n_frames[way];
    }
}

__attribute__((noinline)) static uint64_t descend(int depth)
{
    if (depth > 0) {
        uint64_t deeper = descend(depth - 1);

        __asm__ volatile("" : "+r"(deeper)); /* so that it stays a call */
        return deeper + 1;
    }
    for (int round = 0; round < ROUNDS; round++)
        measure(round);
    return frames[0];
}

static void compare_chains(int depth)
{
    double ratios[ROUNDS];

    result += descend(depth);
    printf("A chain of %u frames:\n", n_frames[0]);
    for (int way = 1; way < WAYS; way++) {
        char title[64];

        for (int round = 0; round < ROUNDS; round++)
            ratios[round] = a_frame[way][round] / a_frame[0][round];
        snprintf(title, sizeof title, "%s to it", ways[way].name);
        print(title, ratios, "times as long");
    }
    for (int way = 0; way < WAYS; way++)
        print(ways[way].name, a_frame[way], "ns a frame");
}

/* ---- The other parts ------------------------------------------------------------------------- */

/* The first caller by the code ahead: a function that returns soon, and one in which many ways end at calls.
 */
static void measure_first_caller(const char *title, const struct cp__registers *regs)
{
    struct cp__registers caller;
    double values[ROUNDS];

    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();

        for (int i = 0; i < CHAINS; i++)
            result += cp__caller_from_handler(regs, stack.hi, &caller);
        values[round] = (now_ns() - start) / CHAINS;
    }
    print(title, values, "ns");
}

static void discard(void *context, const struct cp_sample *sample)
{
    (void)context;
    result += sample->depth;
}

static void measure_appending(void)
{
    const struct cp_sample sample = {.weight = 1, .g_id = 1, .depth = 20, .frames = frames};
    struct cp__samplebuf buf = {0};
    double appending[ROUNDS], reading[ROUNDS];
    enum { SAMPLES = 1000 };
    bool half;

    if (cp__samplebuf_make(&buf) < 0)
        return;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();

        for (int i = 0; i < SAMPLES; i++)
            cp__samplebuf_append_from_handler(&buf, 1, &sample, &half);
        appending[round] = (now_ns() - start) / SAMPLES;
        start = now_ns();
        cp__samplebuf_read(&buf, 1, discard, NULL);
        reading[round] = (now_ns() - start) / SAMPLES;
    }
    cp__samplebuf_free(&buf);
    print("appending 20 frames", appending, "ns");
    print("reading them", reading, "ns");
}

static void measure_stack(const char *title)
{
    double values[ROUNDS];

    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();

        stack = cp__os_thread_stack();
        values[round] = (now_ns() - start) / 1000;
    }
    print(title, values, "us");
}

static void *on_thread(void *arg)
{
    const struct cp__registers regs = registers_here();
    static const unsigned char returns[] = {0xc3};
    const struct cp__registers returning = {.pc = (uintptr_t)returns, .sp = regs.sp, .fp = regs.fp};

    stack = cp__os_thread_stack();
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++)
        compare_chains(depths[i]);
    printf("Parts:\n");
    measure_first_caller("first caller, at a ret", &returning);
    measure_first_caller("first caller, between calls", &regs);
    measure_appending();
    measure_stack("end of a thread's stack");
    return arg;
}

int main(void)
{
    pthread_t thread;

    printf("Parts of the handler; medians of %d rounds (and their quartiles).\n", ROUNDS);
    if (pthread_create(&thread, NULL, on_thread, NULL) != 0)
        return 1;
    pthread_join(thread, NULL);
    measure_stack("end of the main thread's");
    return result == 0; /* so that the work is not left away */
}
