/* Traps where they are not to be had: on kernels that lack them or lose them, and under a debugger. */
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "tests/support/burn.h"

/* Starts taskClock by an engine, and returns what cp_slots_start() returns. */
static int try_engine(enum cp_engine engine, struct cp_slot_stats *stats, struct cp_error *err)
{
    struct cp_slot_request made = request("taskClock", 1000 * MS);
    int slot, result;

    made.config.engine = engine;
    result = cp_slots_start(&made, 1, &slot, err);
    if (result < 0)
        return result;
    *stats = (struct cp_slot_stats){.size = sizeof *stats};
    CHECK_EQ(cp_slots_stats(slot, stats), 0);
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
    return 0;
}

/* Checks that traps are refused if they are demanded, and that otherwise SIGPROF takes their place. */
static void check_no_traps(const char *why)
{
    struct cp_slot_stats stats;
    struct cp_error err = {0};

    unsetenv("CP_ENGINE");
    CHECK_EQ(try_engine(CP_ENGINE_TRAP, &stats, &err), -EOPNOTSUPP);
    CHECK_STR(err.reason, "no traps");
    CHECK_CONTAINS(err.message, "The event taskClock cannot be sampled by traps: ");
    CHECK_CONTAINS(err.message, why);
    CHECK_EQ(try_engine(CP_ENGINE_AUTO, &stats, &err), 0);
    CHECK_EQ(stats.engine, CP_ENGINE_SIGNAL);
    CHECK_CONTAINS(stats.engine_reason, why);
}

/* Returns why traps are not taken by default; NULL: they are. */
static const char *reason_against_traps(void)
{
    struct cp_slot_stats stats;
    struct cp_error err = {0};

    unsetenv("CP_ENGINE");
    CHECK_EQ(try_engine(CP_ENGINE_AUTO, &stats, &err), 0);
    return stats.engine_reason;
}

/* Skips the test if something else than the test makes speaks against traps. */
static void need_default_traps(void)
{
    const char *reason = reason_against_traps();

    if (reason != NULL)
        SKIP("%s", reason);
}

SIM_TEST(a_kernel_without_traps_is_told)
{
    need_default_traps();
    sim->no_sigtrap = true;
    check_no_traps("the kernel has no events that trap");
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

    need_default_traps();
    for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
        sim->release = kernels[i].release;
        check_no_traps(kernels[i].why);
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
    struct sigaction current;

    need_default_traps();
    start_unread(&profile, &made, 1);
    signal(SIGTRAP, nothing);
    stop_profile(&profile);
    CHECK(profile.stats[0].handler_replaced);
    check_no_traps("another SIGTRAP handler was installed over the library's");
    CHECK_EQ(sigaction(SIGTRAP, NULL, &current), 0);
    CHECK(current.sa_handler == nothing);
}

/* The library's handler is put where there is none, and does there what the kernel would have done. */
SIM_TEST(a_handler_that_was_taken_away_is_installed_again)
{
    void (*const replaced[])(int) = {SIG_DFL, SIG_IGN};
    struct cp_slot_request made = request("taskClock", 1000 * MS);

    need_default_traps();
    for (size_t i = 0; i < ARRAY_SIZE(replaced); i++) {
        struct profile profile = {.n = 0};
        struct sigaction current;
        enum cp_engine engine;
        const char *why;
        int status = 0;
        pid_t child;

        signal(SIGTRAP, replaced[i]);
        CHECK(cp_engine_choose(&engine, &why, NULL) == 0 && engine == CP_ENGINE_TRAP);
        start_unread(&profile, &made, 1);
        CHECK_EQ(sigaction(SIGTRAP, NULL, &current), 0);
        CHECK(current.sa_handler != replaced[i]);
        fflush(stdout);
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK_STR(reason_against_traps(), NULL); /* a child has given SIGTRAP back */
            raise(SIGTRAP);
            _exit(0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, replaced[i] == SIG_DFL ? SIGTRAP : 0);
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].engine, CP_ENGINE_TRAP);
        CHECK(!profile.stats[0].handler_replaced);
    }
}

/* Starts another profile. */
static void start_another(struct profile *profile)
{
    struct cp_slot_request made = signal_request("taskClock", 1000 * MS);
    int slot;

    (void)profile;
    CHECK_EQ(cp_slots_start(&made, 1, &slot, NULL), 0);
}

/* Takes the handler of a signal away while a profile is taken by the engine. Returns how a child ends that
 * does so, calls a function then, and has a sample. */
static int end_of_child(enum cp_engine engine, int number, void (*call)(struct profile *profile))
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct cp_slot_request made = request("taskClock", MS);
        struct profile profile = {.n = 0};
        struct worker worker = {.body = NULL};

        attach(&worker);
        made.config.engine = engine;
        start_unread(&profile, &made, 1);
        burn_a(MS);
        signal(number, SIG_DFL);
        call(&profile);
        burn_a(MS);
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].samples, 2);
        CHECK(profile.stats[0].handler_replaced);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void call_nothing(struct profile *profile)
{
    (void)profile;
}

/* Without a handler, the next sample ends the process. */
SIM_TEST(a_handler_that_is_taken_away_comes_back_when_the_library_looks)
{
    need_default_traps();
    CHECK_EQ(end_of_child(CP_ENGINE_SIGNAL, SIGPROF, call_nothing), SIGPROF);
    CHECK_EQ(end_of_child(CP_ENGINE_SIGNAL, SIGPROF, read_profile), 0);
    CHECK_EQ(end_of_child(CP_ENGINE_SIGNAL, SIGPROF, start_another), 0);
    CHECK_EQ(end_of_child(CP_ENGINE_TRAP, SIGTRAP, call_nothing), SIGTRAP);
    CHECK_EQ(end_of_child(CP_ENGINE_TRAP, SIGTRAP, read_profile), 0);
    CHECK_EQ(end_of_child(CP_ENGINE_TRAP, SIGTRAP, start_another), 0);
}

/* ---- Who looks on ---------------------------------------------------------------------------- */

static void check_in_traced_child(void)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(77);
    check_no_traps("a debugger traces the process");
    _exit(0);
}

SIM_TEST(a_debugger_is_noticed)
{
    int status = 0;
    pid_t child;

    need_default_traps();
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

/* Returns whether there is a valgrind that can run this program: valgrind 3.19 gives up at what clang 14
 * writes for debuggers. */
static bool has_valgrind(void)
{
    char command[PATH_MAX + 100];

    snprintf(command, sizeof command, "valgrind -q %s/tests/engine_stub_test -list none > /dev/null 2>&1",
             test_build_dir());
    return system(command) == 0;
}

/* Valgrind would abort at the first trap. This test runs itself under valgrind. */
CP_TEST(valgrind_is_noticed)
{
    if (getenv("IS_UNDER_VALGRIND") != NULL) {
        check_no_traps("valgrind runs the program");
        return;
    }
    if (TEST_ASAN || TEST_TSAN)
        SKIP("valgrind cannot run a sanitizer");
    if (!has_valgrind())
        SKIP("there is no valgrind that can run this program");
    need_default_traps();
    free(test_command(NULL,
                      "IS_UNDER_VALGRIND=1 valgrind -q %s/tests/engine_stub_test -inprocess -run "
                      "valgrind_is_noticed",
                      test_build_dir()));
}
