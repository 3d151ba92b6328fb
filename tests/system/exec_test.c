/* A thread that executes another program while it is sampled: the new program lives. */
#include <sys/wait.h>

#include "tests/support/burn.h"

#define PERIOD 200000
#define TIMES 50

static char *const program[] = {(char[]){"true"}, NULL};
static char *const environment[] = {NULL};

static void need_engine(enum cp_engine engine)
{
    struct cp_slot_request made = request("taskClock", 1000 * MS);
    struct cp_error err = {0};
    int slot;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals in its own way");
    made.config.engine = engine;
    if (cp_slots_start(&made, 1, &slot, &err) < 0)
        SKIP("%s", err.message);
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
}

static void start_sampling(struct profile *profile, enum cp_engine engine)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", MS)};
    static struct worker worker;

    requests[0].config.engine = engine;
    attach(&worker);
    start_profile(profile, requests, 2);
    burn_until_sampled(profile->slots[0], 3);
}

/* Burns until the slot has 10 more samples, which is soon or never. */
static void expect_samples(int slot)
{
    uint64_t start = cpu_ns(), before = sampled(slot);

    while (sampled(slot) < before + 10) {
        burn_a(MS);
        CHECKF(cpu_ns() - start < 1000 * MS, "only %llu samples", (unsigned long long)sampled(slot));
    }
}

/* Returns how many of the programs were killed that a sampled thread has executed. */
static int killed(enum cp_engine engine)
{
    int n = 0;

    for (int i = 0; i < TIMES; i++) {
        int status = 0;
        pid_t child;

        fflush(stdout);
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            static struct profile profile;

            start_sampling(&profile, engine);
            cp_execve("/bin/true", program, environment);
            _exit(99);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECKF(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "%#x", (unsigned)status);
        n += WIFSIGNALED(status);
    }
    return n;
}

CP_TEST(a_program_that_a_thread_with_traps_executes_lives)
{
    need_engine(CP_ENGINE_TRAP);
    CHECK_EQ(killed(CP_ENGINE_TRAP), 0);
}

CP_TEST(a_program_that_a_thread_with_signals_executes_lives)
{
    need_engine(CP_ENGINE_SIGNAL);
    CHECK_EQ(killed(CP_ENGINE_SIGNAL), 0);
}

/* Between the two calls, nothing samples or kicks the thread, whatever starts and stops meanwhile. */
static void check_failed_exec(enum cp_engine engine)
{
    struct cp_slot_request more = request("taskClock", 2 * PERIOD);
    struct profile profile = {.n = 0}, other = {.n = 0};
    uint64_t before;

    need_engine(engine);
    more.config.engine = engine;
    start_sampling(&profile, engine);
    cp_before_exec();
    cp_before_exec(); /* changes nothing */
    before = sampled(profile.slots[0]);
    start_profile(&other, &more, 1);
    burn_a(20 * MS);
    CHECK_EQ(sampled(other.slots[0]), 0);
    CHECK_EQ(sampled(profile.slots[0]), before);
    stop_profile(&other);
    cp_after_exec();
    expect_samples(profile.slots[0]);
    errno = 0;
    CHECK_EQ(cp_execve("/there/is/no/such/program", program, environment), -1);
    CHECK_EQ(errno, ENOENT);
    expect_samples(profile.slots[0]);
    stop_profile(&profile);
    cp_after_exec(); /* changes nothing */
}

CP_TEST(a_thread_whose_exec_fails_is_sampled_again_by_traps)
{
    check_failed_exec(CP_ENGINE_TRAP);
}

CP_TEST(a_thread_whose_exec_fails_is_sampled_again_by_signals)
{
    check_failed_exec(CP_ENGINE_SIGNAL);
}

/* The parent's thread is not the child's: the parent's events stay as they are. */
CP_TEST(a_vfork_child_disarms_nothing)
{
    struct profile profile = {.n = 0};
    int status = 0;
    pid_t child;

    need_engine(CP_ENGINE_SIGNAL);
    start_sampling(&profile, CP_ENGINE_SIGNAL);
    child = vfork();
    if (child == 0) {
        cp_execve("/bin/true", program, environment);
        _exit(99);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    expect_samples(profile.slots[0]);
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
}
