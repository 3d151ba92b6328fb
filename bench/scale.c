/*
 * What the calls cost that a profile makes once, beside the number of Ms: a start of a slot, a pass of its
 * reader, the stop with the release, and an attach and a detach of one more M while the slot runs. Most of
 * the Ms sleep all the time. Those that have "worked" did so for a while after the start, so that their
 * events have counted; those that "run" take a CPU between start and stop. An iteration makes each call
 * once. The period is 10 ms.
 *
 *     us-CALL, -q1, -q3   CPU time of the calling thread
 *     us-CALL-wall        time until the call has returned; a stop waits for the Ms that run
 *     x-CALL              CPU time, as a multiple of a floor that the same iteration has measured: an event
 *                         is opened, enabled and closed; for start, read and stop, the CPU clock of each M is
 *                         read, too
 */
#include "bench.h"

#include <limits.h>
#include <linux/perf_event.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime.h"
#include "runtime/base/os.h"

enum { PERIOD_NS = 10000000, STACK = 64 << 10, RUN_US = 20000 };

/* ---- The Ms ---------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    clockid_t clock;
    sem_t turns;
    bool runs; /* between start and stop */
};

static sem_t answers;       /* one for each turn that an M has begun to sleep after */
static uint32_t is_running; /* atomic: whether Ms that run do so */
static uint32_t is_ending;  /* atomic */

/* Sleeps until the next turn. Returns whether there is one. */
static bool await_turn(struct worker *self)
{
    sem_post(&answers);
    while (sem_wait(&self->turns) < 0)
        ;                                    /* a signal came */
    return cp_load_relaxed(&is_ending) == 0; /* relaxed: ordered by the semaphore */
}

/* At each turn, the M looks at the slots. */
static void *work(void *arg)
{
    struct worker *self = arg;
    struct cp_m *m;

    if (cp_m_attach(&m, NULL) < 0)
        abort();
    while (await_turn(self)) {
        cp_execute(m, NULL);
        while (self->runs && cp_load_relaxed(&is_running) != 0) /* relaxed: a number of its own */
            for (volatile unsigned i = 0; i < 10000; i++)
                ;
    }
    cp_m_detach(m);
    return NULL;
}

static void begin_turn(struct worker *workers, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sem_post(&workers[i].turns);
}

/* Waits until n Ms sleep. */
static void await_answers(unsigned n)
{
    while (n > 0)
        n -= sem_wait(&answers) == 0;
}

/* An M has a descriptor for its event, and one for its ring. */
static void allow_descriptors(struct cp_t *b, unsigned n)
{
    struct rlimit files;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 2 * (rlim_t)n + 100)
        cp_t_skip(b, "This user may have %llu descriptors: see ulimit -Hn.",
                  (unsigned long long)files.rlim_cur);
}

static struct worker *make_workers(struct cp_t *b, unsigned n, unsigned running)
{
    struct worker *workers = calloc(n, sizeof *workers);
    pthread_attr_t attr;

    if (workers == NULL)
        cp_t_fatal(b, "There is no memory for the workers.");
    sem_init(&answers, 0, 0);
    cp_store_relaxed(&is_ending, 0u); /* relaxed: the threads do not exist yet */
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    for (unsigned i = 0; i < n; i++) {
        workers[i].runs = i < running;
        sem_init(&workers[i].turns, 0, 0);
        if (pthread_create(&workers[i].thread, &attr, work, &workers[i]) != 0)
            cp_t_fatal(b, "There are only %u threads.", i);
        pthread_getcpuclockid(workers[i].thread, &workers[i].clock);
    }
    pthread_attr_destroy(&attr);
    await_answers(n);
    return workers;
}

static void free_workers(struct worker *workers, unsigned n)
{
    cp_store_relaxed(&is_ending, 1u); /* relaxed: ordered by the semaphores */
    begin_turn(workers, n);
    for (unsigned i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    free(workers);
}

/* ---- The calls ------------------------------------------------------------------------------- */

enum call { START, READ, STOP, ATTACH, DETACH, CALLS };
static const char *const names[CALLS] = {"start", "read", "stop", "attach", "detach"};

static struct cp_slot_request request;
static struct cp_m *extra;
static int slot;

static void discard(void *context, const struct cp_sample *sample)
{
    (void)context, (void)sample;
}

static int make_call(enum call call, struct cp_error *err)
{
    int result;

    switch (call) {
    case START:
        return cp_slots_start(&request, 1, &slot, err);
    case READ:
        return cp_slots_read(slot, discard, NULL);
    case ATTACH:
        return cp_m_attach(&extra, err);
    case DETACH:
        cp_m_detach(extra);
        return 0;
    default:
        result = cp_slots_stop(&slot, 1);
        cp_slots_release(&slot, 1);
        return result;
    }
}

/* ---- The floor ------------------------------------------------------------------------------- */

static double cpu_us(void)
{
    return bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1e3;
}

static void open_and_close(struct cp_t *b)
{
    const struct perf_event_attr attr = {.size = sizeof attr,
                                         .type = PERF_TYPE_SOFTWARE,
                                         .config = PERF_COUNT_SW_TASK_CLOCK,
                                         .sample_period = PERIOD_NS,
                                         .disabled = 1,
                                         .exclude_kernel = 1,
                                         .exclude_hv = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

    if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
        cp_t_fatal(b, "The kernel refuses the event.");
    close(fd);
}

static double us_of_event(struct cp_t *b)
{
    double began = cpu_us();

    open_and_close(b);
    return cpu_us() - began;
}

static double us_of_clocks(const struct worker *workers, unsigned n)
{
    double began = cpu_us();

    for (unsigned i = 0; i < n; i++)
        cp__os_clock_ns_from_handler(workers[i].clock);
    return cpu_us() - began;
}

/* ---- The benchmark --------------------------------------------------------------------------- */

struct figures {
    struct bench_rounds cpu[CALLS], wall[CALLS], ratio[CALLS];
    double event, clocks; /* the floor, of this iteration */
};

/* Makes the call, and notes what it took the calling thread. Returns what the call has returned. */
static int time_call(enum call call, struct figures *figures, struct cp_error *err)
{
    double floor = figures->event + (call == ATTACH || call == DETACH ? 0 : figures->clocks);
    double cpu = cpu_us(), wall = bench_now_ns();
    int result = make_call(call, err);

    cpu = cpu_us() - cpu;
    wall = (bench_now_ns() - wall) / 1e3;
    bench_add(&figures->cpu[call], cpu);
    bench_add(&figures->wall[call], wall);
    bench_add(&figures->ratio[call], cpu / floor);
    return result;
}

/* Becomes an M on a thread of its own: the end of the main thread's stack is found in another way. */
static void *attach_and_detach(void *figures)
{
    if (time_call(ATTACH, figures, NULL) < 0)
        abort();
    time_call(DETACH, figures, NULL);
    return NULL;
}

struct scale {
    const char *name;
    unsigned ms, running;
    bool works; /* all of them work a little between start and stop */
};

static void iterate(struct cp_t *b, const struct scale *scale, struct worker *workers,
                    struct figures *figures)
{
    const unsigned woken = scale->works ? scale->ms : scale->running;
    struct cp_error err = {.message = ""};
    pthread_t thread;

    figures->event = us_of_event(b);
    figures->clocks = us_of_clocks(workers, scale->ms);
    if (time_call(START, figures, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    cp_store_relaxed(&is_running, 1u); /* relaxed, both: numbers of their own */
    begin_turn(workers, woken);
    await_answers(woken - scale->running);
    if (scale->running > 0)
        usleep(RUN_US);
    time_call(READ, figures, NULL);
    if (pthread_create(&thread, NULL, attach_and_detach, figures) != 0)
        cp_t_fatal(b, "There is no further thread.");
    pthread_join(thread, NULL);
    if (time_call(STOP, figures, NULL) < 0)
        cp_t_fatal(b, "A thread was not let go of.");
    cp_store_relaxed(&is_running, 0u);
    await_answers(scale->running);
}

static void report(struct cp_t *b, struct figures *figures)
{
    for (enum call call = START; call < CALLS; call++) {
        char unit[40];

        snprintf(unit, sizeof unit, "us-%s", names[call]);
        bench_spread(b, &figures->cpu[call], unit);
        snprintf(unit, sizeof unit, "us-%s-wall", names[call]);
        bench_median(b, &figures->wall[call], unit);
        snprintf(unit, sizeof unit, "x-%s", names[call]);
        bench_median(b, &figures->ratio[call], unit);
    }
}

/* The first round is not counted: the library may measure something for the first start. */
static void measure(struct cp_t *b, void *arg)
{
    const struct scale *scale = arg;
    struct figures figures = {0}, first = {0};
    struct worker *workers;

    allow_descriptors(b, scale->ms);
    workers = make_workers(b, scale->ms, scale->running);
    iterate(b, scale, workers, &first);
    for (; cp_bench_next(b);)
        iterate(b, scale, workers, &figures);
    free_workers(workers, scale->ms);
    report(b, &figures);
}

static const struct scale scales[] = {{"1 asleep", 1, 0, false},
                                      {"100 asleep", 100, 0, false},
                                      {"1000 asleep", 1000, 0, false},
                                      {"10000 asleep", 10000, 0, false},
                                      {"1 worked", 1, 0, true},
                                      {"100 worked", 100, 0, true},
                                      {"1000 worked", 1000, 0, true},
                                      {"1 runs", 1, 1, true},
                                      {"100 worked, 2 run", 100, 2, true},
                                      {"1000 asleep, 2 run", 1000, 2, false},
                                      {"1000 asleep, 16 run", 1000, 16, false}};

static void measure_all(struct cp_t *b, const char *event)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err;

    /* Or malloc would give the memory of earlier Ms back to the system in the middle of a call. */
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    request = (struct cp_slot_request){.config.size = sizeof request.config};
    if (cp_event_parse(event, &spec, &err) < 0 ||
        cp_cpu_profile_config_init(&request.config, &spec, PERIOD_NS, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    request.event = spec.event;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
        cp_t_run(b, scales[i].name, measure, CP_TEST_UNCONST(&scales[i]));
}

CP_BENCHMARK(Timer)
{
    measure_all(b, "timer");
}

CP_BENCHMARK(TaskClock)
{
    measure_all(b, "taskClock");
}

BENCH_MAIN()
