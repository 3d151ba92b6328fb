/* Programs that a sampled thread, or a child of its process, executes: the program lives, and stops nothing
 * of its parent's. */
#include <sys/wait.h>

#include "tests/support/burn.h"

#define PERIOD test_period(200000, 1)
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
            static struct profile profile = {.may_be_throttled = true}; /* a few samples are enough */

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

/* The kernel closes the child's copies of the parent's descriptors. */
CP_TEST(a_program_that_a_child_executes_stops_nothing)
{
    struct profile profile = {.n = 0};

    need_engine(CP_ENGINE_AUTO);
    start_sampling(&profile, CP_ENGINE_AUTO);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();

        if (child == 0) {
            execve("/bin/true", program, environment);
            _exit(99);
        }
        await_child(child);
        burn_until_sampled(profile.slots[0], 3);
        burn_until_sampled(profile.slots[1], 1);
    }
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
}
