/* Ms that the system refuses something, while other Ms of the same session go on. */
#include "tests/support/burn.h"
#include "tests/support/refuse.h"
#include "tests/support/resources.h"

#include <sys/eventfd.h>

#define PERIOD 200000

/* ---- Refused altogether ---------------------------------------------------------------------- */

/* An M attaches when no descriptor is left. It is counted as refused and runs without a profile. */
CP_TEST(an_m_without_descriptors_is_counted)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    struct worker worker;
    rlim_t used = fill_descriptors();
    uint64_t ns = 20 * MS;

    start_profile(&profile, requests, 1);
    run_attached(&worker, body_a, &ns);
    limit_descriptors(used, used);
    run_attached(&worker, body_b, &ns);
    stop_profile(&profile);
    free_descriptors();
    CHECK_EQ(profile.stats[0].ms, 1);
    CHECK_EQ(profile.stats[0].ms_refused, 1);
    CHECK_EQ(profile.stats[0].refused_errno, -EMFILE);
    CHECK(profile.seen[0].in[IN_A] > 0 && profile.seen[0].in[IN_B] == 0);
}

/* Burns CPU time in parts. The CPU clock goes on while a virtual machine stands still, so one such gap ends
 * at most one part. */
static void body_without_ring(struct worker *worker)
{
    (void)worker;
    for (int part = 0; part < 5; part++)
        burn_b(20 * MS);
}

/* The filter applies to this thread only, which installs it before it becomes an M. */
static void *run_without_ring(void *arg)
{
    refuse_rings(EPERM);
    return run_worker(arg);
}

static void *run_without_perf(void *arg)
{
    refuse_call(SYS_perf_event_open, EACCES);
    return run_worker(arg);
}

static void *run_without_timer(void *arg)
{
    refuse_call(SYS_timer_create, EAGAIN);
    return run_worker(arg);
}

/* Profiles a thread that is refused something, beside a thread that is not. Returns the CPU time of both. */
static uint64_t profile_two(void *(*refused)(void *), struct profile *profile,
                            const struct cp_slot_request *requests, size_t n)
{
    struct worker other, worker = {.body = body_without_ring};
    uint64_t ns = 100 * MS;

    start_profile(profile, requests, n);
    start_worker(&other, body_a, &ns);
    CHECK_EQ(pthread_create(&worker.thread, NULL, refused, &worker), 0);
    join_worker(&worker);
    join_worker(&other);
    stop_profile(profile);
    CHECK_EQ(resources_now().perf_fds + resources_now().timers, 0);
    CHECK(sigprof_is(SIG_DFL));
    if (!TEST_TSAN)
        CHECK(profile->seen[0].in[IN_A] > 0);
    return worker.cpu + other.cpu;
}

CP_TEST(an_m_without_ring_memory_is_sampled_by_signals)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    uint64_t cpu = profile_two(run_without_ring, &profile, requests, 1);

    printf("%llu samples without a ring of %.1f periods in all\n",
           (unsigned long long)profile.seen[0].in[IN_B], periods_of(&profile, 0, PERIOD));
    CHECK_EQ(profile.stats[0].ms, 2);
    CHECK_EQ(profile.stats[0].ms_ringless, 1);
    CHECK_EQ(profile.stats[0].ms_refused, 0);
    CHECKF(profile.stats[0].count >= cpu - cpu / 50, "%llu ns of %llu",
           (unsigned long long)profile.stats[0].count, (unsigned long long)cpu);
    if (!TEST_TSAN)
        CHECK(profile.seen[0].in[IN_B] > 0);
}

/* If two events signal at the same time, one signal comes. The samples that this loses are counted as
 * lost. */
CP_TEST(an_m_without_ring_memory_tells_its_losses)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("cpuClock", PERIOD)};
    struct profile profile = {.n = 0};

    profile_two(run_without_ring, &profile, requests, 2);
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: what they count means nothing");
    for (size_t i = 0; i < 2; i++) {
        double told = (double)(profile.stats[i].samples + profile.stats[i].lost);

        printf("%.1f periods, %llu samples, %llu lost\n", periods_of(&profile, i, PERIOD),
               (unsigned long long)profile.stats[i].samples, (unsigned long long)profile.stats[i].lost);
        CHECK_EQ(profile.stats[i].ms_ringless, 1);
        CHECKF(told >= (counts_the_kernel() ? 0.99 : 0.1) * periods_of(&profile, i, PERIOD) - 2 &&
                   told <= 1.01 * periods_of(&profile, i, PERIOD) + 2,
               "%.0f of %.1f", told, periods_of(&profile, i, PERIOD));
    }
}

CP_TEST(an_m_that_is_refused_is_counted_and_the_others_go_on)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};

    profile_two(run_without_perf, &profile, requests, 2);
    CHECK_EQ(profile.stats[0].ms, 1);
    CHECK_EQ(profile.stats[0].ms_refused, 1);
    CHECK_EQ(profile.stats[0].refused_errno, -EACCES);
    CHECK_EQ(profile.seen[0].in[IN_B], 0);
    CHECK_EQ(profile.stats[1].ms, 2);
    CHECK_EQ(profile.stats[1].ms_refused, 0);
    CHECK(profile.seen[1].in[IN_B] > 0);
}

CP_TEST(an_m_that_is_refused_a_timer_is_counted)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};

    profile_two(run_without_timer, &profile, requests, 2);
    CHECK_EQ(profile.stats[1].ms, 1);
    CHECK_EQ(profile.stats[1].ms_refused, 1);
    CHECK_EQ(profile.stats[1].refused_errno, -EAGAIN);
    CHECK_EQ(profile.stats[0].ms, 2);
    CHECK(profile.seen[0].in[IN_B] > 0);
}

/* ---- Many ------------------------------------------------------------------------------------ */

static void body_burn_and_wait(struct worker *worker)
{
    uint64_t token;

    burn_a(2 * MS);
    CHECK_EQ(read(*(const int *)worker->arg, &token, sizeof token), sizeof token);
}

/* A user may lock 516 KiB for each CPU, and what ulimit -l allows besides: nothing in this test. */
CP_TEST(ms_past_the_ring_memory_have_none)
{
    struct cp_slot_request requests[1];
    struct profile profile = {.n = 0};
    const struct rlimit none = {0, 0};
    int threads = (int)sysconf(_SC_NPROCESSORS_ONLN) * 64 + 40;
    struct worker *workers = calloc((size_t)threads, sizeof *workers);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    uint64_t token = (uint64_t)threads;

    if (threads > 1000)
        SKIP("too many CPUs");
    setrlimit(RLIMIT_MEMLOCK, &none);
    become_nobody();
    requests[0] = request("taskClock", PERIOD);
    start_unread(&profile, requests, 1);
    for (int i = 0; i < threads; i++)
        start_worker(&workers[i], body_burn_and_wait, &fd);
    CHECK_EQ(write(fd, &token, sizeof token), sizeof token);
    for (int i = 0; i < threads; i++)
        join_worker(&workers[i]);
    stop_profile(&profile);
    printf("%d threads, %u Ms, %u without a ring\n", threads, profile.stats[0].ms,
           profile.stats[0].ms_ringless);
    CHECK_EQ(profile.stats[0].ms, threads);
    CHECK(profile.stats[0].ms_ringless > 0 && (int)profile.stats[0].ms_ringless < threads);
    if (!TEST_TSAN)
        CHECK(profile.seen[0].in[IN_A] > 0);
    close(fd);
    free(workers);
}
