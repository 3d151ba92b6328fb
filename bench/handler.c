/*
 * What the handler costs: all of it, from the signal to its return; and its parts: finding a call chain,
 * compared with libunwind's unw_backtrace() and unw_step(), and storing the sample. Also, how long the attach
 * of a thread takes to find the end of the thread's stack. x-ours says how many times as long libunwind takes
 * for a frame: the median of paired rounds and its quartiles.
 */
#define UNW_LOCAL_ONLY
#include "bench.h"

#include <libunwind.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "runtime/chunk.h"
#include "runtime/engine/perf_m_linux.h"
#include "runtime/handler.h"
#include "runtime/m.h"
#include "runtime/samplebuf.h"
#include "runtime/unwind/cache.h"
#include "runtime/unwind/code.h"

enum { ROUNDS = 31, CHAINS = 2000, MAX = 256 };

/* ---- Ways to find a chain -------------------------------------------------------------------- */

static struct cp__stack stack;
static struct cp__unwind_cache cache;
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

    return cp__unwind_from_handler(&regs, &stack, &cache, frames, MAX, &flags, NULL);
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
        result += cp__caller_from_handler(arg, stack.hi, cp__text_at_from_handler, &caller);
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

    if (cp__pool_resize(1) < 0 || cp__samplebuf_make(&buf) < 0)
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

/* ---- The whole handler ----------------------------------------------------------------------- */

enum { PERIOD = 100000, SIGNALS = 100, ID = 7, FD = 1000, MORE_THAN_CACHES = 8 << 20 };

/* What put_record() writes. */
#define SAMPLE_TYPE (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_READ | PERF_SAMPLE_REGS_USER)

/* An M whose records and signals the benchmark makes, as the kernel would. */
struct signals {
    struct cp__m *m;
    struct cp__perf_m *perf;
    struct perf_event_mmap_page *page;
    uint64_t *words;
    siginfo_t info;
    ucontext_t context;
    uint64_t count;
};

static void make_m(struct cp_t *b, struct signals *signals)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    struct cp_error err;
    struct cp_m *m;

    if (cp_m_attach(&m, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    signals->m = (struct cp__m *)m;
    if (cp__m_make_own(signals->m, &cp__engine_perf) < 0)
        cp_t_fatal(b, "There is no memory for the engine.");
    signals->perf = cp__perf_of(signals->m);
    signals->page = aligned_alloc(size, 2 * size);
    if (signals->page == NULL || cp__pool_resize(1) < 0 || cp__samplebuf_make(&signals->m->buffers[0]) < 0)
        cp_t_fatal(b, "There is no memory for the buffers.");
    memset(signals->page, 0, 2 * size);
    signals->words = (uint64_t *)(void *)((char *)signals->page + size);
    signals->perf->ring = (struct cp__ring){.page = signals->page,
                                            .words = signals->words,
                                            .n_words = size / sizeof(uint64_t),
                                            .own_begin = UINT64_MAX,
                                            .fd = -1};
    signals->m->stats[0].seq = 1;
    cp_store_relaxed(&signals->m->armed, 1); /* relaxed: of this thread */
}

/* Opens the handle of a clock that the kernel does not know. */
static void open_clock(struct signals *signals)
{
    cp__perf_has_lost_count = true; /* as put_record() writes them */
    signals->m->handles[0] =
        (struct cp__handle){.seq = 1, .engine = &cp__engine_perf, .kind = CP_EVENT_CLOCK, .signal = SIGPROF};
    signals->perf->handles[0] =
        (struct cp__perf_handle){.seq = 1,
                                 .period = PERIOD,
                                 .events = {{.fd = FD, .id = ID}},
                                 .n_events = 1,
                                 .layout = cp__record_layout_from_handler(SAMPLE_TYPE),
                                 .kind = CP_EVENT_CLOCK,
                                 .periods.folds = true};
    signals->info = (siginfo_t){.si_code = POLL_IN};
    signals->info.si_fd = FD;
}

static void free_m(struct signals *signals)
{
    signals->m->handles[0] = (struct cp__handle){.seq = 0};
    signals->perf->handles[0] = (struct cp__perf_handle){.seq = 0};
    signals->perf->ring.page = NULL;
    cp_store_relaxed(&signals->m->armed, 0); /* relaxed: of this thread */
    free(signals->page);
    cp_m_detach(&signals->m->head);
}

/* Writes a record of the next period, made where the context is. */
static void put_record(struct signals *signals)
{
    const struct cp__registers regs = cp__registers_from_handler(&signals->context);
    const struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = 9 * sizeof(uint64_t)};
    uint64_t words[9] = {0, ID, 0, 0, 0, 0, PERF_SAMPLE_REGS_ABI_64, regs.sp, regs.pc};
    uint64_t at = signals->page->data_head / sizeof(uint64_t);

    signals->count += PERIOD;
    words[2] = words[3] = words[4] = signals->count;
    memcpy(words, &header, sizeof header);
    for (unsigned i = 0; i < 9; i++)
        signals->words[(at + i) & (signals->perf->ring.n_words - 1)] = words[i];
    signals->page->data_head += header.size;
}

static void raise_signal(struct signals *signals)
{
    if (signals->m->handles[0].kind == CP_EVENT_CLOCK)
        put_record(signals);
    cp__on_signal_from_handler(SIGPROF, &signals->info, &signals->context);
}

/* An iteration is SIGNALS signals one after the other, and some after something else has had the caches. */
static void handle_signals(struct cp_t *b, void *arg)
{
    static volatile char others[MORE_THAN_CACHES];
    struct signals *signals = arg;
    struct bench_rounds warm = {0}, cold = {0};

    for (; cp_bench_next(b);) {
        double start = bench_now_ns();

        for (int i = 0; i < SIGNALS; i++)
            raise_signal(signals);
        bench_add(&warm, (bench_now_ns() - start) / SIGNALS);
        cp__samplebuf_read(&signals->m->buffers[0], signals->m->handles[0].seq, discard, NULL);
        for (size_t i = 0; i < sizeof others; i += 64)
            others[i]++;
        start = bench_now_ns();
        raise_signal(signals);
        bench_add(&cold, bench_now_ns() - start);
    }
    bench_spread(b, &warm, "ns/warm");
    bench_spread(b, &cold, "ns/cold");
}

static const ucontext_t elsewhere; /* with a stack pointer that is on no stack */

__attribute__((noinline)) static uint64_t handle_below(struct cp_t *b, struct signals *signals, int depth)
{
    if (depth > 0) {
        uint64_t deeper = handle_below(b, signals, depth - 1);

        __asm__ volatile("" : "+r"(deeper)); /* the call must not become a jump */
        return deeper + 1;
    }
    getcontext(&signals->context);
    cp_t_run(b, "a record", handle_signals, signals);
    signals->context = elsewhere;
    cp_t_run(b, "a record and no stack", handle_signals, signals);
    return result;
}

/* One event is armed. Without a stack there is nothing to walk. The kernel's part (the interrupt, the frame
 * of the signal, the return) is not included; what writing the record takes here is. */
CP_BENCHMARK(Signal)
{
    static struct signals signals;

    cp__code_update();
    make_m(b, &signals);
    open_clock(&signals);
    result += handle_below(b, &signals, 20);
    free_m(&signals);
}

/* The ticks of a timer, which has none of its own meanwhile: one a second. */
CP_BENCHMARK(Tick)
{
    static struct signals signals;
    const struct cp_event_spec timer = {.size = sizeof timer, .event = CP_CPUPROF_OS_TIMER};
    struct cp_slot_request request = {.event = timer.event, .config.size = sizeof request.config};
    struct cp_error err;
    struct cp_m *m;
    int slot;

    if (cp_cpu_profile_config_init(&request.config, &timer, 1000000000, &err) < 0 ||
        cp_m_attach(&m, &err) < 0 || cp_slots_start(&request, 1, &slot, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    signals.m = (struct cp__m *)m;
    signals.info = (siginfo_t){.si_code = SI_TIMER};
    signals.info.si_value.sival_ptr = (void *)(uintptr_t)signals.m->handles[slot].seq;
    cp_t_run(b, "no stack", handle_signals, &signals);
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
    cp_m_detach(m);
}

/* ---- Page faults ----------------------------------------------------------------------------- */

enum { FAULTS = 100 };

static double a_fault_ns(volatile char *pages, size_t size)
{
    double start;

    madvise((void *)(uintptr_t)pages, FAULTS * size, MADV_DONTNEED);
    start = bench_now_ns();
    for (size_t i = 0; i < FAULTS; i++)
        pages[i * size] = 1;
    return (bench_now_ns() - start) / FAULTS;
}

/* What a page fault takes longer if the event samples it: all of it, with the kernel's part. The handler
 * pauses the event meanwhile, because a fault of its own would otherwise have a sample. */
CP_BENCHMARK(PageFault)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    struct cp_slot_request request = {.config.size = sizeof request.config};
    struct cp_event_spec spec = {.size = sizeof spec};
    volatile char *pages = mmap(NULL, FAULTS * size, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct bench_rounds more = {0};
    struct cp_error err;
    struct cp_m *m;
    int slot;

    if (pages == MAP_FAILED || cp_m_attach(&m, &err) < 0 || cp_event_parse("pageFaults", &spec, &err) < 0 ||
        cp_cpu_profile_config_init(&request.config, &spec, 1, &err) < 0)
        cp_t_fatal(b, "There is no memory, no M or no event.");
    request.event = spec.event;
    for (; cp_bench_next(b);) {
        double bare = a_fault_ns(pages, size);

        if (cp_slots_start(&request, 1, &slot, &err) < 0)
            cp_t_fatal(b, "%s", err.message);
        bench_add(&more, a_fault_ns(pages, size) - bare);
        cp_slots_stop(&slot, 1);
        cp_slots_read(slot, discard, NULL);
        cp_slots_release(&slot, 1);
    }
    cp_m_detach(m);
    munmap((void *)(uintptr_t)pages, FAULTS * size);
    bench_spread(b, &more, "ns/sample");
}

/* ---- Attaching ------------------------------------------------------------------------------- */

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
