/* A thread that would execute another program while it is sampled: what it holds meanwhile, and afterwards if
 * there is no such program. See also tests/live/execve_test.c. */
#include <sys/wait.h>

#include "tests/support/burn.h"
#include "tests/support/resources.h"

#define PERIOD 200000

static char *const program[] = {(char[]){"true"}, NULL};
static char *const environment[] = {NULL};

static void start_sampling(struct profile *profile, enum cp_engine engine)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", MS)};
    static struct worker worker;

    requests[0].config.engine = engine;
    attach(&worker);
    start_unread(profile, requests, 2);
}

/* Burns, and checks that each period was a sample. */
static void expect_samples(struct profile *profile)
{
    uint64_t clock = profile->seen[0].leaf[IN_A], timer = profile->seen[1].leaf[IN_A];

    burn_a(10 * MS);
    read_profile(profile);
    CHECK_EQ(profile->seen[0].leaf[IN_A], clock + 10 * MS / PERIOD);
    CHECK_EQ(profile->seen[1].leaf[IN_A], timer + 10);
}

/* Stops the profile, which has had no other samples than those of so many calls of expect_samples(). */
static void end_sampling(struct profile *profile, uint64_t times)
{
    stop_profile(profile);
    CHECK_EQ(profile->seen[0].weight, times * (10 * MS / PERIOD));
    CHECK_EQ(profile->seen[1].weight, 10 * times);
    CHECK_EQ(profile->stats[0].late + profile->stats[0].lost + profile->stats[0].dropped, 0);
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(profile->stats[i].samples, profile->seen[i].weight);
        CHECK_EQ(profile->stats[i].count, times * 10 * MS);
        CHECK_EQ(profile->stats[i].ms, 1);
    }
}

/* ---- Between the two calls ------------------------------------------------------------------- */

static void set_blocked(bool is_blocked)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigaddset(&set, SIGTRAP);
    pthread_sigmask(is_blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

/* Returns whether a signal of the library's waits for the thread, and would end the new program. */
static bool has_pending(void)
{
    sigset_t pending;

    CHECK_EQ(sigpending(&pending), 0);
    return sigismember(&pending, SIGPROF) != 0 || sigismember(&pending, SIGTRAP) != 0;
}

static struct {
    struct cp_slot_request request;
    struct profile profile;
    int over;
} other;

/* Starts another profile, looks at the Ms, and stops the profile. */
static void *profile_elsewhere(void *arg)
{
    start_unread(&other.profile, &other.request, 1);
    for (int i = 0; i < 10; i++) {
        usleep(NAP_US);
        read_profile(&other.profile);
    }
    stop_profile(&other.profile);
    cp_store_release(&other.over, 1); /* pairs with the acquire in burn_c() */
    return arg;
}

static void run_beside_profile(enum cp_engine engine)
{
    pthread_t thread;

    other.request = request("taskClock", 2 * PERIOD);
    other.request.config.engine = engine;
    CHECK_EQ(pthread_create(&thread, NULL, profile_elsewhere, NULL), 0);
    burn_c(&other.over);
    pthread_join(thread, NULL);
    CHECK_EQ(other.profile.stats[0].ms, 0);
}

/* Nothing samples the thread, whatever starts and stops meanwhile. */
static void check_failed_exec(enum cp_engine engine)
{
    struct profile profile = {.n = 0};

    start_sampling(&profile, engine);
    expect_samples(&profile);
    cp_before_exec();
    cp_before_exec(); /* changes nothing */
    CHECK_EQ(resources_now().perf_fds + resources_now().rings + resources_now().timers, 0);
    set_blocked(true);
    run_beside_profile(engine);
    CHECK(!has_pending());
    set_blocked(false);
    cp_after_exec();
    expect_samples(&profile);
    errno = 0;
    CHECK_EQ(cp_execve("/there/is/no/such/program", program, environment), -1);
    CHECK_EQ(errno, ENOENT);
    expect_samples(&profile);
    end_sampling(&profile, 3);
    cp_after_exec(); /* changes nothing */
}

SIM_TEST(a_thread_whose_exec_fails_is_sampled_again_by_traps)
{
    check_failed_exec(CP_ENGINE_TRAP);
}

SIM_TEST(a_thread_whose_exec_fails_is_sampled_again_by_signals)
{
    check_failed_exec(CP_ENGINE_SIGNAL);
}

/* ---- A child of vfork() ---------------------------------------------------------------------- */

/* The parent's thread is not the child's: the parent's events stay as they are. */
SIM_TEST(a_vfork_child_disarms_nothing)
{
    struct profile profile = {.n = 0};
    int status = 0;
    pid_t child;

    start_sampling(&profile, CP_ENGINE_SIGNAL);
    expect_samples(&profile);
    child = vfork();
    if (child == 0) {
        cp_execve("/bin/true", program, environment);
        _exit(99);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    expect_samples(&profile);
    end_sampling(&profile, 2);
}
