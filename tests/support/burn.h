/*
 * What the tests of the sampling core share: busy work whose code is at known addresses, threads that are Ms,
 * and profiles of slots that a thread reads.
 */
#ifndef COUNTERPOINT_TESTS_BURN_H
#define COUNTERPOINT_TESTS_BURN_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "patience.h"
#include "runtime.h"
#include "test.h"
#include "tests/support/sim/sim.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MS ((uint64_t)1000000)
/* A test that includes this file need not use every function. */
#define BURN_API __attribute__((unused)) static

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Sleeps; signals do not shorten the sleep. */
BURN_API void sleep_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

/* Waits until a number that another thread raises is `wanted` or more. */
BURN_API void await(const int *number, int wanted)
{
    struct patience patience = {.looks = 0};

    /* pairs with the release of the thread that changes the number */
    while (cp_load_acquire(number) < wanted) {
        CHECKF(has_patience(&patience), "%d, and %d is waited for", cp_load_relaxed(number), wanted);
        usleep(NAP_US);
    }
}

/* Waits until a thread of this process sleeps. A thread that has announced a sleep may not have begun it. */
BURN_API void await_sleep(pid_t tid)
{
    char path[64], line[512];
    const char *after_name = NULL;
    struct patience patience = {.looks = 0};

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    while (after_name == NULL || after_name[2] != 'S') {
        FILE *file = fopen(path, "re");

        CHECKF(file != NULL && has_patience(&patience), "thread %d does not sleep", (int)tid);
        after_name = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
        fclose(file);
        usleep(NAP_US);
    }
}

/* Gives the calling thread its CPU for itself. Returns false if this user may not do so. POSIX CPU timers
 * read the time only at ticks, and a thread that shares its CPU may get no tick for long. */
BURN_API bool run_undisturbed(void)
{
    const struct sched_param lowest = {.sched_priority = 1};

    return sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
}

/* ---- Work ------------------------------------------------------------------------------------ */

/* A function that CODE() marks has a section of its own, so a test can tell whether a program counter is in
 * the function. */
#define CODE(name) __attribute__((noinline, used, section("code_" #name))) static
enum code { IN_A, IN_B, IN_C, CODES };

extern const char __start_code_a[], __stop_code_a[];
extern const char __start_code_b[], __stop_code_b[];
extern const char __start_code_c[], __stop_code_c[];

/* Returns whether pc is in a function that CODE() marks. */
BURN_API bool is_in(enum code code, uintptr_t pc)
{
    const char *const bounds[CODES][2] = {
        [IN_A] = {__start_code_a, __stop_code_a},
        [IN_B] = {__start_code_b, __stop_code_b},
        [IN_C] = {__start_code_c, __stop_code_c},
    };

    return pc >= (uintptr_t)bounds[code][0] && pc < (uintptr_t)bounds[code][1];
}

/* Takes far longer than reading the clock, which happens outside of the function. */
#define SPIN_HERE()                                                                                          \
    for (unsigned spin_ = 0; spin_ < 100000; spin_++)                                                        \
    __asm__ volatile("" ::: "memory")

/* How long a SPIN() takes on the simulated kernel. */
#define SPIN_NS 50000

#define SPIN()                                                                                               \
    do {                                                                                                     \
        if (sim_is_on())                                                                                     \
            SIM_RUN(SPIN_NS);                                                                                \
        else                                                                                                 \
            SPIN_HERE();                                                                                     \
    } while (0)

/* The calling function runs for so much CPU time. */
#define BURN(ns)                                                                                             \
    do {                                                                                                     \
        if (sim_is_on())                                                                                     \
            SIM_RUN(ns);                                                                                     \
        else                                                                                                 \
            for (uint64_t end_ = cpu_ns() + (ns); cpu_ns() < end_;)                                          \
                SPIN_HERE();                                                                                 \
    } while (0)

CODE(a) void burn_a(uint64_t ns)
{
    BURN(ns);
}

CODE(b) void burn_b(uint64_t ns)
{
    BURN(ns);
}

/* Spins until *stop, without a system call. Simulated time passes no faster than the machine's, because other
 * threads are waited for. */
CODE(c) void burn_c(const int *stop)
{
    while (cp_load_acquire(stop) == 0) { /* pairs with the release in stop_worker() */
        SPIN_HERE();
        if (sim_is_on())
            SIM_RUN(SPIN_NS);
    }
}

/* ---- Threads that are Ms --------------------------------------------------------------------- */

struct worker {
    void (*body)(struct worker *worker);
    void *arg;
    pthread_t thread;
    struct cp_m *m;
    pid_t tid;
    int running; /* 1: the thread is an M */
    int stop;
    uint64_t cpu;       /* the CPU time of the body */
    uint64_t preempted; /* how often another thread took the CPU from this one */
    bool undisturbed;   /* run_undisturbed() has succeeded */
};

BURN_API void attach(struct worker *worker)
{
    struct cp_error err = {0};
    int result = cp_m_attach(&worker->m, &err);

    CHECKF(result == 0, "%s", err.message);
    worker->tid = (pid_t)syscall(SYS_gettid);
    cp_store_release(&worker->running, 1); /* pairs with the acquire in await() */
}

BURN_API uint64_t preemptions(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nivcsw; /* on the simulated kernel, none */
}

BURN_API void *run_worker(void *arg)
{
    struct worker *worker = arg;
    uint64_t start;

    attach(worker);
    worker->preempted = preemptions();
    start = cpu_ns();
    worker->body(worker);
    worker->cpu = cpu_ns() - start;
    worker->preempted = preemptions() - worker->preempted;
    cp_m_detach(worker->m);
    return NULL;
}

/* Skips the test if other threads took the worker's CPU. For tests of what a timer counts on a thread. */
BURN_API void need_undisturbed(const struct worker *worker)
{
    if (!worker->undisturbed && worker->preempted > 5 + worker->cpu / (100 * MS))
        SKIP("others use this thread's CPU, and a real-time priority is not allowed");
}

/* Starts a thread that is an M while it runs body. Returns when the thread is an M. */
BURN_API void start_worker(struct worker *worker, void (*body)(struct worker *), void *arg)
{
    int result;

    *worker = (struct worker){.body = body, .arg = arg};
    result = pthread_create(&worker->thread, NULL, run_worker, worker);
    CHECKF(result == 0, "pthread_create: %s", strerror(result));
    await(&worker->running, 1);
}

BURN_API void join_worker(struct worker *worker)
{
    pthread_join(worker->thread, NULL);
}

BURN_API void stop_worker(struct worker *worker)
{
    cp_store_release(&worker->stop, 1); /* pairs with the acquire in burn_c() */
    join_soon(worker->thread);
}

/* Runs body on a thread that is an M, and waits until the thread has ended. */
BURN_API void run_attached(struct worker *worker, void (*body)(struct worker *), void *arg)
{
    start_worker(worker, body, arg);
    join_worker(worker);
}

/* Bodies of workers. arg points to the CPU time to burn, in ns; body_c() burns until stop. */
BURN_API void body_a(struct worker *worker)
{
    burn_a(*(const uint64_t *)worker->arg);
}

BURN_API void body_b(struct worker *worker)
{
    burn_b(*(const uint64_t *)worker->arg);
}

BURN_API void body_undisturbed(struct worker *worker)
{
    worker->undisturbed = run_undisturbed();
    burn_a(*(const uint64_t *)worker->arg);
}

BURN_API void body_c(struct worker *worker)
{
    burn_c(&worker->stop);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

/* What was read from one slot. All figures except samples are sums of weights. */
struct seen {
    uint64_t samples;
    uint64_t weight;
    uint64_t in[CODES];   /* samples with a frame in the function */
    uint64_t leaf[CODES]; /* samples that interrupted the function itself */
    uint64_t truncated;
    uint64_t foreign_sp;
    uint64_t late;
    uint64_t stalled;
};

struct profile {
    size_t n;
    int slots[CP_EV_MAX];
    bool is_clock[CP_EV_MAX];
    /* set for a clock that may be throttled; otherwise start_unread() and stop_profile() skip the test */
    bool may_be_throttled;
    /* Set on the simulated kernel if the reader is to look at Ms all the time. Otherwise it reads when
     * buffers fill: an M that comes to a scheduling point while a reader looks at it is armed later, and
     * simulated time does not wait for that. */
    bool looks;
    uint64_t wanted; /* for body_until_sampled() */
    struct seen seen[CP_EV_MAX];
    struct cp_slot_stats stats[CP_EV_MAX];
    cp_sample_fn *look; /* receives each sample too, with context; may be NULL */
    void *context;
    struct profile_part {
        struct profile *profile;
        size_t i;
    } parts[CP_EV_MAX];
    pthread_t reader;
    bool is_read;
    int reading, ending;
};

/* Makes a request with the usual config for an event, by its name. */
BURN_API struct cp_slot_request request(const char *name, uint64_t period)
{
    struct cp_slot_request request = {.config.size = sizeof request.config};
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err = {0};

    CHECKF(cp_event_parse(name, &spec, &err) == 0, "%s", err.message);
    request.event = spec.event;
    CHECKF(cp_cpu_profile_config_init(&request.config, &spec, period, &err) == 0, "%s", err.message);
    return request;
}

/* The same for samples that come by SIGPROF, whatever the default is. */
BURN_API struct cp_slot_request signal_request(const char *name, uint64_t period)
{
    struct cp_slot_request made = request(name, period);

    made.config.engine = CP_ENGINE_SIGNAL;
    return made;
}

/* Returns whether this user may count what the kernel does. */
BURN_API bool counts_the_kernel(void)
{
    return request("taskClock", 1000 * MS).config.is_kernel_included;
}

/* Makes a request for an event that needs kernel mode. Skips the test if this user may not count in kernel
 * mode. */
BURN_API struct cp_slot_request kernel_request(const char *name, uint64_t period)
{
    struct cp_slot_request made = request(name, period);

    if (!counts_the_kernel())
        SKIP("perf_event_paranoid lets this user count in user mode only");
    return made;
}

/* Skips the test if this machine has no traps, for one of the reasons that the library knows. */
BURN_API void need_traps(struct cp_slot_request made)
{
    struct cp_error err = {0};
    int slot;

    made.config.engine = CP_ENGINE_TRAP;
    if (cp_slots_start(&made, 1, &slot, &err) < 0) {
        CHECK_STR(err.reason, "no traps");
        SKIP("%s", err.message);
    }
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
}

BURN_API void see(void *context, const struct cp_sample *sample)
{
    const struct profile_part *part = context;
    struct seen *seen = &part->profile->seen[part->i];

    CHECK(sample->weight >= 1 && sample->depth <= CP_MAX_FRAMES);
    CHECK(sample->depth >= 1 || (sample->flags & CP_SAMPLE_LATE) != 0);
    seen->samples += (sample->flags & CP_SAMPLE_STALLED) == 0; /* what stood still has no signal of its own */
    seen->weight += sample->weight;
    for (enum code code = 0; code < CODES; code++) {
        bool found = false;

        for (unsigned i = 0; i < sample->depth && !found; i++)
            found = is_in(code, sample->frames[i]);
        seen->in[code] += found ? sample->weight : 0;
        seen->leaf[code] += sample->depth > 0 && is_in(code, sample->frames[0]) ? sample->weight : 0;
    }
    seen->stalled += (sample->flags & CP_SAMPLE_STALLED) != 0 ? sample->weight : 0;
    seen->truncated += (sample->flags & CP_SAMPLE_TRUNCATED) != 0 ? sample->weight : 0;
    seen->foreign_sp += (sample->flags & CP_SAMPLE_FOREIGN_SP) != 0 ? sample->weight : 0;
    if ((sample->flags & (CP_SAMPLE_LATE | CP_SAMPLE_STALLED)) == CP_SAMPLE_LATE)
        seen->late += sample->weight;
    if (part->profile->look != NULL)
        part->profile->look(part->profile->context, sample);
}

BURN_API void read_profile(struct profile *profile)
{
    for (size_t i = 0; i < profile->n; i++) {
        profile->parts[i] = (struct profile_part){profile, i};
        cp_slots_read(profile->slots[i], see, &profile->parts[i]);
    }
}

/* Reads the profile until it ends. The thread blocks signals, because signals to the process must reach the
 * threads under test. */
BURN_API void *keep_reading(void *arg)
{
    struct profile *profile = arg;
    const bool looks = profile->looks || !sim_is_on();
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    cp_store_release(&profile->reading, 1);          /* pairs with the acquire in await() */
    while (cp_load_acquire(&profile->ending) == 0) { /* pairs with the release in stop_profile() */
        uint32_t token = cp_slots_token();

        if (looks)
            read_profile(profile);
        cp_slots_wait(token, looks ? 20 : 1000000);
        if (!looks)
            read_profile(profile);
    }
    return NULL;
}

/* Starts n events that no thread reads yet. */
BURN_API void start_unread(struct profile *profile, const struct cp_slot_request *requests, size_t n)
{
    struct cp_error err = {0};
    int result;

    profile->n = n;
    for (size_t i = 0; i < n; i++) {
        profile->is_clock[i] =
            requests[i].event == CP_CPUPROF_SW_TASK_CLOCK || requests[i].event == CP_CPUPROF_SW_CPU_CLOCK;
        if (profile->is_clock[i] && !profile->may_be_throttled && requests[i].config.period != 0)
            test_need_rate(1000 * MS / requests[i].config.period);
    }
    result = cp_slots_start(requests, n, profile->slots, &err);
    CHECKF(result == 0, "%d: %s", result, err.message);
}

/* Starts n events, and a thread that reads them. Returns when the thread reads: under AddressSanitizer, a
 * thread that starts allocates, and a child that is forked meanwhile finds the allocator locked for ever. */
BURN_API void start_profile(struct profile *profile, const struct cp_slot_request *requests, size_t n)
{
    start_unread(profile, requests, n);
    profile->is_read = true;
    CHECK_EQ(pthread_create(&profile->reader, NULL, keep_reading, profile), 0);
    await(&profile->reading, 1);
}

/* Takes the figures; returns whether all samples that the figures count were read. An M that slept at the
 * stop may release its handles, and record its last samples, when it wakes. */
BURN_API bool is_read_up(struct profile *profile)
{
    bool is = true;

    for (size_t i = 0; i < profile->n; i++) {
        profile->stats[i].size = sizeof profile->stats[i];
        cp_slots_stats(profile->slots[i], &profile->stats[i]);
        is = is && profile->seen[i].weight >= profile->stats[i].samples;
    }
    return is;
}

BURN_API void need_unthrottled(const struct profile *profile, size_t i)
{
    if (profile->stats[i].throttled != 0)
        SKIP(TEST_THROTTLED);
}

/* Stops the slots, reads the remaining samples, takes the figures, and frees the slots. */
BURN_API void stop_profile(struct profile *profile)
{
    cp_slots_stop(profile->slots, profile->n);
    if (profile->is_read) {
        cp_store_release(&profile->ending, 1); /* pairs with the acquire in keep_reading() */
        cp_slots_wake();
        join_soon(profile->reader);
    }
    for (int tries = 0; tries < 10 && !is_read_up(profile); tries++)
        read_profile(profile);
    cp_slots_release(profile->slots, profile->n);
    for (size_t i = 0; i < profile->n; i++)
        if (profile->is_clock[i] && !profile->may_be_throttled)
            need_unthrottled(profile, i);
}

/* Returns how many periods a slot's event had, by the event's own count. */
BURN_API double periods_of(const struct profile *profile, size_t i, uint64_t period)
{
    return (double)profile->stats[i].count / (double)period;
}

/*
 * Checks that every period that the event counted is a sample, or was dropped, or was lost, except the
 * unfinished last period on each M; and that what was read is what was counted. On the machine's kernel
 * there is 1 % for clocks of a virtual machine that disagree, and if this user may count only user mode, a
 * clock also counts the time in the kernel, but takes no samples there.
 */
BURN_API void check_told(const struct profile *profile, size_t i, uint64_t period)
{
    const struct cp_slot_stats *stats = &profile->stats[i];
    double told = (double)(stats->samples + stats->dropped + stats->lost);
    double periods = periods_of(profile, i, period);
    double least = sim_is_on()           ? periods - stats->ms
                   : counts_the_kernel() ? 0.99 * periods - 1 - stats->ms
                                         : 1;
    double most = sim_is_on() ? periods : 1.005 * periods + 1 + stats->ms;

    printf("slot %zu: %.1f periods, %llu samples by %llu signals, %llu lost, %llu dropped, %llu overruns, "
           "%llu late\n",
           i, periods, (unsigned long long)stats->samples, (unsigned long long)stats->signals,
           (unsigned long long)stats->lost, (unsigned long long)stats->dropped,
           (unsigned long long)stats->overruns, (unsigned long long)stats->late);
    CHECKF(told >= least && told <= most, "%.0f of %.1f", told, periods);
    CHECK_EQ(profile->seen[i].weight, stats->samples);
    CHECK_EQ(profile->seen[i].late, stats->late);
    CHECK_EQ(profile->seen[i].stalled, stats->stalled);
}

/* Returns the number of samples that a slot has by now, with the dropped ones. */
BURN_API uint64_t sampled(int slot)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    cp_slots_stats(slot, &stats);
    return stats.samples + stats.dropped;
}

/* Ends a test that waits for samples in vain. */
BURN_API void fail_for_samples(int slot, uint64_t ns)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    cp_slots_stats(slot, &stats);
    if (stats.throttled != 0)
        SKIP(TEST_THROTTLED);
    TEST_FAIL("only %llu samples in %.1f ms of CPU time", (unsigned long long)stats.samples,
              (double)ns / 1e6);
}

/* Burns until a slot has n more samples. Fails if that takes more than ten seconds of CPU time, or if this
 * thread gets no CPU for so long that the wait must end. */
BURN_API void burn_until_sampled(int slot, uint64_t n)
{
    struct patience patience = {.looks = 0};
    uint64_t start = cpu_ns();

    for (n += sampled(slot); sampled(slot) < n;) {
        burn_a(5 * MS); /* on slow machines a look takes a tenth of a millisecond, which is not in burn_a() */
        if (cpu_ns() - start >= 10000 * MS || !has_time(&patience))
            fail_for_samples(slot, cpu_ns() - start);
    }
}

/* A body: arg points to a profile. Burns until the profile's first slot has profile->wanted samples. */
BURN_API void body_until_sampled(struct worker *worker)
{
    const struct profile *profile = worker->arg;

    burn_until_sampled(profile->slots[0], profile->wanted);
}

#endif
