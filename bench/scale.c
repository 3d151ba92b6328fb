/*
 * What the calls cost that a profile makes once, beside the number of Ms: a start of a slot, a pass of its
 * reader, the stop with the release, and an attach and a detach of one more M while the slot runs. Most of
 * the Ms sleep all the time. Those that have "worked" did so for a while after the start, so that their
 * events have counted; those that "run" take a CPU between start and stop. An iteration makes each call
 * once. The period is 10 ms.
 *
 *     us-CALL, -q1, -q3   CPU time of the calling thread
 *     us-CALL-wall        time until the call has returned; a stop waits for the Ms that run
 *     x-CALL              CPU time, as a multiple of a floor that the same iteration has measured beside the
 *                         same threads: for a start, an event for each M is opened and enabled, and for a
 *                         stop such events are closed, by nothing but the system calls; for a read, the CPU
 *                         clock of each M is read; for attach and detach, an event of the calling thread is
 *                         opened, enabled and closed. With a timer, timers take the place of the events.
 */
#include "bench.h"

#include <limits.h>
#include <linux/perf_event.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime.h"
#include "runtime/base/os.h"

enum { PERIOD_NS = 10000000, STACK = 64 << 10, RUN_US = 20000 };
enum { AT_ONCE = 1000 }; /* so many events are open at a time for the floor; so many Ms run at most */

/* ---- The Ms ---------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    clockid_t clock;
    pid_t tid;
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

    self->tid = gettid();
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

/* An M has a descriptor for its event, and one for its ring if it has run. */
static void allow_descriptors(struct cp_t *b, unsigned n)
{
    struct rlimit files;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur / 8 * 7 < (rlim_t)n + 2 * AT_ONCE)
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

static bool is_timed; /* a handle is a timer, and not the descriptor of an event */

static int open_timer(pid_t tid)
{
    const struct itimerspec period = {{.tv_nsec = PERIOD_NS}, {.tv_nsec = PERIOD_NS}};
    struct sigevent tick = {.sigev_notify = SIGEV_THREAD_ID,
                            .sigev_signo = SIGURG}; /* which nobody handles */
    int timer;

    tick._sigev_un._tid = tid;
    if (syscall(SYS_timer_create, cp__os_thread_clock(tid), &tick, &timer) < 0 ||
        syscall(SYS_timer_settime, timer, 0, &period, NULL) < 0)
        return -1;
    return timer;
}

static int open_event(pid_t tid)
{
    const struct perf_event_attr attr = {.size = sizeof attr,
                                         .type = PERF_TYPE_SOFTWARE,
                                         .config = PERF_COUNT_SW_TASK_CLOCK,
                                         .sample_period = PERIOD_NS,
                                         .disabled = 1,
                                         .exclude_kernel = 1,
                                         .exclude_hv = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

    return fd < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0 ? -1 : fd;
}

static int open_handle(struct cp_t *b, pid_t tid)
{
    int handle = is_timed ? open_timer(tid) : open_event(tid);

    if (handle < 0)
        cp_t_fatal(b, "The kernel refuses the event.");
    return handle;
}

static void close_handle(int handle)
{
    if (is_timed)
        syscall(SYS_timer_delete, handle);
    else
        close(handle);
}

/* Returns what it takes to open a handle for each M; *closing receives what it takes to close them. */
static double us_of_handles(struct cp_t *b, const struct worker *workers, unsigned n, double *closing)
{
    static int handles[AT_ONCE];
    double opening = 0;

    *closing = 0;
    for (unsigned done = 0; done < n; done += AT_ONCE) {
        const unsigned end = n - done < AT_ONCE ? n - done : AT_ONCE;
        double began = cpu_us(), opened;

        for (unsigned i = 0; i < end; i++)
            handles[i] = open_handle(b, workers[done + i].tid);
        opened = cpu_us();
        for (unsigned i = 0; i < end; i++)
            close_handle(handles[i]);
        opening += opened - began;
        *closing += cpu_us() - opened;
    }
    return opening;
}

static double us_of_own_handle(struct cp_t *b)
{
    double began = cpu_us();

    close_handle(open_handle(b, gettid()));
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
    double floor[CALLS]; /* of this iteration */
};

/* Makes the call, and notes what it took the calling thread. Returns what the call has returned. */
static int time_call(enum call call, struct figures *figures, struct cp_error *err)
{
    double cpu = cpu_us(), wall = bench_now_ns();
    int result = make_call(call, err);

    cpu = cpu_us() - cpu;
    wall = (bench_now_ns() - wall) / 1e3;
    bench_add(&figures->cpu[call], cpu);
    bench_add(&figures->wall[call], wall);
    bench_add(&figures->ratio[call], cpu / figures->floor[call]);
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

    figures->floor[ATTACH] = figures->floor[DETACH] = us_of_own_handle(b);
    figures->floor[READ] = us_of_clocks(workers, scale->ms);
    figures->floor[START] = us_of_handles(b, workers, scale->ms, &figures->floor[STOP]);
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
    us_of_handles(b, workers, scale->ms, &figures->floor[STOP]); /* beside those that run */
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
    is_timed = true;
    measure_all(b, "timer");
}

CP_BENCHMARK(TaskClock)
{
    is_timed = false;
    measure_all(b, "taskClock");
}

BENCH_MAIN()
