/*
 * What the parts of the handler cost: finding a call chain, compared with libunwind's unw_backtrace() and
 * unw_step(), and storing the sample. Also, how long the attach of a thread takes to find the end of the
 * thread's stack. x-ours says how many times as long libunwind takes for a frame: the median of paired rounds
 * and its quartiles.
 */
#define UNW_LOCAL_ONLY
#include "bench.h"

#include <libunwind.h>
#include <pthread.h>
#include <stdint.h>

#include "runtime/samplebuf.h"
#include "runtime/unwind/code.h"
#include "runtime/unwind/unwind.h"

enum { ROUNDS = 31, CHAINS = 2000, MAX = 256 };

/* ---- Ways to find a chain -------------------------------------------------------------------- */

static struct cp__stack stack;
static uintptr_t frames[MAX];
static uint64_t result;

/* Returns the registers of the calling function, at the call. */
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
    int chains; /* chains in a round */
};
static const struct way ways[] = {{"cp__unwind_from_handler", by_frame_pointers, CHAINS},
                                  {"unw_backtrace", by_unw_backtrace, CHAINS},
                                  {"unw_step", by_unw_step, CHAINS / 50}};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* ---- Call chains ----------------------------------------------------------------------------- */

static double a_frame_ns(const struct way *way)
{
    double start = bench_now_ns();
    unsigned n = 0;

    for (int i = 0; i < way->chains; i++)
        n = way->find();
    return (bench_now_ns() - start) / way->chains / n;
}

static void find(struct cp_t *b, void *arg)
{
    const struct way *way = arg;
    struct bench_rounds ratios = {0};
    double start = bench_now_ns(), ns;
    unsigned n = 0;

    for (; cp_bench_next(b);)
        n = way->find();
    ns = (bench_now_ns() - start) / (double)cp_bench_iterations(b);
    cp_bench_metric(b, ns / n, "ns/frame");
    cp_bench_metric(b, n, "frames");
    for (int round = 0; way != ways && round < ROUNDS; round++) {
        double ours = a_frame_ns(ways);

        bench_add(&ratios, a_frame_ns(way) / ours);
    }
    bench_spread(b, &ratios, "x-ours");
}

static void find_in_all_ways(struct cp_t *b, void *arg)
{
    (void)arg;
    for (int way = 0; way < WAYS; way++)
        cp_t_run(b, ways[way].name, find, CP_TEST_UNCONST(&ways[way]));
}

__attribute__((noinline)) static uint64_t descend(struct cp_t *b, const char *name, int depth)
{
    if (depth > 0) {
        uint64_t deeper = descend(b, name, depth - 1);

        __asm__ volatile("" : "+r"(deeper)); /* the call must not become a jump */
        return deeper + 1;
    }
    cp_t_run(b, name, find_in_all_ways, NULL);
    return frames[0];
}

/* "N frames more" counts the frames below those of the benchmark itself. */
CP_BENCHMARK(Chain)
{
    stack = cp__thread_stack();
    cp__code_update();
    result += descend(b, "5 frames more", 5);
    result += descend(b, "20 frames more", 20);
    result += descend(b, "100 frames more", 100);
}

/* ---- The other parts ------------------------------------------------------------------------- */

static void first_caller(struct cp_t *b, void *arg)
{
    struct cp__registers caller;

    for (; cp_bench_next(b);)
        result += cp__caller_from_handler(arg, stack.hi, &caller);
}

/* Finding the first caller by the code ahead: in a function that is about to return, and in one in which many
 * ways end at calls. */
CP_BENCHMARK(FirstCaller)
{
    struct cp__registers regs = registers_here();
    static const unsigned char returns[] = {0xc3};
    struct cp__registers returning = {.pc = (uintptr_t)returns, .sp = regs.sp, .fp = regs.fp};

    stack = cp__thread_stack();
    cp_t_run(b, "at a ret", first_caller, &returning);
    cp_t_run(b, "between calls", first_caller, &regs);
}

static void discard(void *context, const struct cp_sample *sample)
{
    (void)context;
    result += sample->depth;
}

enum { SAMPLES = 1000 };

/* An iteration appends a thousand samples of 20 frames to the buffer, and reads them. */
CP_BENCHMARK(SampleBuffer)
{
    const struct cp_sample sample = {.weight = 1, .g_id = 1, .depth = 20, .frames = frames};
    struct cp__samplebuf buf = {0};
    struct bench_rounds appending = {0}, reading = {0};
    bool half;

    if (cp__samplebuf_make(&buf) < 0)
        cp_t_fatal(b, "There is no memory for the buffer.");
    for (; cp_bench_next(b);) {
        double start = bench_now_ns(), middle;

        for (int i = 0; i < SAMPLES; i++)
            cp__samplebuf_append_from_handler(&buf, 1, &sample, &half);
        middle = bench_now_ns();
        cp__samplebuf_read(&buf, 1, discard, NULL);
        bench_add(&appending, (middle - start) / SAMPLES);
        bench_add(&reading, (bench_now_ns() - middle) / SAMPLES);
    }
    cp__samplebuf_free(&buf);
    bench_spread(b, &appending, "ns/append");
    bench_spread(b, &reading, "ns/read");
}

static void *find_end(void *ns)
{
    double start = bench_now_ns();

    stack = cp__thread_stack();
    *(double *)ns = bench_now_ns() - start;
    return NULL;
}

static void find_main_threads_end(struct cp_t *b, void *arg)
{
    (void)arg;
    for (; cp_bench_next(b);)
        stack = cp__thread_stack();
}

/* An iteration is the whole life of a thread; ns/search is the search alone. */
static void find_threads_end(struct cp_t *b, void *arg)
{
    struct bench_rounds searches = {0};

    (void)arg;
    for (; cp_bench_next(b);) {
        pthread_t thread;
        double ns;

        if (pthread_create(&thread, NULL, find_end, &ns) != 0)
            cp_t_fatal(b, "There is no further thread.");
        pthread_join(thread, NULL);
        bench_add(&searches, ns);
    }
    bench_spread(b, &searches, "ns/search");
}

/* Finding the end of a stack. */
CP_BENCHMARK(EndOfStack)
{
    cp_t_run(b, "of a thread", find_threads_end, NULL);
    cp_t_run(b, "of the main thread", find_main_threads_end, NULL);
}

BENCH_MAIN()
