/*
 * What the scheduler's operations cost, compared with the least that a switch of stacks costs on the same
 * machine: a bare context switch, which is measured before and after each operation, and the C library's
 * swapcontext(). A figure in x-bare is a number of bare switches.
 *
 * And what a profile costs two threads of one CPU that wake each other: see Wakeup.
 */
#include "bench.h"
#include "context.h"
#include "counter.h"
#include "pprof.h"
#include "sched.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

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

/* ---- Threads that wake each other ------------------------------------------------------------ */

enum { TRIPS = 2000 };

static int out[2], back[2];

static void stay_on_this_cpu(void)
{
    cpu_set_t this_cpu;

    CPU_ZERO(&this_cpu);
    CPU_SET(sched_getcpu(), &this_cpu);
    sched_setaffinity(0, sizeof this_cpu, &this_cpu);
}

static void *wakes(void *arg)
{
    struct cp_m *m = NULL;
    char byte;

    (void)arg;
    if (cp_m_attach(&m, NULL) < 0)
        abort();
    while (read(out[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
        ;
    cp_m_detach(m);
    return NULL;
}

static pthread_t begin_trips(struct cp_t *b)
{
    pthread_t other;

    if (pipe(out) < 0 || pipe(back) < 0 || pthread_create(&other, NULL, wakes, NULL) != 0)
        cp_t_fatal(b, "two pipes and a thread: %s", strerror(errno));
    return other;
}

static void end_trips(pthread_t other)
{
    close(out[1]);
    pthread_join(other, NULL);
    close(out[0]);
    close(back[0]);
    close(back[1]);
}

/* Returns the time of a round trip over two pipes, in ns. */
static double trips(struct cp_t *b)
{
    double start;
    char byte = 0;

    for (int i = 0; i < TRIPS / 20; i++) /* until the other thread is there */
        if (write(out[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            cp_t_fatal(b, "a round trip: %s", strerror(errno));
    start = bench_now_ns();
    for (int i = 0; i < TRIPS; i++)
        if (write(out[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            cp_t_fatal(b, "a round trip: %s", strerror(errno));
    return (bench_now_ns() - start) / TRIPS;
}

/* How the threads are profiled. */
struct way {
    const char *name;
    double (*round)(struct cp_t *b, const struct way *way);
    const char *event;
    uint64_t period;
    enum cp_event_kind kind;
};

static double bare_round(struct cp_t *b, const struct way *way)
{
    pthread_t other = begin_trips(b);
    double ns = trips(b);

    (void)way;
    end_trips(other);
    return ns;
}

static double profiled_round(struct cp_t *b, const struct way *way)
{
    struct cp_memory memory = {0};
    struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), way->event, way->period);
    struct cp_session *session;
    pthread_t other = begin_trips(b);
    struct cp_error err;
    double ns;

    if (cp_session_start(&session, &option, 1, &err) < 0)
        cp_t_skip(b, "%s", err.message);
    ns = trips(b);
    end_trips(other);
    cp_session_halt(session, NULL);
    cp_session_close(session);
    free(memory.data);
    return ns;
}

/* Threads inherit the counter. */
static double counted_round(struct cp_t *b, const struct way *way)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_counter *counter;
    struct cp_error err;
    double ns;

    if (cp_event_parse(way->event, &spec, &err) < 0 || cp_counter_open(&counter, &spec, &err) < 0)
        cp_t_skip(b, "%s", err.message);
    cp_counters_start(&counter, 1);
    ns = bare_round(b, way);
    cp_counter_close(counter);
    return ns;
}

/* Rounds without and with the event take turns. */
static void wakeups(struct cp_t *b, void *arg)
{
    const struct way *way = arg;
    struct bench_rounds trip = {0}, ratio = {0};
    double bare, with;

    for (; cp_bench_next(b);) {
        bare = bare_round(b, way);
        with = way->round(b, way);
        bench_add(&trip, with);
        bench_add(&ratio, with / bare);
    }
    bench_median(b, &trip, "ns/trip");
    bench_spread(b, &ratio, "x-bare");
    if (way->round == profiled_round)
        cp_bench_metric(b, (double)cp_switch_cost_ns(way->kind, way->period), "ns/switch-measured");
}

/* A perf that has armed the threads of this process, and enables and disables its events when it is told. */
struct perf {
    char directory[32], orders[64], answers[64]; /* two pipes with names in a directory */
    int order, answer;
    pid_t pid;
};

static void make_pipes(struct cp_t *b, struct perf *perf)
{
    strcpy(perf->directory, "/tmp/switch.XXXXXX");
    if (mkdtemp(perf->directory) == NULL)
        cp_t_fatal(b, "mkdtemp: %s", strerror(errno));
    snprintf(perf->orders, sizeof perf->orders, "%s/orders", perf->directory);
    snprintf(perf->answers, sizeof perf->answers, "%s/answers", perf->directory);
    if (mkfifo(perf->orders, 0600) < 0 || mkfifo(perf->answers, 0600) < 0)
        cp_t_fatal(b, "mkfifo: %s", strerror(errno));
    perf->order = open(perf->orders, O_RDWR | O_CLOEXEC);
    perf->answer = open(perf->answers, O_RDWR | O_CLOEXEC);
}

static void end_perf(struct perf *perf)
{
    kill(perf->pid, SIGINT);
    waitpid(perf->pid, NULL, 0);
    close(perf->order);
    close(perf->answer);
    unlink(perf->orders);
    unlink(perf->answers);
    rmdir(perf->directory);
}

/* Tells perf something, and waits until perf has done it. */
static bool tell(struct perf *perf, const char *order)
{
    struct pollfd answered = {.fd = perf->answer, .events = POLLIN};
    char text[16];

    return write(perf->order, order, strlen(order)) > 0 && poll(&answered, 1, 5000) == 1 &&
           read(perf->answer, text, sizeof text) > 0;
}

/* arguments are those of perf that say what to do with which event. */
static void start_perf(struct cp_t *b, struct perf *perf, const char *arguments)
{
    char command[300];

    make_pipes(b, perf);
    snprintf(command, sizeof command,
             "exec perf %s -D -1 --control fifo:%s,%s -o /dev/null -p %d > /dev/null 2>&1", arguments,
             perf->orders, perf->answers, getpid());
    perf->pid = fork();
    if (perf->pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (tell(perf, "disable\n"))
        return;
    end_perf(perf);
    cp_t_skip(b, "there is no perf here that takes orders");
}

static void wakeups_under_perf(struct cp_t *b, void *arg)
{
    pthread_t other = begin_trips(b);
    struct bench_rounds trip = {0}, ratio = {0};
    struct perf perf;
    double bare, with;

    start_perf(b, &perf, arg);
    for (; cp_bench_next(b);) {
        tell(&perf, "disable\n");
        bare = trips(b);
        tell(&perf, "enable\n");
        with = trips(b);
        bench_add(&trip, with);
        bench_add(&ratio, with / bare);
    }
    end_perf(&perf);
    end_trips(other);
    bench_median(b, &trip, "ns/trip");
    bench_spread(b, &ratio, "x-bare");
}

/*
 * Each round trip over two pipes switches twice, and at each switch the kernel takes the event off the CPU
 * and puts it back. Rounds without and with the event take turns; an iteration is one of each.
 *
 *     ns/trip             a round trip with the event; median of the rounds
 *     x-bare              the same, as a multiple of the round without the event just before; quartiles
 *     ns/switch-measured  what the library has measured that a switch costs
 */
CP_BENCHMARK(Wakeup)
{
    static struct way ways[] = {
        {"bare", bare_round, NULL, 0, CP_EVENT_TIMER},
        {"taskClock 1 ms", profiled_round, "taskClock", 1000000, CP_EVENT_CLOCK},
        {"taskClock 10 ms", profiled_round, "taskClock", 10000000, CP_EVENT_CLOCK},
        {"pageFaults", profiled_round, "pageFaults", 100, CP_EVENT_SOFTWARE},
        {"counting only", counted_round, "pageFaults", 0, CP_EVENT_SOFTWARE},
        {"timer", profiled_round, "timer", 10000000, CP_EVENT_TIMER},
    };
    static char fine[] = "record -q -e task-clock -c 1000000",
                coarse[] = "record -q -e task-clock -c 10000000", counting[] = "stat -e page-faults";
    struct cp_error err;
    struct cp_m *m;

    if (cp_m_attach(&m, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    stay_on_this_cpu();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        cp_t_run(b, ways[i].name, wakeups, &ways[i]);
    cp_t_run(b, "perf record 1 ms", wakeups_under_perf, fine);
    cp_t_run(b, "perf record 10 ms", wakeups_under_perf, coarse);
    cp_t_run(b, "perf stat", wakeups_under_perf, counting);
    cp_m_detach(m);
}

BENCH_MAIN()
