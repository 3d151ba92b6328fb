/* The harness itself: this program runs itself again, with samples in it that fail in every way. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Samples --------------------------------------------------------------------------------- */

static void sample_passes(void)
{
    puts("told by sample_passes");
    CHECK(1 + 1 == 2);
    CHECK_EQ(-1, -1);
    CHECK_STR("a", "a");
    CHECK_CONTAINS("abc", "bc");
    CHECKF(true, "not shown");
}

static void sample_check(void)
{
    CHECK(1 + 1 == 3);
}

static void sample_check_eq(void)
{
    CHECK_EQ(2 + 2, 5);
}

static void sample_check_str(void)
{
    CHECK_STR("one", NULL);
}

static void sample_check_contains(void)
{
    CHECK_CONTAINS("haystack", "needle");
}

static void sample_checkf(void)
{
    CHECKF(1 > 2, "%d apples", 7);
}

static void *fail(void *unused)
{
    (void)unused;
    CHECK(!"on a thread");
    return NULL;
}

static void sample_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, fail, NULL);
    pthread_join(thread, NULL);
}

static void sample_crash(void)
{
    printf("directory %s\n", test_dir());
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would turn it into an exit status */
    raise(SIGSEGV);
}

/* The child must not outlive the test; its number is left in $HARNESS_FILE. */
static void sample_hang(void)
{
    FILE *file = fopen(getenv("HARNESS_FILE"), "w");
    pid_t child = fork();
    if (child > 0) {
        fprintf(file, "%d", (int)child);
        fclose(file);
    }
    for (;;)
        pause();
}

static void sample_skip(void)
{
    puts("told by sample_skip");
    SKIP("no %s here", "unicorn");
}

static void sample_dir(void)
{
    struct stat st;
    char path[200];
    snprintf(path, sizeof(path), "%s/sub/file", test_dir());
    free(test_command(NULL, "mkdir %s/sub && echo > %s", test_dir(), path));
    CHECK(stat(path, &st) == 0);
    printf("directory %s\n", test_dir());
}

static void sample_pid(void)
{
    printf("pid %d\n", (int)getpid());
}

static struct test_case samples[] = {
    {.name = "sample_passes", .limit_s = 30, .run = sample_passes},
    {.name = "sample_check", .limit_s = 30, .run = sample_check},
    {.name = "sample_check_eq", .limit_s = 30, .run = sample_check_eq},
    {.name = "sample_check_str", .limit_s = 30, .run = sample_check_str},
    {.name = "sample_check_contains", .limit_s = 30, .run = sample_check_contains},
    {.name = "sample_checkf", .limit_s = 30, .run = sample_checkf},
    {.name = "sample_thread", .limit_s = 30, .run = sample_thread},
    {.name = "sample_crash", .limit_s = 30, .run = sample_crash},
    {.name = "sample_hang", .limit_s = 1, .run = sample_hang},
    {.name = "sample_skip", .limit_s = 30, .run = sample_skip},
    {.name = "sample_dir", .limit_s = 30, .run = sample_dir},
    {.name = "sample_pid", .limit_s = 30, .run = sample_pid},
};

__attribute__((constructor)) static void add_samples(void)
{
    for (size_t i = 0; getenv("HARNESS_SAMPLES") && i < sizeof(samples) / sizeof(samples[0]); i++)
        test_add(&samples[i]);
}

/* Runs this program with its samples; what it printed, and its exit status. */
static char *run_samples(int *status, const char *arguments)
{
    return test_command(status, "HARNESS_SAMPLES=1 %s/tests/harness_test %s", test_build_dir(), arguments);
}

/* Runs one sample, which must fail and say so in these words. */
static void expect_failure(const char *sample, const char *words)
{
    int status;
    char *output = run_samples(&status, sample);
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "FAIL  harness/");
    CHECK_CONTAINS(output, words);
    CHECK_CONTAINS(output, "0 passed, 1 failed, 0 skipped\n");
    free(output);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

CP_TEST(failed_checks_say_where_and_why)
{
    expect_failure("sample_check", "      | tests/harness_test.c:");
    expect_failure("sample_check", ": 1 + 1 == 3\n");
    expect_failure("sample_check_eq", "2 + 2 == 5: 4 and 5\n");
    expect_failure("sample_check_str", ": \"one\" and \"(null)\"\n");
    expect_failure("sample_check_contains", "no \"needle\" in:\n      | haystack\n");
    expect_failure("sample_checkf", ": 1 > 2: 7 apples\n");
    expect_failure("sample_thread", "\"on a thread\"");
}

CP_TEST(passing_checks_pass_and_print_nothing)
{
    int status;
    char *output = run_samples(&status, "sample_passes");
    CHECK_EQ(status, 0);
    CHECK_CONTAINS(output, "ok    harness/sample_passes (");
    CHECK_CONTAINS(output, "\n1 passed, 0 failed, 0 skipped\n");
    CHECK(!strstr(output, "told by"));
    free(output);

    output = run_samples(&status, "-v sample_passes");
    CHECK_CONTAINS(output, "      | told by sample_passes\n");
    free(output);
}

CP_TEST(a_crash_names_its_signal_and_shows_the_output)
{
    expect_failure("sample_crash", "killed by signal 11 (Segmentation fault)\n      | directory /tmp/");
}

CP_TEST(a_time_out_ends_the_whole_process_group)
{
    char file[200], words[100];
    snprintf(file, sizeof(file), "%s/pid", test_dir());
    setenv("HARNESS_FILE", file, 1);
    snprintf(words, sizeof(words), "no end after %d s\n", TEST_SLOWDOWN);
    expect_failure("sample_hang", words);

    char *pid = test_command(NULL, "cat %s", file);
    CHECK(atoi(pid) > 0);
    for (int ms = 0; kill(atoi(pid), 0) == 0 && ms < 5000; ms++)
        usleep(1000);
    int status;
    free(test_command(&status, "grep -v '^State:.*zombie' /proc/%s/status | grep State:", pid));
    CHECKF(status != 0, "process %s outlived the test that started it", pid);
    free(pid);
}

CP_TEST(a_skip_gives_its_reason)
{
    int status;
    char *output = run_samples(&status, "sample_skip");
    CHECK_EQ(status, 0);
    CHECK_CONTAINS(output, "skip  harness/sample_skip: no unicorn here\n");
    CHECK_CONTAINS(output, "0 passed, 0 failed, 1 skipped\n");
    free(output);
}

CP_TEST(outcomes_are_counted)
{
    int status;
    char *output = run_samples(&status, "sample_passes sample_check sample_skip sample_pid");
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "\n2 passed, 1 failed, 1 skipped\n");
    free(output);
}

CP_TEST(in_process_means_in_this_process)
{
    int status;
    char *build = strdup(test_build_dir());
    char *output = test_command(
        &status, "export HARNESS_SAMPLES=1; echo pid $$; exec %s/tests/harness_test -i sample_pid", build);
    CHECK_EQ(status, 0);
    char *second = strchr(output, '\n') + 1;
    CHECKF(strncmp(output, second, (size_t)(second - output)) == 0, "%s", output);
    free(output);
    free(build);

    free(run_samples(&status, "-i sample_check"));
    CHECK_EQ(status, 128 + SIGABRT);
    free(run_samples(&status, "-i sample_skip"));
    CHECK_EQ(status, 77);
}

/* Runs a sample that makes its directory and tells where; that must be gone afterwards. */
static void expect_no_directory(int expected_status, const char *arguments)
{
    int status;
    struct stat st;
    char *output = run_samples(&status, arguments);
    CHECKF(status == expected_status, "%s", output);
    char *path = strstr(output, "directory ") + strlen("directory ");
    *strchr(path, '\n') = 0;
    CHECKF(stat(path, &st) < 0 && errno == ENOENT, "%s is still there", path);
    free(output);
}

CP_TEST(the_directory_is_removed)
{
    expect_no_directory(0, "-v sample_dir");
    expect_no_directory(0, "-i sample_dir");
    expect_no_directory(1, "sample_crash");
}

CP_TEST(an_unknown_test_is_an_error)
{
    int status;
    char *output = run_samples(&status, "sample_that_is_not_there");
    CHECK_EQ(status, 2);
    CHECK_CONTAINS(output, "no test \"sample_that_is_not_there\"");
    free(output);
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

/* Writes a test program that prints these lines, for tests/run to run. */
static void write_program(const char *name, const char *lines)
{
    free(test_command(
        NULL, "mkdir -p %s/tests && cd %s/tests && printf '#!/bin/sh\\necho \"%s\"\\n' > %s && chmod +x %s",
        test_dir(), test_dir(), lines, name, name));
}

CP_TEST(the_driver_sums_up)
{
    int status;
    write_program("one_test", "ok    one/a\nskip  one/b: why\n1 passed, 0 failed, 1 skipped");
    write_program("two_test", "2 passed, 0 failed, 0 skipped");
    char *output = test_command(&status, "tests/run %s", test_dir());
    CHECKF(status == 0, "%s", output);
    CHECK_CONTAINS(output, "\n\nskip  one/b: why\n3 passed, 0 failed, 1 skipped\n");
    free(output);

    write_program("three_test", "FAIL  three/c: why\n0 passed, 1 failed, 0 skipped");
    output = test_command(&status, "tests/run %s", test_dir());
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "\nFAIL  three/c: why\n3 passed, 1 failed, 1 skipped\n");
    free(output);

    output = test_command(&status, "tests/run %s two", test_dir());
    CHECKF(status == 0, "%s", output);
    CHECK_CONTAINS(output, "\n2 passed, 0 failed, 0 skipped\n");
    free(output);
}

CP_TEST(the_driver_fails_where_a_program_dies_or_nothing_runs)
{
    int status;
    char *output = test_command(&status, "tests/run %s", test_dir());
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "0 passed, 0 failed, 0 skipped\n");
    free(output);

    write_program("dead_test", "ok    dead/a");
    output = test_command(&status, "tests/run %s", test_dir());
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "FAIL  dead: the program ended without a count");
    CHECK_CONTAINS(output, "\n0 passed, 1 failed, 0 skipped\n");
    free(output);
}
