/* How many samples there are, compared with the events' own counts, and whose they are. */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
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
 * unless the thread's CPU stood still: then one signal may bring several. */
static void check_books(const struct profile *profile, size_t i)
{
    const struct cp_slot_stats *stats = &profile->stats[i];

    CHECK_EQ(profile->seen[i].weight, stats->samples);
    CHECK(profile->seen[i].samples >= stats->signals);
    CHECK(profile->seen[i].samples == stats->signals || stats->overruns > 0);
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

CP_TEST(task_clock_samples_are_its_count_by_the_period)
{
    struct cp_slot_request requests[] = {request("taskClock", 200000)};
    struct profile profile = {.wanted = 500};
    struct worker worker;
    uint64_t start = wall_ns();

    need_prompt_signals();
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_until_sampled, &profile);
    stop_profile(&profile);
    check_books(&profile, 0);
    check_told(&profile, 0, 200000);
    /* the count is this thread's CPU time, less the kernel's own at each switch */
    CHECKF(profile.stats[0].count >= worker.cpu - worker.cpu / 50 &&
               profile.stats[0].count <= wall_ns() - start,
           "%llu and %llu ns", (unsigned long long)profile.stats[0].count, (unsigned long long)worker.cpu);
    CHECK_EQ(profile.stats[0].ms, 1);
    /* samples have signals of their own, and are not computed from the count */
    CHECK(profile.stats[0].overruns < profile.stats[0].samples - profile.stats[0].samples / 10);
    check_most_in(&profile, 0, IN_A);
    CHECK_EQ(profile.seen[0].in[IN_B] + profile.seen[0].in[IN_C], 0);
}

/* The shortest period that a test may ask for. The kernel throttles it if its limit is well below 10 000
 * samples a second. */
#define THROTTLED_NS 100000
#define THROTTLES 6000

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
        SKIP("the kernel lets so many samples pass that it throttles none of 10 000 a second");
    check_throttled("taskClock");
    check_throttled("cpuClock");
}

CP_TEST(two_clocks_of_one_period_are_both_whole)
{
    struct cp_slot_request requests[] = {request("taskClock", 200000), request("cpuClock", 200000)};
    struct profile profile = {.wanted = 500};
    struct worker worker;

    need_prompt_signals();
    start_profile(&profile, requests, 2);
    run_attached(&worker, body_until_sampled, &profile);
    stop_profile(&profile);
    for (size_t i = 0; i < 2; i++) {
        check_books(&profile, i);
        check_told(&profile, i, 200000);
        /* If only user mode counts, one clock mostly ends its period in the kernel, in the other clock's
         * interrupt, and takes no sample there: the few that are left say nothing. */
        if (counts_the_kernel() || profile.seen[i].weight > 100)
            check_most_in(&profile, i, IN_A);
    }
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

/* Causes all of the events below, until each of the first four has enough samples. */
static void body_mixture(struct worker *worker)
{
    const struct profile *profile = worker->arg;

    for (size_t i = 0; i < profile->n && i < 4; i++) {
        while (sampled(profile->slots[i]) < profile->wanted) {
            fault_a();
            for (int k = 0; k < 4; k++)
                switch_b();
            burn_a(MS / 2);
        }
    }
}

static void check_mixture(const struct cp_slot_request *requests, size_t n)
{
    struct profile profile = {.wanted = 100};
    struct worker worker;

    need_prompt_signals();
    start_profile(&profile, requests, n);
    run_attached(&worker, body_mixture, &profile);
    stop_profile(&profile);
    for (size_t i = 0; i < n; i++) {
        check_books(&profile, i);
        if (requests[i].event != CP_CPUPROF_OS_TIMER) /* a timer has up to a tick fewer at the end */
            check_told(&profile, i, requests[i].config.period);
    }
}

CP_TEST(four_events_at_once_are_whole)
{
    const struct cp_slot_request requests[] = {
        kernel_request("taskClock", MS), kernel_request("cpuClock", MS), kernel_request("pageFaults", 7),
        kernel_request("contextSwitches", 3)};

    check_mixture(requests, ARRAY_SIZE(requests));
}

CP_TEST(eight_events_at_once_are_whole)
{
    const struct cp_slot_request requests[] = {
        kernel_request("taskClock", MS),           kernel_request("cpuClock", 11 * MS / 10),
        kernel_request("pageFaults", 7),           kernel_request("contextSwitches", 3),
        kernel_request("taskClock", 17 * MS / 10), kernel_request("cpuClock", 31 * MS / 10),
        kernel_request("timer", 10 * MS),          kernel_request("cpuMigrations", 1),
    };

    check_mixture(requests, ARRAY_SIZE(requests));
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

CP_TEST(a_timer_of_100_hz_samples_every_10_ms)
{
    struct cp_slot_request requests[] = {request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 400 * MS;
    double missing;

    need_prompt_signals();
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_undisturbed, &ns);
    stop_profile(&profile);
    need_undisturbed(&worker);
    check_books(&profile, 0);
    missing = (double)worker.cpu / (10 * MS) - (double)profile.stats[0].samples;
    CHECKF(missing > -1.1 && missing < 1 + (double)(2 * tick_ns()) / (10 * MS), "%.2f samples", missing);
    CHECK(profile.stats[0].count >= worker.cpu && profile.stats[0].count <= worker.cpu + worker.cpu / 2);
    CHECK((double)profile.seen[0].in[IN_A] > 0.9 * (double)profile.seen[0].weight);
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

/* Runs until the slot has its first sample. */
static void body_first_sample(struct worker *worker)
{
    struct cp_slot_stats stats = {.size = sizeof stats};
    const int *slot = worker->arg;
    uint64_t before;

    worker->undisturbed = run_undisturbed();
    cp_slots_stats(*slot, &stats);
    for (before = stats.samples; stats.samples == before; cp_slots_stats(*slot, &stats))
        SPIN();
}

/* The first expiry is uniform in (0, period], and comes half a tick late on average. A timer with a fixed
 * first expiry would always be at the period, or at 0. */
CP_TEST(a_timers_first_expiry_is_uniform)
{
    enum { MEASURED = 60 };
    const uint64_t period = 20 * MS;
    struct cp_slot_request requests[] = {request("timer", period)};
    struct profile profile = {.n = 0};
    double sum = 0, least = 1e18, most = 0;

    need_prompt_signals();
    start_profile(&profile, requests, 1);
    for (int i = 0; i < MEASURED; i++) {
        struct worker worker;

        run_attached(&worker, body_first_sample, &profile.slots[0]);
        need_undisturbed(&worker);
        sum += (double)worker.cpu;
        least = (double)worker.cpu < least ? (double)worker.cpu : least;
        most = (double)worker.cpu > most ? (double)worker.cpu : most;
    }
    stop_profile(&profile);
    printf("first samples after %.2f to %.2f, %.2f ms on average\n", least / 1e6, most / 1e6,
           sum / MEASURED / 1e6);
    /* five times the error of the mean: period / sqrt(12 * MEASURED) */
    CHECK(fabs(sum / MEASURED - (double)(period + tick_ns()) / 2) < 5 * (double)period / sqrt(12 * MEASURED));
    CHECK(least < (double)period / 3 && most > (double)period * 2 / 3);
}

/* Threads that live for less than two periods have as many samples as their CPU time has periods, less half a
 * tick for each thread's end. */
enum { SHORT_THREADS = 100 };

/* Runs SHORT_THREADS threads of 15 ms each under a timer of 10 ms. Returns the difference between the samples
 * and the number that the threads' CPU time implies. */
static double short_threads_error(void)
{
    struct cp_slot_request requests[] = {request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    uint64_t ns = 15 * MS;
    uint64_t cpu = 0;
    double expected;

    start_profile(&profile, requests, 1);
    for (int i = 0; i < SHORT_THREADS; i++) {
        struct worker worker;

        run_attached(&worker, body_undisturbed, &ns);
        need_undisturbed(&worker);
        cpu += worker.cpu;
    }
    stop_profile(&profile);
    check_books(&profile, 0);
    CHECK_EQ(profile.stats[0].ms, SHORT_THREADS);
    expected = ((double)cpu - SHORT_THREADS * (double)tick_ns() / 2) / (10 * MS);
    printf("%llu samples, %.1f expected\n", (unsigned long long)profile.stats[0].samples, expected);
    return fabs((double)profile.stats[0].samples - expected);
}

/* Each thread has one or two samples, so the standard deviation is at most 0.5 * sqrt(SHORT_THREADS). While a
 * virtual machine stands still, CPU clocks go on and timers do not, so the test may try again. */
CP_TEST(short_threads_are_sampled_in_proportion)
{
    int tries = 0;

    need_prompt_signals();
    while (short_threads_error() >= 5 * 0.5 * sqrt(SHORT_THREADS))
        CHECKF(++tries < 6, "again and again");
}

/* ---- System calls ---------------------------------------------------------------------------- */

/* Spends nearly all of its time in the kernel. */
CODE(b) void call_b(uint64_t ns)
{
    static char block[64 << 10];
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    for (uint64_t end = cpu_ns() + ns; cpu_ns() < end;)
        CHECK(read(fd, block, sizeof block) > 0);
    close(fd);
}

static void body_calls(struct worker *worker)
{
    call_b(*(const uint64_t *)worker->arg);
}

/* Counts samples that were interrupted outside this program: in the C library's read(). */
static void count_elsewhere(void *context, const struct cp_sample *sample)
{
    Dl_info leaf, here;

    CHECK(dladdr(__start_code_a, &here) != 0);
    if (dladdr((void *)sample->frames[0], &leaf) != 0 && leaf.dli_fbase != here.dli_fbase)
        *(uint64_t *)context += sample->weight;
}

CP_TEST(time_in_system_calls_counts_where_the_kernel_is_included)
{
    struct cp_slot_request requests[] = {kernel_request("taskClock", 200000)};
    uint64_t elsewhere = 0;
    struct profile profile = {.look = count_elsewhere, .context = &elsewhere};
    struct worker worker;
    uint64_t ns = 100 * MS;

    need_prompt_signals();
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_calls, &ns);
    stop_profile(&profile);
    check_told(&profile, 0, 200000);
    CHECK((double)profile.stats[0].count > 0.98 * (double)worker.cpu);
    CHECKF((double)elsewhere > 0.8 * (double)profile.seen[0].weight, "%llu of %llu",
           (unsigned long long)elsewhere, (unsigned long long)profile.seen[0].weight);
}

static void body_calls_and_own(struct worker *worker)
{
    body_calls(worker);
    body_a(worker);
}

CP_TEST(time_in_system_calls_does_not_count_where_it_is_not)
{
    struct cp_slot_request requests[] = {request("taskClock", MS), request("cpuClock", 13 * MS / 10)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 150 * MS;

    need_prompt_signals();
    requests[0].config.is_kernel_included = false;
    requests[1].config.is_kernel_included = false;
    start_profile(&profile, requests, 2);
    run_attached(&worker, body_calls_and_own, &ns);
    stop_profile(&profile);
    for (size_t i = 0; i < 2; i++) {
        double all = (double)profile.stats[i].samples * (double)requests[i].config.period / (double)ns;
        double own = (double)profile.seen[i].in[IN_A] * (double)requests[i].config.period / (double)ns;

        printf("%.3f of what it burnt by itself, and %.3f in calls\n", own, all - own);
        CHECK(own > 0.7 && own < 1.1 && all - own < 0.3);
    }
}

/* ---- Threads and Gs of samples --------------------------------------------------------------- */

struct ownership {
    int with_a, with_b; /* samples with these threads' labels */
    int of_nobody;
    int wrong;
};

static void check_owner(void *context, const struct cp_sample *sample)
{
    struct ownership *owned = context;
    enum code forbidden;

    if (cp_labels_count(sample->labels) != 1) {
        owned->of_nobody++;
        return;
    }
    CHECK_STR(cp_labels_key(sample->labels, 0), "thread");
    if (strcmp(cp_labels_value(sample->labels, 0), "a") == 0) {
        owned->with_a++;
        forbidden = IN_B;
    } else {
        owned->with_b++;
        forbidden = IN_A;
    }
    for (unsigned i = 0; i < sample->depth; i++)
        owned->wrong += is_in(forbidden, sample->frames[i]);
}

static void body_labelled_a(struct worker *worker)
{
    CP_LABEL_SCOPE("thread", "a");
    body_a(worker);
}

static void body_labelled_b(struct worker *worker)
{
    CP_LABEL_SCOPE("thread", "b");
    body_b(worker);
}

CP_TEST(samples_belong_to_the_thread_that_caused_them)
{
    struct cp_slot_request requests[] = {request("taskClock", 200000), request("timer", MS)};
    struct ownership owned = {0};
    struct profile profile = {.look = check_owner, .context = &owned};
    struct worker a, b;
    uint64_t ns = 100 * MS;

    start_profile(&profile, requests, 2);
    start_worker(&a, body_labelled_a, &ns);
    start_worker(&b, body_labelled_b, &ns);
    join_worker(&a);
    join_worker(&b);
    stop_profile(&profile);
    printf("%d and %d, %d of nobody\n", owned.with_a, owned.with_b, owned.of_nobody);
    CHECK_EQ(owned.wrong, 0);
    CHECK_EQ(profile.stats[0].ms, 2);
    need_prompt_signals();
    CHECK(owned.with_a > 10 && owned.with_b > 10);
    CHECK(owned.of_nobody < (owned.with_a + owned.with_b) / 4);
}
