/* The checks, the test commands and tests/run. This program runs itself again, with samples among which some
 * fail. */
#include "sched.h"
#include "tests/support/burn.h"
#include "tests/support/inside.h"
#include "tests/support/test.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Samples --------------------------------------------------------------------------------- */

static void sample_passes(struct cp_t *t)
{
    (void)t;
    puts("told by sample_passes");
    CHECK(1 + 1 == 2);
    CHECK_EQ(-1, -1);
    CHECK_STR("a", "a");
    CHECK_CONTAINS("abc", "bc");
    CHECKF(true, "not shown");
}

static void sample_check(struct cp_t *t)
{
    (void)t;
    CHECK(1 + 1 == 3);
}

static void sample_check_eq(struct cp_t *t)
{
    (void)t;
    CHECK_EQ(2 + 2, 5);
}

static void sample_check_str(struct cp_t *t)
{
    (void)t;
    CHECK_STR("one", NULL);
}

static void sample_check_contains(struct cp_t *t)
{
    (void)t;
    CHECK_CONTAINS("haystack", "needle");
}

static void sample_checkf(struct cp_t *t)
{
    (void)t;
    CHECKF(1 > 2, "%d apples", 7);
}

static void *fail(void *unused)
{
    (void)unused;
    CHECK(!"on a thread");
    return NULL;
}

static void sample_thread(struct cp_t *t)
{
    (void)t;
    pthread_t thread;
    pthread_create(&thread, NULL, fail, NULL);
    pthread_join(thread, NULL);
}

static void sample_crash(struct cp_t *t)
{
    (void)t;
    printf("directory %s\n", test_dir());
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would exit instead */
    raise(SIGSEGV);
}

/* Memory that a test holds when it ends itself is not a leak. */
static void sample_skip(struct cp_t *t)
{
    (void)t;
    void *volatile lost = malloc(100);
    lost = NULL;
    (void)lost;
    puts("told by sample_skip");
    SKIP("no %s here", "unicorn");
}

static void sample_await(struct cp_t *t)
{
    int never = 0;

    (void)t;
    enough_s = 0.2;
    await(&never, 1);
}

static void sample_child_hangs(struct cp_t *t)
{
    pid_t child = fork();

    (void)t;
    enough_s = 0.2;
    if (child == 0)
        sleep_ms(60000);
    await_child(child);
}

static void *sleep_on(void *arg)
{
    sleep_ms(60000);
    return arg;
}

static void sample_thread_stays(struct cp_t *t)
{
    pthread_t thread;

    (void)t;
    enough_s = 0.2;
    CHECK_EQ(pthread_create(&thread, NULL, sleep_on, NULL), 0);
    join_soon(thread);
}

static void sample_leak(struct cp_t *t)
{
    (void)t;
    void *volatile lost = malloc(100);
    lost = NULL;
    (void)lost;
}

static void fail_on_g(void *unused)
{
    (void)unused;
    CHECK(!"on a G");
}

static void sample_g(struct cp_t *t)
{
    (void)t;
    const struct cp_sched_options options = {.size = sizeof(options), .threads = 2};
    cp_sched_run(&options, fail_on_g, NULL, NULL);
}

/* A check that fails in a child ends only the child, and does not remove the test's files. */
static void sample_fork(struct cp_t *t)
{
    (void)t;
    int status;
    const char *dir = test_dir();
    pid_t child = fork();
    CHECK(child != 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(access(dir, F_OK), 0);
    CHECKF(WEXITSTATUS(status) == 0, "the child's status: %d", WEXITSTATUS(status));
}

static void sample_dir(struct cp_t *t)
{
    (void)t;
    struct stat st;
    char path[200];
    snprintf(path, sizeof(path), "%s/sub/file", test_dir());
    free(test_command(NULL, "mkdir %s/sub && echo > %s", test_dir(), path));
    CHECK(stat(path, &st) == 0);
    printf("directory %s\n", test_dir());
}

/* Fails for as long as a file is not there. Makes the file, whose path is in the environment. */
static void sample_first_time(struct cp_t *t)
{
    (void)t;
    const char *path = getenv("HARNESS_FILE");
    CHECK(path);
    bool is_first = access(path, F_OK) < 0;
    FILE *file = fopen(path, "we");
    CHECK(file);
    fclose(file);
    CHECK(!is_first);
}

static void start_clock(const char *event, uint64_t period)
{
    struct cp_slot_request wanted = request(event, period);
    int slot;
    CHECK_EQ(cp_slots_start(&wanted, 1, &slot, NULL), 0);
    printf("started %s\n", event);
}

static void sample_fast_clock(struct cp_t *t)
{
    (void)t;
    start_clock("taskClock", 99000);
}

static void sample_fast_clocks(struct cp_t *t)
{
    (void)t;
    start_clock("taskClock", 150000);
    start_clock("cpuClock", 250000);
}

/* What a sample costs is set to more than it does. */
static void sample_dear_clock(struct cp_t *t)
{
    (void)t;
    set_sample_cost(600000);
    start_clock("taskClock", 1000000);
}

static void sample_low_cost(struct cp_t *t)
{
    (void)t;
    set_sample_cost(99999);
}

static struct cp_test_case samples[] = {
    {.name = "sample_passes", .run = sample_passes},
    {.name = "sample_check", .run = sample_check},
    {.name = "sample_check_eq", .run = sample_check_eq},
    {.name = "sample_check_str", .run = sample_check_str},
    {.name = "sample_check_contains", .run = sample_check_contains},
    {.name = "sample_checkf", .run = sample_checkf},
    {.name = "sample_thread", .run = sample_thread},
    {.name = "sample_g", .run = sample_g},
    {.name = "sample_fork", .run = sample_fork},
    {.name = "sample_crash", .run = sample_crash},
    {.name = "sample_leak", .run = sample_leak},
    {.name = "sample_skip", .run = sample_skip},
    {.name = "sample_await", .run = sample_await},
    {.name = "sample_child_hangs", .run = sample_child_hangs},
    {.name = "sample_thread_stays", .run = sample_thread_stays},
    {.name = "sample_dir", .run = sample_dir},
    {.name = "sample_first_time", .run = sample_first_time},
    {.name = "sample_fast_clock", .run = sample_fast_clock},
    {.name = "sample_fast_clocks", .run = sample_fast_clocks},
    {.name = "sample_dear_clock", .run = sample_dear_clock},
    {.name = "sample_low_cost", .run = sample_low_cost},
};

__attribute__((constructor)) static void add_samples(void)
{
    for (size_t i = 0; getenv("HARNESS_SAMPLES") && i < sizeof(samples) / sizeof(samples[0]); i++)
        cp_test_add(&samples[i]);
}

/* Runs this program with its samples. Returns the output and sets the exit status. */
static char *run_samples(int *status, const char *arguments)
{
    return test_command(status, "HARNESS_SAMPLES=1 %s/tests/harness_test %s", test_build_dir(), arguments);
}

/* Runs one sample, which must fail with these words. */
static void expect_failure(const char *sample, const char *words)
{
    int status;
    char arguments[200];
    snprintf(arguments, sizeof(arguments), "-run '^Test_%s$'", sample);
    char *output = run_samples(&status, arguments);
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "--- FAIL: Test_sample_");
    CHECK_CONTAINS(output, words);
    free(output);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

CP_TEST(failed_checks_say_where_and_why)
{
    expect_failure("sample_check", "    harness_test.c:");
    expect_failure("sample_check", ": 1 + 1 == 3\n");
    expect_failure("sample_check_eq", "2 + 2 == 5: 4 and 5\n");
    expect_failure("sample_check_str", ": \"one\" and \"(null)\"\n");
    expect_failure("sample_check_contains", "no \"needle\" in:\n        haystack\n");
    expect_failure("sample_checkf", ": 1 > 2: 7 apples\n");
}

CP_TEST(checks_may_be_made_anywhere)
{
    expect_failure("sample_thread", "\"on a thread\"");
    expect_failure("sample_g", "\"on a G\"");
    expect_failure("sample_fork", ": child != 0\n");
    expect_failure("sample_fork", ": the child's status: 1\n");
}

/* What leaves its thread no time cannot be ended by anybody. The first of two clocks may start. */
CP_TEST(clocks_that_leave_a_thread_no_time_fail)
{
    uint64_t cost = cp_sample_cost_ns(NULL);
    test_need_events();
    if (cost == 0 || cost > 40000)
        SKIP("the library itself may refuse such clocks here: a sample costs %llu ns",
             (unsigned long long)cost);
    expect_failure("sample_fast_clock",
                   "Clocks that take 10101 samples a second would leave a thread no time; tests "
                   "take at most 10000, and at most half of the time");
    expect_failure("sample_fast_clocks", "started taskClock\n");
    expect_failure("sample_fast_clocks", "Clocks that take 10667 samples a second");
    expect_failure("sample_dear_clock", "Clocks that take 1000 samples a second");
}

/* With a lower cost than the real one, the library would take periods that leave a thread no time. */
CP_TEST(a_cost_below_the_real_one_fails)
{
    expect_failure("sample_low_cost", "was set to 99999 ns, which is less than the assumed 100000 ns");
}

/* The limits of time are 0.2 s there. Without them, each sample would take seconds. */
CP_TEST(what_is_waited_for_in_vain_is_told_in_time)
{
    double start = real_s();
    int status;
    char *output = run_samples(&status, "-run 'sample_await|sample_child_hangs|sample_thread_stays'");

    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "0, and 1 is waited for\n");
    CHECK_CONTAINS(output, " has not ended in 0.2 s\n");
    CHECK_CONTAINS(output, "a thread has been told to end, and has not ended in 0.2 s: ");
    CHECK_CONTAINS(output, " (harness_test): state S, has run for ");
    CHECK_CONTAINS(output, " ms and waited for a CPU for ");
    CHECKF(real_s() - start < 6, "%.1f s", real_s() - start);
    free(output);
}

CP_TEST(a_leak_fails)
{
    if (!TEST_ASAN)
        SKIP("AddressSanitizer finds leaks; this program is built without it");
    expect_failure("sample_leak", "LeakSanitizer");
}

CP_TEST(passing_checks_pass_and_print_nothing)
{
    int status;
    char *output = run_samples(&status, "-run '^Test_sample_passes$'");
    CHECK_EQ(status, 0);
    CHECK(!strstr(output, "told by"));
    free(output);

    output = run_samples(&status, "-v -run '^Test_sample_passes$'");
    CHECK_CONTAINS(output, "\ntold by sample_passes\n--- PASS: Test_sample_passes (");
    free(output);
}

/* Runs a sample that makes its directory and prints the path. Checks that the directory and the one above it
 * are gone afterwards. */
static void expect_no_directory(int expected_status, const char *arguments)
{
    int status;
    struct stat st;
    char *output = run_samples(&status, arguments);
    CHECKF(status == expected_status, "%s", output);
    char *path = strstr(output, "directory /") + strlen("directory ");
    *strchr(path, '\n') = 0;
    *strrchr(path, '/') = 0;
    CHECKF(stat(path, &st) < 0 && errno == ENOENT, "%s is still there", path);
    free(output);
}

CP_TEST(the_directory_is_removed)
{
    expect_no_directory(0, "-v -run '^Test_sample_dir$'");
    expect_no_directory(0, "-inprocess -run '^Test_sample_dir$'");
    expect_no_directory(1, "-run '^Test_sample_crash$'");
}

CP_TEST(commands_give_status_and_both_outputs)
{
    int status;
    char *output = test_command(&status, "echo %s; echo two >&2; exit 3", "one");
    CHECK_EQ(status, 3);
    CHECK_STR(output, "one\ntwo\n");
    free(output);
    free(test_command(&status, "kill -TERM $$"));
    CHECK_EQ(status, 128 + SIGTERM);
}

/* ---- tests/run ------------------------------------------------------------------------------- */

/* Writes a script as a test program. */
static void write_program(const char *name, const char *script)
{
    char path[200];
    free(test_command(NULL, "mkdir -p %s/tests", test_dir()));
    snprintf(path, sizeof(path), "%s/tests/%s", test_dir(), name);
    FILE *file = fopen(path, "we");
    CHECK(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    CHECK_EQ(fchmod(fileno(file), 0755), 0);
    fclose(file);
}

/* Puts the program with which tests/run runs the others beside them. */
static void link_watch(void)
{
    free(test_command(NULL, "mkdir -p %s/tests && ln -sf %s/tests/watch %s/tests", test_dir(),
                      test_build_dir(), test_dir()));
}

/* Runs tests/run with the programs that the test wrote, or with this program and its samples. */
static char *drive(int *status, const char *arguments)
{
    link_watch();
    return test_command(status, "HARNESS_SAMPLES=1 RETRIES=0 tests/run %s %s", test_dir(), arguments);
}

static void expect_of_driver(int expected_status, const char *arguments, const char *words)
{
    int status;
    char *output = drive(&status, arguments);
    CHECKF(status == expected_status, "%s", output);
    CHECK_CONTAINS(output, words);
    free(output);
}

CP_TEST(the_driver_sums_up)
{
    write_program("one_test", "echo 'ok 1 - Test_a # time=0.10s'\n"
                              "echo '# told by b'\n"
                              "echo 'ok 2 - Test_b # SKIP why: so'\n"
                              "echo 1..2");
    write_program("two_test",
                  "echo 'ok 1 - TestA # time=0.10s'\necho 'ok 2 - Test_b # time=0.00s'\necho 1..2");
    expect_of_driver(0, "", "ok    one/a (0.10s)\n");
    expect_of_driver(0, "", "\n\nskip  one/b: why: so\n3 passed, 0 failed, 1 skipped\n");

    write_program(
        "three_test",
        "echo 'not ok 1 - Test_c # time=0.20s'\nprintf '%s\\n' '# panic: C:\\new'\necho 1..1\nexit 1");
    expect_of_driver(1, "", "FAIL  three/c (0.20s)\n      | panic: C:\\new\n");
    expect_of_driver(1, "",
                     "\n\nskip  one/b: why: so\nFAIL  three/c (0.20s)\n      | panic: C:\\new\n3 passed, 1 "
                     "failed, 1 skipped\n");
    expect_of_driver(0, "two", "\n2 passed, 0 failed, 0 skipped\n");
}

/* Each of these two programs ends well only if the other one runs at the same time. */
CP_TEST(the_driver_runs_programs_side_by_side)
{
    static const char *const names[] = {"one", "two"};
    for (int i = 0; i < 2; i++) {
        char name[20], script[400];
        snprintf(name, sizeof(name), "%s_test", names[i]);
        snprintf(script, sizeof(script),
                 "cd %s\ntouch %s\necho 'ok 1 - Test_a # time=0.10s'\n"
                 "for i in $(seq 200); do [ ! -f %s ] || break; sleep 0.1; done\n"
                 "[ -f %s ] && sleep 0.2 && echo 'ok 2 - Test_b # time=0.10s'\necho 1..2",
                 test_dir(), names[i], names[1 - i], names[1 - i]);
        write_program(name, script);
    }
    expect_of_driver(0, "one two",
                     "ok    one/a (0.10s)\nok    one/b (0.10s)\n2 passed, 0 failed, 0 skipped\n");
    expect_of_driver(0, "", "ok    two/a (0.10s)\nok    two/b (0.10s)\n2 passed, 0 failed, 0 skipped\n");
    expect_of_driver(0, "", "\n\n4 passed, 0 failed, 0 skipped\n");
}

CP_TEST(the_driver_reads_what_the_runner_writes)
{
    free(test_command(NULL, "mkdir -p %s/tests && ln -s %s/tests/harness_test %s/tests", test_dir(),
                      test_build_dir(), test_dir()));
    int status;
    char *output = drive(&status, "harness/sample_passes"),
         *line = strstr(output, "ok    harness/sample_passes (");
    CHECKF(line && isdigit((unsigned char)strchr(line, '(')[1]), "no time in:\n%s", output);
    free(output);
    expect_of_driver(0, "harness/sample_passes", "\n1 passed, 0 failed, 0 skipped\n");
    expect_of_driver(0, "harness/sample_skip", "\nskip  harness/sample_skip: no unicorn here\n");
    expect_of_driver(1, "harness/sample_check", ": 1 + 1 == 3\n");
    expect_of_driver(1, "harness/sample_check", "\nFAIL  harness/sample_check (");
    expect_of_driver(1, "harness/sample_crash", "\n      | directory /");
    expect_of_driver(1, "harness/sample_passes harness/sample_check_eq harness/sample_skip",
                     "\n1 passed, 1 failed, 1 skipped\n");
    expect_of_driver(1, "harness/sample_pass", "\nFAIL  harness/sample_pass: there is no such test\n");
}

/* Writes a test program that does FIRST when it runs for the first time, and THEN at any other time. */
static void write_unsteady(const char *first, const char *then)
{
    char script[600];
    snprintf(script, sizeof(script),
             "echo run >> %s/runs\nif [ $(wc -l < %s/runs) -gt 1 ]; then\n%s\nelse\n%s\nfi", test_dir(),
             test_dir(), then, first);
    write_program("changing_test", script);
}

/* Runs the program that write_unsteady() wrote, as often as tests/run does. */
static void expect_of_retries(int expected_runs, int expected_status, const char *retries, const char *words)
{
    int status;
    link_watch();
    free(test_command(NULL, "rm -f %s/runs", test_dir()));
    char *output = test_command(&status, "env -u RETRIES %s tests/run %s", retries, test_dir());
    CHECKF(status == expected_status, "%s", output);
    CHECK_CONTAINS(output, words);
    free(output);
    char *runs = test_command(NULL, "wc -l < %s/runs", test_dir());
    CHECK_EQ(atoi(runs), expected_runs);
    free(runs);
}

#define PASSING "echo 'ok 1 - Test_d # time=0.00s'\necho 'ok 2 - Test_e # time=0.00s'\necho 1..2"
#define FAILING                                                                                              \
    "echo 'not ok 1 - Test_d # time=0.30s'\necho '#     d.c:12: 1 == 2'\n"                                   \
    "echo 'ok 2 - Test_e # time=0.00s'\necho 1..2\nexit 1"

/* What passes then is named right above the closing line, with what it printed when it failed. */
CP_TEST(what_failed_runs_again_and_is_never_silent)
{
    write_unsteady(FAILING, PASSING);
    expect_of_retries(2, 0, "",
                      "\n\nunsteady changing/d (failed, then passed)\n      |     d.c:12: 1 == 2\n"
                      "2 passed, 0 failed, 0 skipped\n");
    write_unsteady("echo 'not ok 1 - Test_d # time=0.30s'\necho '# why'\necho its last words\nexit 9",
                   PASSING);
    expect_of_retries(
        2, 0, "",
        "\n\nunsteady changing (failed, then passed)\n      | FAIL  changing/d (0.30s)\n      | why\n"
        "      | FAIL  changing: the program ended with status 9 without an account of its tests\n"
        "      | its last words\n"
        "2 passed, 0 failed, 0 skipped\n");
    expect_of_retries(1, 1, "RETRIES=0", "\n0 passed, 2 failed, 0 skipped\n");
    write_unsteady(FAILING, PASSING);
    expect_of_retries(1, 1, "RETRIES=0", "\n\nFAIL  changing/d (0.30s)\n");
}

/* A test that fails whenever it runs, and one that skips the second time, have not passed. */
CP_TEST(what_is_broken_fails_however_often_it_runs)
{
    write_unsteady(FAILING, FAILING);
    expect_of_retries(4, 1, "",
                      "\n\nFAIL  changing/d (0.30s)\n      |     d.c:12: 1 == 2\n"
                      "1 passed, 1 failed, 0 skipped\n");
    expect_of_retries(2, 1, "RETRIES=1", "\n1 passed, 1 failed, 0 skipped\n");
    write_unsteady("exit 3", "exit 3");
    expect_of_retries(4, 1, "", "\n0 passed, 1 failed, 0 skipped\n");
    write_unsteady("echo 'not ok 1 - Test_d'\necho 1..1\nexit 1",
                   "echo 'ok 1 - Test_d # SKIP so'\necho 1..1");
    expect_of_retries(4, 1, "", "\n0 passed, 1 failed, 0 skipped\n");
}

/* So many failures are no chance, and trying each again would take long. */
CP_TEST(what_fails_all_over_has_no_second_try)
{
    write_unsteady(
        "for i in $(seq 11); do echo \"not ok $i - Test_a$i # time=0.00s\"; done\necho 1..11\nexit 1",
        PASSING);
    expect_of_retries(1, 1, "", "\n0 passed, 11 failed, 0 skipped\n");
}

CP_TEST(the_runners_tests_run_again_one_by_one)
{
    int status;
    link_watch();
    free(test_command(NULL, "ln -s %s/tests/harness_test %s/tests", test_build_dir(), test_dir()));
    char *output = test_command(
        &status,
        "env -u RETRIES HARNESS_SAMPLES=1 HARNESS_FILE=%s/file tests/run %s harness/sample_passes "
        "harness/sample_first_time harness/sample_check",
        test_dir(), test_dir());
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output,
                   "\nunsteady harness/sample_first_time (failed, then passed)\n      |     harness_test.c:");
    CHECK_CONTAINS(output, "\n\nFAIL  harness/sample_check (");
    CHECK_CONTAINS(output, "\n2 passed, 1 failed, 0 skipped\n");
    free(output);
}

CP_TEST(the_driver_fails_where_a_program_dies_or_nothing_runs)
{
    int status;
    char *output = drive(&status, "");
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "0 passed, 0 failed, 0 skipped\n");
    free(output);

    write_program("dead_test", "echo 'ok 1 - Test_a'\necho its last words");
    expect_of_driver(1, "",
                     "FAIL  dead: the program ended with status 0 without an account of its tests\n"
                     "      | its last words\n");
    expect_of_driver(1, "", "\n1 passed, 1 failed, 0 skipped\n");
    write_program("dead_test", "echo 'ok 1 - Test_a'\necho 1..2");
    expect_of_driver(1, "", "\n1 passed, 1 failed, 0 skipped\n");
    write_program("dead_test", "echo 'ok 1 - Test_a'\necho 1..1\nexit 1");
    expect_of_driver(1, "", "FAIL  dead: the program ended with status 1 without");
    write_program("dead_test", "echo 'not ok 1 - Test_a'\necho '# panic: '\necho 1..1");
    expect_of_driver(1, "", "\n0 passed, 2 failed, 0 skipped\n");
}
