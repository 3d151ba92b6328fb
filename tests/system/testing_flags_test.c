/* The profile's flags with other test frameworks, and the single profile that the samples of many processes
 * end in. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/session_tools.h"

/* The runner has a thread of its profile while it forks. */
static void need_forks_beside_threads(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer lets a process that was forked from one with threads start none");
    if (TEST_ASAN)
        SKIP("AddressSanitizer's allocator may be locked for ever in a process forked from one with threads");
}

/* Runs one of the examples in the test's directory, with a TMPDIR in that directory. */
static char *run_with(int *status, const char *framework, const char *arguments)
{
    return test_command(status, "mkdir -p %s/tmp && cd %s && TMPDIR=$PWD/tmp %s/examples/with_%s %s",
                        test_dir(), test_dir(), test_build_dir(), framework, arguments);
}

static void check_nothing_left(void)
{
    char *left = test_command(NULL, "ls %s/tmp", test_dir());

    CHECK_STR(left, "");
    free(left);
}

static void need_framework(const char *framework)
{
    char path[512];

    snprintf(path, sizeof path, "%s/examples/with_%s", test_build_dir(), framework);
    if (access(path, X_OK) < 0)
        SKIP("with_%s is not built in this configuration", framework);
}

/* ---- Frameworks ------------------------------------------------------------------------------ */

static const struct framework {
    const char *name;
    const char *needed[3]; /* the profile must have these functions */
    const char *says;      /* the output of a run in which all tests pass */
} frameworks[] = {
    {"cmocka", {"collatz_steps", "longest_below_a_million"}, "2 test(s) run"},
    {"check", {"count_divisors", "sum_of_squares"}, "100%: Checks: 2, Failures: 0, Errors: 0"},
    {"criterion", {"power_mod", "fibonacci_mod"}, "Tested: 2 | Passing: 2"},
};

/* The runner's work before and after a test. No test's samples may have these functions. */
static const char *const forbidden[] = {"cp_merge_add", "cp__parts_merge", "cp__profile_encode"};

static void check_framework(const struct framework *f)
{
    char *said, *top;

    need_framework(f->name);
    if (strcmp(f->name, "check") == 0)
        need_forks_beside_threads();
    said = run_with(NULL, f->name,
                    "-cpuprofile=x.pb.gz -cpuprofileevent=taskClock -cpuprofileperiod=1000000 2>&1");
    CHECK_CONTAINS(said, f->says);
    free(said);
    top = pprof("-top -nodefraction=0", "x.pb.gz");
    CHECK_CONTAINS(top, "Type: cpu");
    /* ThreadSanitizer delivers signals late */
    for (size_t i = 0; i < 3 && f->needed[i] != NULL && !TEST_TSAN; i++)
        CHECK_CONTAINS(top, f->needed[i]);
    for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++)
        CHECKF(strstr(top, forbidden[i]) == NULL, "%s in %s", forbidden[i], top);
    free(top);
    top = pprof("-raw", "x.pb.gz");
    CHECK_CONTAINS(top, "Period: 1000000\n");
    free(top);
    check_nothing_left();
}

CP_TEST(cmocka_is_profiled)
{
    check_framework(&frameworks[0]);
}

CP_TEST(check_is_profiled)
{
    check_framework(&frameworks[1]);
}

CP_TEST(criterion_is_profiled)
{
    check_framework(&frameworks[2]);
}

CP_TEST(check_without_processes_is_profiled_once)
{
    char *text;

    need_framework("check");
    free(test_command(
        NULL, "cd %s && CK_FORK=no %s/examples/with_check -cpuprofile x.pb.gz -cpuprofileevent cpuClock",
        test_dir(), test_build_dir()));
    text = pprof("-top", "x.pb.gz");
    CHECK(TEST_TSAN || strstr(text, "count_divisors") != NULL);
    CHECK(TEST_TSAN || strstr(text, "sum_of_squares") != NULL);
    free(text);
    text = pprof("-comments", "x.pb.gz");
    CHECK_CONTAINS(text, "coverage: ");
    CHECK(strstr(strstr(text, "coverage: ") + 1, "coverage: ") == NULL);
    free(text);
}

CP_TEST(the_engine_can_be_named)
{
    char *text;

    need_framework("cmocka");
    free(run_with(NULL, "cmocka",
                  "-cpuprofile x.pb.gz -cpuprofileevent taskClock -cpuprofileengine signal 2>&1"));
    text = pprof("-comments", "x.pb.gz");
    CHECK_CONTAINS(text, "engine: signal # ");
    CHECK_CONTAINS(text, "engine_reason: it was asked for # ");
    free(text);
}

CP_TEST(without_an_event_it_is_the_timer)
{
    char *text;

    need_framework("cmocka");
    free(run_with(NULL, "cmocka", "-cpuprofile x.pb.gz -cpuprofileperiod 77"));
    text = pprof("-raw", "x.pb.gz");
    CHECK_CONTAINS(text, "PeriodType: cpu nanoseconds\nPeriod: 10000000\n");
    free(text);
    text = pprof("-comments", "x.pb.gz");
    CHECK_CONTAINS(text, "engine: timer");
    free(text);
}

CP_TEST(the_frameworks_own_flags_are_theirs)
{
    char *text;

    need_framework("criterion");
    text = run_with(NULL, "criterion",
                    "--filter numbers/powers -cpuprofile x.pb.gz --verbose=1 -cpuprofileevent cpuClock 2>&1");
    CHECK_CONTAINS(text, "Tested: 1 | Passing: 1");
    free(text);
    text = pprof("-top", "x.pb.gz");
    CHECK(TEST_TSAN || strstr(text, "power_mod") != NULL);
    CHECK(strstr(text, "fibonacci_mod") == NULL);
    free(text);
    text = run_with(NULL, "criterion", "--no-such-flag 2>&1");
    CHECK_CONTAINS(text, "no-such-flag");
    free(text);
    check_nothing_left();
}

CP_TEST(several_events_give_a_file_each)
{
    static const char *const files[] = {"x.taskClock.pb.gz", "x.cpuClock.pb.gz", "x.timer.pb.gz"};

    need_framework("check");
    need_forks_beside_threads();
    free(run_with(NULL, "check", "-cpuprofile x.pb.gz -cpuprofileevent taskClock,cpuClock,timer"));
    for (size_t i = 0; i < 3; i++) {
        char *top = pprof("-top", files[i]);

        CHECK_CONTAINS(top, "count_divisors");
        CHECK_CONTAINS(top, "sum_of_squares");
        free(top);
    }
    check_nothing_left();
}

/* The tests run in processes of their own, which get the periods, too. */
CP_TEST(each_event_has_its_own_period)
{
    static const struct {
        const char *file, *period;
        bool is_time;
    } files[] = {{"x.taskClock.pb.gz", "cpu nanoseconds\nPeriod: 2000000\n", true},
                 {"x.pageFaults:u.pb.gz", "pageFaults:u count\nPeriod: 3\n", false},
                 {"x.timer.pb.gz", "cpu nanoseconds\nPeriod: 5000000\n", true},
                 {"x.cpuClock.pb.gz", "cpu nanoseconds\nPeriod: 3000000\n", true}};

    need_framework("check");
    need_forks_beside_threads();
    test_need_events();
    free(run_with(NULL, "check",
                  "-cpuprofile x.pb.gz -cpuprofileevent taskClock:2ms,pageFaults:u:3,timer:5000000,cpuClock "
                  "-cpuprofileperiod 3000000"));
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *raw = pprof("-raw", files[i].file);

        CHECK_CONTAINS(raw, files[i].period);
        CHECK(!files[i].is_time || strstr(raw, "count_divisors") != NULL);
        free(raw);
    }
    check_nothing_left();
}

/* The tests run in processes of their own, which are too many to say it each. */
CP_TEST(an_empty_profile_says_so_once)
{
    static const char sentence[] = "/x.pageFaults.pb.gz: The profile of pageFaults is empty: ";
    char *text;

    need_framework("check");
    need_forks_beside_threads();
    test_need_events();
    text = run_with(NULL, "check",
                    "-cpuprofile x.pb.gz -cpuprofileevent cpuClock,pageFaults:100000000 2>&1 > /dev/null");
    CHECK_CONTAINS(text, sentence);
    CHECK_CONTAINS(text, "less than the period of 100000000 on each; take a period of at most ");
    CHECK(strstr(strstr(text, sentence) + strlen(sentence), "is empty") == NULL);
    free(text);
    text = pprof("-comments", "x.pageFaults.pb.gz");
    CHECK_CONTAINS(text, "\nempty: ");
    CHECK_CONTAINS(text, "\nlimits: empty # ");
    CHECK(strstr(strstr(text, "\nempty: ") + 1, "\nempty: ") == NULL);
    free(text);
    text = pprof("-comments", "x.cpuClock.pb.gz");
    CHECK(strstr(text, "empty") == NULL);
    free(text);
    check_nothing_left();
}

/* ---- Flags ----------------------------------------------------------------------------------- */

CP_TEST(bad_flags_end_in_a_sentence)
{
    static const struct {
        const char *arguments, *says;
        bool is_usage;
    } bad[] = {
        {"-cpuprofile", "-cpuprofile needs a value.", true},
        {"-cpuprofile -- x", "-cpuprofile needs a value.", true},
        {"-cpuprofile=", "must name the file", true},
        {"-cpuprofile ''", "must name the file", true},
        {"-cpuprofile x -cpuprofileevent", "-cpuprofileevent needs a value.", true},
        {"-cpuprofile x -cpuprofileevent bogus", "\"bogus\"", true},
        {"-cpuprofile x -cpuprofileevent=", "The event has no name.", true},
        {"-cpuprofile x -cpuprofileevent timer,", "event", true},
        {"-cpuprofile x -cpuprofileperiod 0", "must be a number of at least 1, and \"0\" is not", true},
        {"-cpuprofile x -cpuprofileperiod -1", "\"-1\" is not", true},
        {"-cpuprofile x -cpuprofileperiod 1e9", "\"1e9\" is not", true},
        {"-cpuprofile x -cpuprofileperiod 0x10", "\"0x10\" is not", true},
        {"-cpuprofile x -cpuprofileperiod=", "\"\" is not", true},
        {"-cpuprofile x -cpuprofileperiod ' 1'", "\" 1\" is not", true},
        {"-cpuprofile x -cpuprofileperiod 18446744073709551616", "is not", true},
        {"-cpuprofileevent timer", "-cpuprofile must name the file", true},
        {"--test.cpuprofileperiod 5", "-cpuprofile must name the file", true},
        {"-cpuprofileengine trap", "-cpuprofile must name the file", true},
        {"-cpuprofile x -cpuprofileengine steam", "There is no engine \"steam\"", true},
        {"-cpuprofile /nonexistent/x", "\"/nonexistent/x\" cannot be written: No such file", false},
        {"-cpuprofile tmp", "/tmp\" cannot be written: Is a directory", false},
        {"-cpuprofile x -cpuprofileevent taskClock -cpuprofileperiod 1", "10000 ns", false},
        {"-cpuprofile x -cpuprofileevent taskClock,taskClock", "given twice", false},
        {"-cpuprofile x -cpuprofileevent taskClock:0", "\"taskClock\" cannot have a period of 0", true},
        {"-cpuprofile x -cpuprofileevent timer,taskClock:", "\"taskClock:\" ends in a colon", true},
        {"-cpuprofile x -cpuprofileevent pageFaults:1ms", "a number of events, not a time", true},
        {"-cpuprofile x -cpuprofileevent taskClock:1x", "cannot have \"1x\" after its colon", true},
        {"-cpuprofile x -cpuprofileevent taskClock:1", "10000 ns", false},
        {"-cpuprofile x -cpuprofileevent taskClock,timer,pageFaults -cpuprofileperiod 100000",
         "cannot be both ns for taskClock and a number of events for pageFaults. Give each event its own "
         "period: -cpuprofileevent taskClock:1ms,pageFaults:100.",
         true},
        {"-cpuprofileperiod 5 -cpuprofile x -cpuprofileevent taskClock:1ms,pageFaults:1",
         "each event of \"taskClock:1ms,pageFaults:1\" has one. Leave -cpuprofileperiod out.", true},
        {"-cpuprofile x -cpuprofileevent timer,timer,timer,timer,timer,timer,timer,timer,timer", "1 to 8",
         false},
    };

    need_framework("cmocka");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char arguments[300];
        char *text;
        int status;

        snprintf(arguments, sizeof arguments, "%s 2>&1 > /dev/null", bad[i].arguments);
        text = run_with(&status, "cmocka", arguments);
        CHECKF(status == 2, "%s: status %d, %s", bad[i].arguments, status, text);
        CHECKF(strstr(text, bad[i].says) != NULL, "%s: %s", bad[i].arguments, text);
        CHECKF((strstr(text, "usage: ") != NULL) == bad[i].is_usage, "%s: %s", bad[i].arguments, text);
        free(text);
        check_nothing_left();
    }
    free(test_command(NULL, "cd %s && ! ls x*", test_dir()));
}

/* ---- One profile of many processes ----------------------------------------------------------- */

__attribute__((noinline)) static void burn_in_child(void)
{
    burn_here(30000000);
    sink++;
}

/* Starts the profile of this process, with temporary directories below the test's. */
static void start(const char *file)
{
    char path[512];
    char event[] = "-cpuprofileevent=cpuClock", period[] = "-cpuprofileperiod=100000", program[] = "test";
    char *argv[] = {program, event, period, path, NULL};
    int argc = 4;

    need_forks_beside_threads();
    snprintf(path, sizeof path, "%s/tmp", test_dir());
    mkdir(path, 0700);
    setenv("TMPDIR", path, 1);
    snprintf(path, sizeof path, "-cpuprofile=%s/%s", test_dir(), file);
    cp_testing_start(&argc, argv);
    CHECK_EQ(argc, 1);
}

static int in_child(void (*fn)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        cp_testing_child_start();
        fn();
        cp_testing_child_stop();
        fflush(NULL);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

static void die(void)
{
    burn_here(10000000);
    raise(SIGKILL);
}

static void leave(void)
{
    burn_in_child();
    exit(7);
}

/* Sends to a file what is written to stderr from here on. */
static void redirect_stderr(void)
{
    int fd = open(file_in_dir("stderr"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

CP_TEST(children_may_end_in_any_way)
{
    char *text;

    start("x.pb.gz");
    redirect_stderr();
    CHECK_EQ(in_child(burn_in_child), 0);
    CHECK(WIFEXITED(in_child(leave)));
    CHECK(WIFSIGNALED(in_child(die)));
    CHECK_EQ(cp_testing_stop(), 0);
    CHECK_EQ(cp_testing_stop(), 0); /* no profile is left to stop */
    CHECK(getenv("CP_TESTING_PARTS") == NULL);
    check_nothing_left();
    text = test_command(NULL, "cat %s", file_in_dir("stderr"));
    CHECK_CONTAINS(text, "The profile lacks the samples of 1 process,");
    free(text);
    text = pprof("-top", "x.pb.gz");
    CHECK_CONTAINS(text, "burn_in_child");
    CHECK(strstr(text, " die\n") == NULL);
    free(text);
    text = pprof("-traces", "x.pb.gz");
    CHECK_CONTAINS(text, " leave");
    free(text);
}

CP_TEST(without_a_profile_children_do_nothing)
{
    char program[] = "test";
    char *argv[] = {program, NULL};
    int argc = 1;

    /* the environment that a runner gives its test's process */
    setenv("CP_TESTING_PARTS", "0 timer /nonexistent", 1);
    cp_testing_start(&argc, argv);
    CHECK(getenv("CP_TESTING_PARTS") == NULL);
    CHECK_EQ(in_child(burn_in_child), 0);
    CHECK_EQ(cp_testing_stop(), 0);
}

CP_TEST(what_cannot_be_written_is_kept)
{
    char kept[600], *text, *at, *top;

    free(test_command(NULL, "mkdir %s/there", test_dir()));
    start("there/x.pb.gz");
    redirect_stderr();
    CHECK_EQ(in_child(burn_in_child), 0);
    free(test_command(NULL, "rmdir %s/there", test_dir()));
    CHECK_EQ(cp_testing_stop(), 1);
    text = test_command(NULL, "cat %s", file_in_dir("stderr"));
    CHECK_CONTAINS(text, "there/x.pb.gz: The profile's file");
    CHECK_CONTAINS(text, "No such file or directory");
    CHECK_CONTAINS(text, "The parts of the profile are kept in ");
    at = strstr(text, "are kept in ") + strlen("are kept in ");
    snprintf(kept, sizeof kept, "%.*s/merged.0.pb.gz", (int)strcspn(at, "\n") - 1, at);
    top = pprof("-top", kept);
    CHECK_CONTAINS(top, "burn_in_child");
    free(top);
    free(text);
}

/* If one part is damaged, all others are merged. */
CP_TEST(what_cannot_be_read_is_kept)
{
    char *text;

    start("x.pb.gz");
    redirect_stderr();
    CHECK_EQ(in_child(burn_in_child), 0);
    free(test_command(NULL, "for d in %s/tmp/*; do echo no profile > $d/0.1.1.pb.gz; done", test_dir()));
    CHECK_EQ(cp_testing_stop(), 1);
    text = test_command(NULL, "cat %s", file_in_dir("stderr"));
    CHECK_CONTAINS(text, "/0.1.1.pb.gz: A profile to be merged cannot be read");
    CHECK_CONTAINS(text, "are kept in ");
    free(text);
    check_names_burn("x.pb.gz");
}

/* If the test changes its working directory, the profile's file stays where it was. */
CP_TEST(the_file_stays_where_it_was_named)
{
    char program[] = "test", flag[] = "-cpuprofile", file[] = "x.pb.gz";
    char *argv[] = {program, flag, file, NULL};
    int argc = 3;

    CHECK_EQ(chdir(test_dir()), 0);
    cp_testing_start(&argc, argv);
    CHECK_EQ(chdir("/"), 0);
    burn_here(50000000);
    CHECK_EQ(cp_testing_stop(), 0);
    CHECK_EQ(access(file_in_dir("x.pb.gz"), R_OK), 0);
}

static void exit_early(void)
{
    char program[] = "test", flag[512];
    char *argv[] = {program, flag, NULL};
    int argc = 2;

    snprintf(flag, sizeof flag, "-cpuprofile=%s/early.pb.gz", test_dir());
    cp_testing_start(&argc, argv);
    burn_here(200000000);
    exit(3);
}

CP_TEST(a_program_that_exits_loses_nothing)
{
    int status;

    test_dir(); /* makes the directory here, so that the child has the same one */
    pid_t pid = fork();
    if (pid == 0)
        exit_early();
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    if (!TEST_TSAN)
        check_names_burn("early.pb.gz");
}
