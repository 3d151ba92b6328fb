/* Traps where they are not to be had: on kernels that lack them or lose them, and under a debugger. */
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "tests/support/burn.h"

/* Starts taskClock by an engine, and returns what cp_slots_start() returns. */
static int try_engine(enum cp_engine engine, struct cp_error *err)
{
    struct cp_slot_request made = request("taskClock", 1000 * MS);
    int slot, result;

    made.config.engine = engine;
    result = cp_slots_start(&made, 1, &slot, err);
    if (result < 0)
        return result;
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
    return 0;
}

static void check_refused(const char *why)
{
    struct cp_error err = {0};

    CHECK_EQ(try_engine(CP_ENGINE_TRAP, &err), -EOPNOTSUPP);
    CHECK_STR(err.reason, "no traps");
    CHECK_CONTAINS(err.message, "The event taskClock cannot be sampled by traps: ");
    CHECK_CONTAINS(err.message, why);
    CHECK_EQ(try_engine(CP_ENGINE_SIGNAL, &err), 0); /* which needs none of it */
}

SIM_TEST(a_kernel_without_traps_is_told)
{
    sim->no_sigtrap = true;
    check_refused("the kernel has no events that trap");
}

SIM_TEST(kernels_that_lose_traps_or_hang_are_told)
{
    static const struct {
        const char *release, *why;
    } kernels[] = {
        {"5.10.0-30-amd64", "Linux before 6.1 loses traps"},
        {"6.0.19", "Linux before 6.1 loses traps"},
        {"6.11.0", "Linux 6.11 to 6.14 may hang"},
        {"6.14.11-arch1-1", "Linux 6.11 to 6.14 may hang"},
        {"next", "the kernel does not tell its version"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
        sim->release = kernels[i].release;
        check_refused(kernels[i].why);
    }
}

static void nothing(int signal)
{
    (void)signal;
}

/* What was put over the library's handler stays, and a profile that it may have cost samples says so. */
SIM_TEST(a_handler_that_replaces_the_librarys_is_told)
{
    struct cp_slot_request made = request("taskClock", 1000 * MS);
    struct profile profile = {.n = 0};
    struct cp_error err = {0};
    struct sigaction current;

    made.config.engine = CP_ENGINE_TRAP;
    CHECK_EQ(try_engine(CP_ENGINE_TRAP, &err), 0);
    start_unread(&profile, &made, 1);
    signal(SIGTRAP, nothing);
    stop_profile(&profile);
    CHECK(profile.stats[0].handler_replaced);
    check_refused("another SIGTRAP handler was installed over the library's");
    CHECK_EQ(sigaction(SIGTRAP, NULL, &current), 0);
    CHECK(current.sa_handler == nothing);
}

static void check_in_traced_child(void)
{
    struct cp_error err = {0};

    CHECK_EQ(try_engine(CP_ENGINE_TRAP, &err), 0);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(77);
    check_refused("a debugger traces the process");
    _exit(0);
}

SIM_TEST(a_debugger_is_noticed)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        check_in_traced_child();
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
        ptrace(PTRACE_CONT, child, NULL, WSTOPSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("this process may not be traced");
    CHECKF(status == 0, "%#x", (unsigned)status);
}
