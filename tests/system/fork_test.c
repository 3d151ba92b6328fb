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

static void need_prompt_signals(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: what they count means nothing");
}

/* Waits for a child, which must have exited with status 0. */
static void reap(pid_t child)
{
    int status;

    CHECK(child > 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("the child was skipped: its clock was throttled");
    CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %#x", (unsigned)status);
}

/* Runs child() in a child process. A check that fails there is an exit status other than 0. */
static void in_child(void (*child)(void))
{
    pid_t pid = fork();

    if (pid == 0) {
        alarm(10);
        child();
        fflush(NULL);
        _exit(0);
    }
    reap(pid);
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

static void child_execs(void)
{
    execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done", (char *)NULL);
    _exit(1);
}

static void child_profiles(void)
{
    struct profile profile = {.n = 0};

    start_profile(&profile, requests, 3);
    burn_b(30 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.seen[0].weight, profile.stats[0].samples);
    CHECK(profile.stats[0].samples > 0 && profile.stats[1].samples > 0);
    CHECK_EQ(profile.stats[0].ms, 1);
    CHECK_EQ(profile.seen[0].in[IN_A], 0);
    CHECK(profile.seen[0].in[IN_B] > 0);
}

/* Checks that nothing a child does to its copies of the parent's events reaches the parent's. */
static void check_parent(void (*child)(void))
{
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};
    uint64_t cpu;

    need_prompt_signals();
    make_requests();
    attach(&worker);
    start_profile(&profile, requests, 3);
    cpu = cpu_ns();
    for (int i = 0; i < 10; i++) {
        burn_a(10 * MS);
        in_child(child);
    }
    burn_a(10 * MS);
    cpu = cpu_ns() - cpu;
    stop_profile(&profile);
    cp_m_detach(worker.m);
    for (size_t i = 0; i < 2; i++) {
        const struct cp_slot_stats *stats = &profile.stats[i];

        check_told(&profile, i, PERIOD); /* a slow fork may fill the ring; the losses must be told */
        CHECKF(stats->count >= cpu - cpu / 50, "counted %.2f of %.2f ms", (double)stats->count / 1e6,
               (double)cpu / 1e6);
        CHECK_EQ(profile.seen[i].in[IN_B], 0);
        CHECK_EQ(profile.seen[i].weight, profile.stats[i].samples);
    }
    CHECK(profile.stats[2].samples <= cpu / (10 * MS) + 2);
}

CP_TEST(a_child_that_leaves_takes_nothing_along)
{
    check_parent(child_leaves);
}

CP_TEST(a_child_that_burns_is_not_counted)
{
    check_parent(child_burns);
}

CP_TEST(a_child_that_passes_a_scheduling_point_stops_nothing)
{
    check_parent(child_executes);
}

CP_TEST(a_child_that_detaches_stops_nothing)
{
    check_parent(child_detaches);
}

CP_TEST(a_child_that_executes_a_program_stops_nothing)
{
    check_parent(child_execs);
}

CP_TEST(a_child_that_profiles_stops_nothing)
{
    check_parent(child_profiles);
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

/* The child's M runs without scheduling points, while another thread starts the profile, and so it needs a
 * kick. */
static void child_is_kicked(void)
{
    struct profile profile = {.n = 0};
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, start_elsewhere, &profile), 0);
    pthread_join(thread, NULL);
    while (sampled(profile.slots[0]) < 50)
        burn_b(MS);
    stop_profile(&profile);
    CHECK(profile.seen[0].in[IN_B] > 0);
}

CP_TEST(a_child_holds_nothing_of_its_parents)
{
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL}, other;

    make_requests();
    before_profiling = resources_now();
    attach(&worker);
    start_worker(&other, body_c, NULL);
    start_unread(&profile, requests, 3);
    burn_a(10 * MS);
    CHECK(resources_now().perf_fds > 0 && resources_now().timers > 0);
    in_child(child_holds_nothing);
    in_child(child_opens);
    if (!TEST_TSAN) {
        in_child(child_forks);
        in_child(child_is_kicked);
    }
    stop_profile(&profile);
    stop_worker(&other);
    cp_m_detach(worker.m);
}

/* Starts and stops the event that the parent is sampling, by the same call. */
static void child_sets_configs(void)
{
    const struct cp_cpu_profile_config config = request("taskClock", PERIOD).config;
    struct profile profile = {.n = 1};
    struct profile_part part = {.profile = &profile};

    for (int i = 0; i < 3; i++) {
        CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, &config, NULL), 0);
        burn_b(20 * MS);
        CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, NULL, NULL), 0);
        profile.seen[0].weight = 0;
        CHECK(cp_cpu_profile_read(CP_CPUPROF_SW_TASK_CLOCK, see, &part) > 0);
    }
    CHECK_EQ(profile.seen[0].in[IN_A], 0);
    CHECK_EQ(cp_cpu_profile_read(CP_CPUPROF_SW_TASK_CLOCK, see, &part), -ESRCH);
    CHECK_EQ(cp_cpu_profile_read(CP_CPUPROF_SW_CPU_CLOCK, see, &part), -ESRCH);
}

CP_TEST(a_child_starts_the_events_that_its_parent_runs)
{
    const struct cp_cpu_profile_config config = request("taskClock", PERIOD).config;
    struct worker worker = {.body = NULL};
    struct profile profile = {.n = 1};
    struct profile_part part = {.profile = &profile};

    need_prompt_signals();
    attach(&worker);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_CPU_CLOCK, &config, NULL), 0);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, &config, NULL), 0);
    burn_a(20 * MS);
    in_child(child_sets_configs);
    burn_a(20 * MS);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, NULL, NULL), 0);
    CHECK(cp_cpu_profile_read(CP_CPUPROF_SW_TASK_CLOCK, see, &part) > 0);
    CHECK_EQ(profile.seen[0].in[IN_B], 0);
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

CP_TEST(a_thread_that_is_no_m_may_fork)
{
    struct profile profile = {.n = 0};
    struct worker workers[2];

    need_prompt_signals();
    make_requests();
    start_worker(&workers[0], body_c, NULL);
    start_worker(&workers[1], body_c, NULL);
    start_profile(&profile, requests, 2);
    for (int i = 0; i < 5; i++)
        in_child(child_attaches);
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
    stop_worker(&workers[0]);
    stop_worker(&workers[1]);
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

    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, &config, NULL), 0);
    burn_b(MS);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, NULL, NULL), 0);
    CHECK_EQ(resources_now().perf_fds, 0);
}

CP_TEST(a_fork_may_come_at_any_time)
{
    struct worker workers[2];
    struct worker self = {.body = NULL};
    pthread_t thread;
    int stop = 0;

    if (TEST_TSAN || TEST_ASAN)
        SKIP("a child of several threads may start no thread under ThreadSanitizer, and may find the lock of "
             "AddressSanitizer's allocator held for ever");
    attach(&self);
    start_worker(&workers[0], body_c, NULL);
    start_worker(&workers[1], body_c, NULL);
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
