/*
 * Busy work whose code stands at known addresses, threads that are Ms, and profiles of slots that a thread
 * reads: what the tests of the sampling core have in common.
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
#include "runtime.h"
#include "test.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MS ((uint64_t)1000000)
/* A test uses some of what stands here. */
#define BURN_API __attribute__((unused)) static

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Signals do not shorten it. */
BURN_API void sleep_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

/* Naps between two looks, ten seconds in all at least: on a busy machine each takes longer, and so does
 * what is waited for. */
#define NAP_US 200
#define ENOUGH_NAPS (50000 * TEST_SLOWDOWN)

/* Waits until a number that another thread raises has got there. */
BURN_API void await(const int *number, int wanted)
{
    int naps = 0;

    while (cp_load_acquire(number) < wanted) { /* pairs with the release in whoever changes it */
        CHECKF(naps++ < ENOUGH_NAPS, "%d, and %d is waited for", cp_load_relaxed(number), wanted);
        usleep(NAP_US);
    }
}

/* Waits until a thread of this process sleeps: one that has said what it is about to do may not have got
 * there. */
BURN_API void await_sleep(pid_t tid)
{
    char path[64], line[512];
    const char *after_name = NULL;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    for (int naps = 0; after_name == NULL || after_name[2] != 'S'; naps++) {
        FILE *file = fopen(path, "re");

        CHECKF(file != NULL && naps < ENOUGH_NAPS, "thread %d does not sleep", (int)tid);
        after_name = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
        fclose(file);
        usleep(NAP_US);
    }
}

/*
 * Lets the calling thread have its CPU for itself; false where that is not allowed. POSIX CPU timers look at
 * the time at ticks only, and a thread that shares its CPU with others may go without any for long.
 */
BURN_API bool run_undisturbed(void)
{
    const struct sched_param lowest = {.sched_priority = 1};

    return sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
}

/* ---- Work ------------------------------------------------------------------------------------ */

/* A function that CODE() marks has a section of its own, so that a program counter can be told to be in it.
 */
#define CODE(name) __attribute__((noinline, used, section("code_" #name))) static
enum code { IN_A, IN_B, IN_C, CODES };

extern const char __start_code_a[], __stop_code_a[];
extern const char __start_code_b[], __stop_code_b[];
extern const char __start_code_c[], __stop_code_c[];

BURN_API bool is_in(enum code code, uintptr_t pc)
{
    const char *const bounds[CODES][2] = {
        [IN_A] = {__start_code_a, __stop_code_a},
        [IN_B] = {__start_code_b, __stop_code_b},
        [IN_C] = {__start_code_c, __stop_code_c},
    };

    return pc >= (uintptr_t)bounds[code][0] && pc < (uintptr_t)bounds[code][1];
}

/* Far longer than reading the clock takes, which is not in the function any more. */
#define SPIN()                                                                                               \
    for (unsigned spin_ = 0; spin_ < 100000; spin_++)                                                        \
    __asm__ volatile("" ::: "memory")

CODE(a) void burn_a(uint64_t ns)
{
    for (uint64_t end = cpu_ns() + ns; cpu_ns() < end;)
        SPIN();
}

CODE(b) void burn_b(uint64_t ns)
{
    for (uint64_t end = cpu_ns() + ns; cpu_ns() < end;)
        SPIN();
}

/* Until *stop, without a system call. */
CODE(c) void burn_c(const int *stop)
{
    while (cp_load_acquire(stop) == 0) /* pairs with the release in stop_worker() */
        SPIN();
}

/* ---- Threads that are Ms --------------------------------------------------------------------- */

struct worker {
    void (*body)(struct worker *worker);
    void *arg;
    pthread_t thread;
    struct cp_m *m;
    pid_t tid;
    int running; /* 1: it is an M */
    int stop;
    uint64_t cpu;       /* CPU time of the body */
    uint64_t preempted; /* how often something else took the CPU from it */
    bool undisturbed;   /* it called run_undisturbed() with success */
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
    return (uint64_t)usage.ru_nivcsw;
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

/* For what a timer counted on a thread. */
BURN_API void need_undisturbed(const struct worker *worker)
{
    if (!worker->undisturbed && worker->preempted > 5 + worker->cpu / (100 * MS))
        SKIP("others use this thread's CPU, and a real-time priority is not allowed");
}

/* Starts a thread that is an M while it runs body; returns when it is one. */
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
    join_worker(worker);
}

/* Runs body on a thread that is an M. */
BURN_API void run_attached(struct worker *worker, void (*body)(struct worker *), void *arg)
{
    start_worker(worker, body, arg);
    join_worker(worker);
}

/* Bodies: arg points to how many ns of CPU time to burn; or until stop. */
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

/* What was read from one slot; all but samples are weights. */
struct seen {
    uint64_t samples;
    uint64_t weight;
    uint64_t in[CODES];   /* with a frame there */
    uint64_t leaf[CODES]; /* interrupted there */
    uint64_t truncated;
    uint64_t foreign_sp;
    uint64_t late;
    uint64_t stalled;
};

struct profile {
    size_t n;
    int slots[CP_EV_MAX];
    bool is_clock[CP_EV_MAX];
    bool may_be_throttled; /* a clock; else stop_profile() skips the test */
    uint64_t wanted;       /* for body_until_sampled() */
    struct seen seen[CP_EV_MAX];
    struct cp_slot_stats stats[CP_EV_MAX];
    cp_sample_fn *look; /* gets each sample too, with context; may be NULL */
    void *context;
    struct profile_part {
        struct profile *profile;
        size_t i;
    } parts[CP_EV_MAX];
    pthread_t reader;
    bool is_read;
    int ending;
};

/* The config that everybody gets for an event, by name. */
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

/* Whether this user may count what the kernel does. */
BURN_API bool counts_the_kernel(void)
{
    return request("taskClock", 1000 * MS).config.is_kernel_included;
}

/* A request for an event that only counts in kernel mode, or where kernel mode matters; skips where it may
 * not. */
BURN_API struct cp_slot_request kernel_request(const char *name, uint64_t period)
{
    struct cp_slot_request made = request(name, period);

    if (!counts_the_kernel())
        SKIP("perf_event_paranoid lets this user count in user mode only");
    return made;
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

/* Signals to the process are to reach the threads that the test is about. */
BURN_API void *keep_reading(void *arg)
{
    struct profile *profile = arg;
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (cp_load_acquire(&profile->ending) == 0) { /* pairs with the release in stop_profile() */
        uint32_t token = cp_slots_token();

        read_profile(profile);
        cp_slots_wait(token, 20);
    }
    return NULL;
}

/* Starts n events; nobody reads them yet. */
BURN_API void start_unread(struct profile *profile, const struct cp_slot_request *requests, size_t n)
{
    struct cp_error err = {0};
    int result;

    profile->n = n;
    for (size_t i = 0; i < n; i++)
        profile->is_clock[i] =
            requests[i].event == CP_CPUPROF_SW_TASK_CLOCK || requests[i].event == CP_CPUPROF_SW_CPU_CLOCK;
    result = cp_slots_start(requests, n, profile->slots, &err);
    CHECKF(result == 0, "%d: %s", result, err.message);
}

/* Starts n events and a thread that reads them. */
BURN_API void start_profile(struct profile *profile, const struct cp_slot_request *requests, size_t n)
{
    start_unread(profile, requests, n);
    profile->is_read = true;
    CHECK_EQ(pthread_create(&profile->reader, NULL, keep_reading, profile), 0);
}

/* Takes the figures; whether all samples that they count have been read. An M that slept at the stop may let
 * go, and record its last ones, when it wakes. */
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

/* A clock that was throttled has fewer samples. The kernel lowers its limit by itself, for all events, where
 * a PMU's interrupts take long. */
BURN_API void need_unthrottled(const struct profile *profile, size_t i)
{
    if (profile->stats[i].throttled != 0)
        SKIP("kernel.perf_event_max_sample_rate is so low that the kernel throttled an event");
}

/* Stops, reads what is left, takes the figures, and frees the slots. */
BURN_API void stop_profile(struct profile *profile)
{
    cp_slots_stop(profile->slots, profile->n);
    if (profile->is_read) {
        cp_store_release(&profile->ending, 1); /* pairs with the acquire in keep_reading() */
        cp_slots_wake();
        pthread_join(profile->reader, NULL);
    }
    for (int tries = 0; tries < 10 && !is_read_up(profile); tries++)
        read_profile(profile);
    cp_slots_release(profile->slots, profile->n);
    for (size_t i = 0; i < profile->n; i++)
        if (profile->is_clock[i] && !profile->may_be_throttled)
            need_unthrottled(profile, i);
}

/* How many periods a slot's event had, by its own count. */
BURN_API double periods_of(const struct profile *profile, size_t i, uint64_t period)
{
    return (double)profile->stats[i].count / (double)period;
}

/*
 * What holds on any machine, whatever else runs on it: every period that the event counted is a sample, or
 * was dropped, or was lost, but for what had passed of the last one on each M, and 1 % for what a virtual
 * machine's clocks disagree on; and what was read is what was counted. If this user may count user mode only,
 * a clock counts the time in the kernel, too, and takes no samples there.
 */
BURN_API void check_told(const struct profile *profile, size_t i, uint64_t period)
{
    const struct cp_slot_stats *stats = &profile->stats[i];
    double told = (double)(stats->samples + stats->dropped + stats->lost);
    double periods = periods_of(profile, i, period);
    double least = counts_the_kernel() ? 0.99 * periods - 1 - stats->ms : 1;

    printf("slot %zu: %.1f periods, %llu samples by %llu signals, %llu lost, %llu dropped, %llu overruns, "
           "%llu late\n",
           i, periods, (unsigned long long)stats->samples, (unsigned long long)stats->signals,
           (unsigned long long)stats->lost, (unsigned long long)stats->dropped,
           (unsigned long long)stats->overruns, (unsigned long long)stats->late);
    CHECKF(told >= least && told <= 1.005 * periods + 1 + stats->ms, "%.0f of %.1f", told, periods);
    CHECK_EQ(profile->seen[i].weight, stats->samples);
    CHECK_EQ(profile->seen[i].late, stats->late);
    CHECK_EQ(profile->seen[i].stalled, stats->stalled);
}

/* The samples, dropped ones included, that a slot has by now. */
BURN_API uint64_t sampled(int slot)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    cp_slots_stats(slot, &stats);
    return stats.samples + stats.dropped;
}

/* Burns until a slot has so many samples more; a machine on which that takes ten seconds of CPU time has
 * none. */
BURN_API void burn_until_sampled(int slot, uint64_t n)
{
    uint64_t start = cpu_ns();

    for (n += sampled(slot); sampled(slot) < n;) {
        burn_a(MS);
        CHECKF(cpu_ns() - start < 10000 * MS, "only %llu samples", (unsigned long long)sampled(slot));
    }
}

/* A body: arg points to a profile, whose first slot is to have profile->wanted samples. */
BURN_API void body_until_sampled(struct worker *worker)
{
    const struct profile *profile = worker->arg;

    burn_until_sampled(profile->slots[0], profile->wanted);
}

#endif
