/* Forks of a process that is being profiled: the parent loses nothing, and the child starts without a
 * profile. */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <fcntl.h>
#include <sys/wait.h>

#define PERIOD 250000

static struct cp_slot_request requests[3];

static void make_requests(void)
{
    requests[0] = request("taskClock", PERIOD);
    requests[1] = request("cpuClock", PERIOD);
    requests[2] = request("timer", 10 * MS);
}

/* Runs child() in a child process. A check that fails there is an exit status other than 0. */
static void in_child(void (*child)(void))
{
    pid_t pid = fork();

    if (pid == 0) {
        child();
        fflush(NULL);
        _exit(0);
    }
    await_child(pid);
}

/* ---- The parent ------------------------------------------------------------------------------ */

static void child_leaves(void)
{
}

static void child_burns(void)
{
    burn_b(5 * MS);
}

static void child_executes(void)
{
    cp_execute(cp_m_self(), NULL);
    burn_b(MS);
}

static void child_detaches(void)
{
    cp_m_detach(cp_m_self());
    burn_b(MS);
}

/* Checks what the calling thread has of a profile of the three events, after so much time in a function. */
static void check_profile(const struct profile *profile, enum code code, uint64_t ns)
{
    const uint64_t samples[] = {ns / PERIOD, ns / PERIOD, ns / (10 * MS)};

    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        const struct cp_slot_stats *stats = &profile->stats[i];

        CHECK_EQ(stats->samples, samples[i]);
        CHECK_EQ(profile->seen[i].weight, samples[i]);
        CHECK_EQ(profile->seen[i].leaf[code], samples[i]);
        CHECK_EQ(stats->signals, samples[i]);
        CHECK_EQ(stats->ms, 1);
        CHECK_EQ(stats->late + stats->lost + stats->dropped + stats->truncated + stats->overruns, 0);
    }
    CHECK_EQ(profile->stats[0].count, ns);
    CHECK_EQ(profile->stats[1].count, ns);
}

/* ThreadSanitizer lets a child of a process with threads start none, and holds back the child's signals. */
#define CHILD_IS_LIKE_PARENT (!TEST_TSAN)

static void child_profiles(void)
{
    struct profile profile = {.n = 0};

    start_unread(&profile, requests, 3);
    burn_b(30 * MS);
    stop_profile(&profile);
    if (CHILD_IS_LIKE_PARENT)
        check_profile(&profile, IN_B, 30 * MS);
}

/* Checks that nothing a child does to its copies of the parent's events reaches the parent's. */
static void check_parent(void (*child)(void))
{
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    make_requests();
    attach(&worker);
    start_profile(&profile, requests, 3);
    for (int i = 0; i < 10; i++) {
        burn_a(10 * MS);
        in_child(child);
    }
    burn_a(10 * MS);
    stop_profile(&profile);
    cp_m_detach(worker.m);
    check_profile(&profile, IN_A, 110 * MS);
}

SIM_TEST(a_child_that_leaves_takes_nothing_along)
{
    check_parent(child_leaves);
}

SIM_TEST(a_child_that_burns_is_not_counted)
{
    check_parent(child_burns);
}

SIM_TEST(a_child_that_passes_a_scheduling_point_stops_nothing)
{
    check_parent(child_executes);
}

SIM_TEST(a_child_that_detaches_stops_nothing)
{
    check_parent(child_detaches);
}

SIM_TEST(a_child_that_profiles_stops_nothing)
{
    check_parent(child_profiles);
}

/* Takes up the profile, and has 100 ms of simulated time while the process forks. A fork waits for threads
 * that open or close events, but gives up if the machine is very busy: so the thread does neither. */
static void body_runs_beside_forks(struct worker *worker)
{
    await(&worker->stop, 1);
    cp_execute(worker->m, NULL);
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await() */
    for (uint64_t i = 0; i < 100 * MS / PERIOD; i++) {
        SPIN_HERE();
        burn_b(PERIOD);
    }
    await(&worker->stop, 2);
}

/* Lets the thread take up the profile, and returns when it has. */
static void let_run(struct worker *worker)
{
    cp_store_release(&worker->stop, 1); /* pairs with the acquire in await() */
    await(&worker->running, 2);
}

static void let_end(struct worker *worker)
{
    cp_store_release(&worker->stop, 2); /* pairs with the acquire in await() */
    join_worker(worker);
}

/* ---- The child ------------------------------------------------------------------------------- */

static struct resources before_profiling;

static void child_holds_nothing(void)
{
    struct resources now = resources_now();

    CHECK_EQ(now.perf_fds, 0);
    CHECK_EQ(now.fds, before_profiling.fds);
    CHECK_EQ(now.timers, 0);
    CHECK(sigprof_is(SIG_DFL));
    burn_b(20 * MS);
}

/* The descriptors that the child opens may get the numbers that the parent's events have. The library must
 * not close them. */
static void child_opens(void)
{
    int fds[20];

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fds[i] = dup(STDIN_FILENO);
    cp_execute(cp_m_self(), NULL);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        CHECKF(fcntl(fds[i], F_GETFD) >= 0, "descriptor %d is closed", fds[i]);
}

/* The child's own child holds nothing, either. */
static void child_forks(void)
{
    in_child(child_holds_nothing);
    child_holds_nothing();
    child_profiles();
    in_child(child_holds_nothing);
}

static void *start_elsewhere(void *profile)
{
    start_profile(profile, requests, 1);
    return NULL;
}

/* The child's M runs without scheduling points, while another thread starts the profile and arms the M. */
static void child_is_armed(void)
{
    struct profile profile = {.looks = true};
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, start_elsewhere, &profile), 0);
    pthread_join(thread, NULL);
    while (sampled(profile.slots[0]) == 0) {
        SPIN_HERE(); /* the other thread takes the machine's time */
        burn_b(PERIOD);
    }
    burn_b(50 * PERIOD);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 51);
    CHECK_EQ(profile.seen[0].leaf[IN_B], 51);
}

SIM_TEST(a_child_holds_nothing_of_its_parents)
{
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL}, other;

    make_requests();
    before_profiling = resources_now();
    attach(&worker);
    start_worker(&other, body_runs_beside_forks, NULL);
    start_unread(&profile, requests, 3);
    let_run(&other);
    burn_a(10 * MS);
    CHECK(resources_now().perf_fds > 0 && resources_now().timers > 0);
    in_child(child_holds_nothing);
    in_child(child_opens);
    in_child(child_forks);
    if (CHILD_IS_LIKE_PARENT)
        in_child(child_is_armed);
    let_end(&other);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 110 * MS / PERIOD);
    CHECK_EQ(profile.stats[2].samples, 11);
    cp_m_detach(worker.m);
}

/* Starts and stops the event that the parent is sampling, by the same call. */
static void child_sets_configs(void)
{
    const struct cp_cpu_profile_config config = request("taskClock", PERIOD).config;
    struct profile profile = {.n = 1};
    struct profile_part part = {.profile = &profile};
    int n;

    for (int i = 0; i < 3; i++) {
        CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, &config, NULL), 0);
        burn_b(20 * MS);
        CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, NULL, NULL), 0);
        n = cp_cpu_profile_read(CP_CPUPROF_SW_TASK_CLOCK, see, &part);
        CHECK(n == (int)(20 * MS / PERIOD) || !CHILD_IS_LIKE_PARENT);
    }
    CHECK(profile.seen[0].leaf[IN_B] == 60 * MS / PERIOD || !CHILD_IS_LIKE_PARENT);
    CHECK_EQ(profile.seen[0].in[IN_A], 0);
    CHECK_EQ(cp_cpu_profile_read(CP_CPUPROF_SW_TASK_CLOCK, see, &part), -ESRCH);
    CHECK_EQ(cp_cpu_profile_read(CP_CPUPROF_SW_CPU_CLOCK, see, &part), -ESRCH);
}

SIM_TEST(a_child_starts_the_events_that_its_parent_runs)
{
    const struct cp_cpu_profile_config config = request("taskClock", PERIOD).config;
    struct worker worker = {.body = NULL};
    struct profile profile = {.n = 1};
    struct profile_part part = {.profile = &profile};

    attach(&worker);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_CPU_CLOCK, &config, NULL), 0);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, &config, NULL), 0);
    burn_a(20 * MS);
    in_child(child_sets_configs);
    burn_a(20 * MS);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, NULL, NULL), 0);
    CHECK_EQ(cp_cpu_profile_read(CP_CPUPROF_SW_TASK_CLOCK, see, &part), 40 * MS / PERIOD);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 40 * MS / PERIOD);
}

/* The fork comes from a thread that is no M, in a process with Ms. */
static void child_attaches(void)
{
    struct worker worker = {.body = NULL};

    CHECK(cp_m_self() == NULL);
    attach(&worker);
    child_profiles();
    cp_m_detach(worker.m);
    CHECK_EQ(resources_now().perf_fds + resources_now().timers, 0);
    CHECK(sigprof_is(SIG_DFL));
}

SIM_TEST(a_thread_that_is_no_m_may_fork)
{
    struct profile profile = {.n = 0};
    struct worker workers[2];

    make_requests();
    for (int i = 0; i < 2; i++)
        start_worker(&workers[i], body_runs_beside_forks, NULL);
    start_profile(&profile, requests, 2);
    for (int i = 0; i < 2; i++)
        let_run(&workers[i]);
    for (int i = 0; i < 5; i++)
        in_child(child_attaches);
    for (int i = 0; i < 2; i++)
        let_end(&workers[i]);
    stop_profile(&profile);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(profile.stats[i].samples, 200 * MS / PERIOD);
        CHECK_EQ(profile.seen[i].leaf[IN_B], 200 * MS / PERIOD);
        CHECK_EQ(profile.stats[i].count, 200 * MS);
        CHECK_EQ(profile.stats[i].ms, 2);
    }
}

/* ---- Forks in the middle of calls ------------------------------------------------------------ */

static void *start_and_stop(void *stop)
{
    const struct cp_cpu_profile_config config = request("taskClock", PERIOD).config;

    while (cp_load_acquire((int *)stop) == 0) { /* pairs with the release in the test below */
        CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, &config, NULL), 0);
        usleep(300);
        CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, NULL, NULL), 0);
    }
    return NULL;
}

static void child_starts_and_stops(void)
{
    const struct cp_cpu_profile_config config = request("taskClock", PERIOD).config;
    struct profile profile = {.n = 1};
    struct profile_part part = {.profile = &profile};
    int n;

    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, &config, NULL), 0);
    burn_b(MS);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, NULL, NULL), 0);
    n = cp_cpu_profile_read(CP_CPUPROF_SW_TASK_CLOCK, see, &part);
    CHECK(n == (int)(MS / PERIOD) || !CHILD_IS_LIKE_PARENT);
    CHECK(profile.seen[0].leaf[IN_B] == MS / PERIOD || !CHILD_IS_LIKE_PARENT);
    CHECK_EQ(resources_now().perf_fds, 0);
}

/* Has little simulated time for the machine's: both are in the time that a fork waits for at most. */
static void body_runs_slowly(struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) { /* pairs with the release in stop_worker() */
        for (int i = 0; i < 20; i++)
            SPIN_HERE();
        burn_b(SPIN_NS);
    }
}

SIM_TEST(a_fork_may_come_at_any_time)
{
    struct worker workers[2];
    struct worker self = {.body = NULL};
    pthread_t thread;
    int stop = 0;

    if (TEST_ASAN)
        SKIP("a child may find the lock of AddressSanitizer's allocator held for ever");
    attach(&self);
    start_worker(&workers[0], body_runs_slowly, NULL);
    start_worker(&workers[1], body_runs_slowly, NULL);
    pthread_create(&thread, NULL, start_and_stop, &stop);
    for (int i = 0; i < 100; i++)
        in_child(child_starts_and_stops);
    cp_store_release(&stop, 1); /* pairs with the acquire in start_and_stop() */
    pthread_join(thread, NULL);
    stop_worker(&workers[0]);
    stop_worker(&workers[1]);
    cp_m_detach(self.m);
    CHECK(sigprof_is(SIG_DFL));
}
