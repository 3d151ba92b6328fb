/* What the machine's kernel has to do with samples: its clocks, ticks, faults and switches. What
 * the library makes of them is told exactly by tests/system/sampling_test.c. */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* ThreadSanitizer holds signals back until the program makes a call that it intercepts. */
static void need_prompt_signals(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: what they count means nothing");
}

/* Checks what holds for every slot, whatever else the machine does. Each record has a signal of its own,
 * unless the thread's CPU stood still: then one signal may bring several. The first period, which is drawn,
 * may be over before the attach has ended, and its record waits for the next signal then. */
static void check_books(const struct profile *profile, size_t i)
{
    const struct cp_slot_stats *stats = &profile->stats[i];

    CHECK_EQ(profile->seen[i].weight, stats->samples);
    CHECK(profile->seen[i].samples >= stats->signals);
    CHECK(profile->seen[i].samples <= stats->signals + 1 || stats->overruns > 0);
    CHECK_EQ(profile->seen[i].stalled, stats->stalled);
    CHECK_EQ(stats->foreign, 0);
    CHECK_EQ(stats->ms_refused, 0);
    CHECK_EQ(stats->ms_ringless, 0);
}

/* Checks that nearly all samples have the function in their stacks. What passed while the thread's CPU stood
 * still, as a virtual machine's does if its host runs something else, is no function's. */
static void check_most_in(const struct profile *profile, size_t i, enum code code)
{
    uint64_t ran = profile->seen[i].weight - profile->seen[i].stalled;

    CHECKF((double)profile->seen[i].in[code] > 0.9 * (double)ran, "%llu of %llu",
           (unsigned long long)profile->seen[i].in[code], (unsigned long long)ran);
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

static void check_clock(const char *event, uint64_t period, enum cp_engine engine)
{
    struct cp_slot_request requests[] = {request(event, period)};
    struct profile profile = {.wanted = 500};
    struct worker worker;
    uint64_t start = wall_ns();

    requests[0].config.engine = engine;
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_until_sampled, &profile);
    stop_profile(&profile);
    check_books(&profile, 0);
    check_told(&profile, 0, period);
    /* the count is this thread's CPU time, less the kernel's own at each switch */
    CHECKF(profile.stats[0].count >= worker.cpu - worker.cpu / 50 &&
               profile.stats[0].count <= wall_ns() - start,
           "%llu and %llu ns", (unsigned long long)profile.stats[0].count, (unsigned long long)worker.cpu);
    CHECK_EQ(profile.stats[0].ms, 1);
    CHECK_EQ(profile.stats[0].engine, engine);
    /* samples have signals of their own, and are not computed from the count */
    CHECK(profile.stats[0].overruns < profile.stats[0].samples - profile.stats[0].samples / 10);
    check_most_in(&profile, 0, IN_A);
    CHECK_EQ(profile.seen[0].in[IN_B] + profile.seen[0].in[IN_C], 0);
}

CP_TEST(signals_bring_the_samples_of_a_clock)
{
    need_prompt_signals();
    check_clock("taskClock", test_period(400000, 1), CP_ENGINE_SIGNAL);
    check_clock("cpuClock", test_period(400000, 1), CP_ENGINE_SIGNAL);
}

CP_TEST(traps_bring_the_samples_of_a_clock)
{
    need_prompt_signals();
    need_traps(request("taskClock", 1000 * MS));
    check_clock("taskClock", test_period(400000, 1), CP_ENGINE_TRAP);
}

/* The shortest period that a test may ask for. The kernel throttles it if its limit is well below that
 * rate. */
#define THROTTLED_NS test_period(100000, 1)
#define THROTTLES ((long)(600000000 / THROTTLED_NS))

/* Checks that the samples and the throttled time together are the time that passed. */
static void check_throttled(const char *event)
{
    struct cp_slot_request requests[] = {request(event, THROTTLED_NS)};
    struct profile profile = {.may_be_throttled = true};
    const struct cp_slot_stats *stats = &profile.stats[0];
    struct worker worker;
    uint64_t ns = 400 * MS;
    double told, passed;

    start_profile(&profile, requests, 1);
    run_attached(&worker, body_a, &ns);
    stop_profile(&profile);
    CHECK(stats->throttled > 0);
    told = (double)(stats->samples - stats->stalled) * THROTTLED_NS + (double)stats->throttled_ns;
    passed = (double)stats->time_running;
    printf("%s: %.3f s, throttled %llu times for %.3f of them, %llu samples\n", event, passed / 1e9,
           (unsigned long long)stats->throttled, (double)stats->throttled_ns / 1e9,
           (unsigned long long)stats->samples);
    CHECK_EQ(stats->count, stats->time_running);
    CHECKF(told > 0.8 * passed && told < 1.25 * passed, "%.3f of it", told / passed);
}

CP_TEST(what_the_kernel_throttles_is_told)
{
    need_prompt_signals();
    if (number_in("/proc/sys/kernel/perf_event_max_sample_rate", "") > THROTTLES)
        SKIP("the kernel lets so many samples pass that it throttles none of %llu a second",
             1000000000ull / THROTTLED_NS);
    check_throttled("taskClock");
    check_throttled("cpuClock");
}

/* ---- Events that the program causes ---------------------------------------------------------- */

#define PAGES 64

/* Causes a page fault on every page of a new mapping. */
CODE(a) void fault_a(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    madvise(memory, PAGES * page, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < PAGES; i++)
        ((volatile char *)memory)[i * page] = 1;
    munmap(memory, PAGES * page);
}

/* Sleeps for a moment, which causes a context switch. */
CODE(b) void switch_b(void)
{
    usleep(50);
}

/* Causes page faults and context switches until there are enough samples. */
static void body_mixture(struct worker *worker)
{
    const struct profile *profile = worker->arg;

    while (sampled(profile->slots[0]) < profile->wanted) {
        fault_a();
        switch_b();
    }
}

CP_TEST(page_faults_belong_to_the_function_that_faults)
{
    struct cp_slot_request requests[] = {kernel_request("pageFaults", 1)};
    struct profile profile = {.wanted = 20 * PAGES};
    struct worker worker;

    need_prompt_signals();
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_mixture, &profile);
    stop_profile(&profile);
    check_told(&profile, 0, 1);
    CHECKF((double)profile.seen[0].leaf[IN_A] >= 0.8 * (double)profile.seen[0].weight, "%llu of %llu",
           (unsigned long long)profile.seen[0].leaf[IN_A], (unsigned long long)profile.seen[0].weight);
    CHECK((double)profile.seen[0].in[IN_B] <= 0.05 * (double)profile.seen[0].weight);
}

/* Returns the switches of the calling thread by getrusage(), another count of the kernel's. */
static uint64_t switches(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw);
}

static void body_switches(struct worker *worker)
{
    uint64_t before = switches();

    for (int i = 0; i < 200; i++)
        switch_b();
    *(uint64_t *)worker->arg = switches() - before;
}

CP_TEST(context_switches_are_sampled)
{
    struct cp_slot_request requests[] = {kernel_request("contextSwitches", 1)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t counted;

    need_prompt_signals();
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_switches, &counted);
    stop_profile(&profile);
    check_told(&profile, 0, 1);
    CHECKF(profile.stats[0].count >= counted, "%llu of %llu", (unsigned long long)profile.stats[0].count,
           (unsigned long long)counted);
}

static void body_migrations(struct worker *worker)
{
    const int *cpus = worker->arg;
    cpu_set_t set;

    for (int i = 0; i < 200; i++) {
        CPU_ZERO(&set);
        CPU_SET(cpus[i % 2], &set);
        CHECK_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    }
}

CP_TEST(cpu_migrations_are_sampled)
{
    struct cp_slot_request requests[] = {kernel_request("cpuMigrations", 1)};
    struct profile profile = {.n = 0};
    struct worker worker;
    cpu_set_t allowed;
    int cpus[2], n = 0;

    need_prompt_signals();
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++) {
        if (CPU_ISSET(cpu, &allowed))
            cpus[n++] = cpu;
    }
    if (n < 2)
        SKIP("one CPU");
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_migrations, cpus);
    stop_profile(&profile);
    check_told(&profile, 0, 1);
    CHECKF(profile.stats[0].count >= 199, "%llu", (unsigned long long)profile.stats[0].count);
}

/* ---- Timers ---------------------------------------------------------------------------------- */

/* Returns the length of a tick, at which POSIX CPU timers look at the time. */
static uint64_t tick_ns(void)
{
    struct timespec tick;

    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    return (uint64_t)tick.tv_nsec;
}

CP_TEST(a_timer_above_the_tick_rate_folds_overruns_in)
{
    struct cp_slot_request requests[] = {request("timer", MS)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 400 * MS;
    double share;

    need_prompt_signals();
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_undisturbed, &ns);
    stop_profile(&profile);
    need_undisturbed(&worker);
    check_books(&profile, 0);
    share = (double)profile.stats[0].samples * 1e6 / (double)worker.cpu;
    printf("%llu samples by %llu signals, share %.4f\n", (unsigned long long)profile.stats[0].samples,
           (unsigned long long)profile.stats[0].signals, share);
    CHECKF(share >= 0.97 && share <= 1.03, "%.4f", share);
    CHECK_EQ(profile.stats[0].samples, profile.stats[0].signals + profile.stats[0].overruns);
    if (tick_ns() > 2 * MS)
        CHECK(profile.stats[0].signals < profile.stats[0].samples);
}
