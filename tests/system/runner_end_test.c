/* Tests that crash, hang or exit: what the runner (testing/) reports, and that no process outlives them. */
#include "tests/support/runner_tools.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The place of each line of the sample begins like this in a stack. */
#define SAMPLE "tests/support/runner_sample.c:"

static const char *const runners_frames[] = {"die_from_handler", "stop_from_handler", "tell_exit",
                                             "__restore_rt", NULL};

/* How a test ends: the runner reports this reason, and a stack that has these functions with their lines, one
 * below the other. The stack has none of the runner's own functions, and the next test runs. */
struct bad_end {
    const char *test, *reason;
    const char *functions[4];
};
static void expect_bad_end(const struct bad_end *bad)
{
    int status;
    char flags[200], line[200];
    snprintf(flags, sizeof(flags), "-v -run 'Test_%s$|Test_self'", bad->test);
    char *output = run(&status, flags);
    CHECKF(status == 1, "%s: %d\n%s", bad->test, status, output);
    snprintf(line, sizeof(line), "\npanic: %s\n\n", bad->reason);
    char *p = strstr(output, line);
    CHECKF(p, "no \"%s\" in:\n%s", line, output);
    for (const char *const *function = bad->functions; *function; function++) {
        snprintf(line, sizeof(line), "\n    %s", *function);
        p = strstr(p + 1, line);
        CHECKF(p, "%s: no %s there:\n%s", bad->test, *function, output);
        char *place = strchr(p + 1, '\n') + 1, *file = strstr(place, SAMPLE);
        CHECKF(file && file < strchr(place, '\n') && isdigit((unsigned char)file[strlen(SAMPLE)]),
               "%s has no line:\n%s", *function, output);
    }
    for (const char *const *frame = runners_frames; *frame; frame++)
        CHECKF(!strstr(output, *frame), "%s in:\n%s", *frame, output);
    snprintf(line, sizeof(line), "--- FAIL: Test_%s (", bad->test);
    CHECK_CONTAINS(output, line);
    CHECK_CONTAINS(output, "--- PASS: Test_self (");
    free(output);
}

CP_TEST(a_crash_is_told_with_its_stack)
{
    static const struct bad_end bad[] = {
        {"crash_segv", SEGV, {"sample::writes_to_nowhere()", "Test_crash_segv"}},
        {"crash_abort", "killed by signal 6 (Aborted)", {"calls_abort", "Test_crash_abort"}},
        {"crash_overflow",
         SEGV ": stack overflow",
         /* the stack's innermost and outermost functions */
         {"goes_down", "goes_down", "Test_crash_overflow"}},
        {"crash_sub", SEGV, {"sample::writes_to_nowhere()", "crashing_sub"}},
        {"crash_thread", SEGV, {"sample::writes_to_nowhere()", "crashing_thread"}},
    };
    if (TEST_ASAN || TEST_TSAN)
        SKIP("the sanitizer's own handler tells of it");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_bad_end(&bad[i]);
    setenv("SAMPLE_PLAIN", "1", 1);
    expect_bad_end(&bad[0]);
    expect_bad_end(&bad[2]);
}

CP_TEST(of_a_deep_stack_both_ends_are_shown)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("the sanitizer's own handler tells of it");
    for (int is_plain = 0; is_plain <= 1; is_plain++) {
        if (is_plain)
            setenv("SAMPLE_PLAIN", "1", 1);
        long frames = count_matches("-run crash_overflow", "^    goes_down");
        CHECKF(frames > 20 && frames < 56, "%ld", frames);
        CHECK_EQ(count_matches("-run crash_overflow", "^    [.]{3} [0-9]{3,} more frames [.]{3}$"), 1);
    }
    CHECK_EQ(count_matches("-run crash_segv", " more frames "), 0);
}

CP_TEST(a_kill_is_told)
{
    static const struct bad_end bad[] = {
        {"kill_term", "killed by signal 15 (Terminated)", {"waits_for_signal", "Test_kill_term"}},
        {"kill_pipe", "killed by signal 13 (Broken pipe)", {"Test_kill_pipe"}},
        {"kill_hard", "killed by signal 9 (Killed)", {NULL}},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_bad_end(&bad[i]);
    expect("-run Test_kill_hard", 1, "\nThe stacks of the test's process are lost.\n");
}

CP_TEST(an_exit_is_told)
{
    static const struct bad_end bad[] = {
        {"exit_0", "the test ended its process by exit(0)", {"calls_exit", "Test_exit_0"}},
        {"exit_3", "the test ended its process by exit(3)", {"calls_exit", "Test_exit_3"}},
        {"exit_thread", "the test ended its process by exit(4)", {"calls_exit", "exiting_thread"}},
        {"exit_at_once", "the test ended its process by _exit(5)", {NULL}},
        {"exit_status_after", "after the test its process ended with status 7", {NULL}},
    };
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* a G that exits still has its memory */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_bad_end(&bad[i]);
    expect("-run Test_exit_at_once", 1, "\nThe stacks of the test's process are lost.\n");
    if (!TEST_ASAN) /* AddressSanitizer takes the unwinding of a G's stack for an overflow */
        expect("-run Test_exit_main_thread", 1, "panic: ", "--- FAIL: Test_exit_main_thread");
}

CP_TEST(a_hang_is_told_with_all_stacks)
{
    static const struct bad_end loop = {
        "hang_loop", "the test timed out after 1 s", {"spins", "Test_hang_loop"}};
    if (TEST_ASAN || TEST_TSAN)
        SKIP("no second is enough");
    expect_bad_end(&loop);
    expect("-run 'hang_park|hang_sub' -v", 1, "panic: the test timed out after 1 s\n\ngoroutine 1 [park]:\n",
           "\nparks(...)\n\t", "\nTest_hang_park(...)\n\t", SAMPLE, "\nparking_sub(...)\n\t",
           "    --- FAIL: Test_hang_sub/inner", "\nthread ");
    expect("-run hang_park -timeout 0.2s", 1, "panic: the test timed out after 0.2 s\n");
    expect("-run hang_logging -v", 1, "panic: the test timed out after 1 s\n", "\n    Test_hang_logging\n");
}

CP_TEST(a_thread_that_waits_in_the_kernel_holds_nothing_up)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer makes a fork() of a vfork()");
    expect("-v -run 'hang_in_vfork|Test_self'", 1, "panic: the test timed out after 1 s\n",
           "    no stack: ", "--- FAIL: Test_hang_in_vfork", "--- PASS: Test_self (");
}

/* A thread whose events leave it no time behaves like this one, as seen from outside. */
CP_TEST(a_test_beyond_its_cpu_time_is_ended_from_outside)
{
    expect(
        "-v -run 'hang_beyond_limit|Test_self'", 1,
        "panic: the test's process has used more CPU time than its limit (RLIMIT_CPU), and does not answer "
        "SIGXCPU\n",
        "--- FAIL: Test_hang_beyond_limit", "--- PASS: Test_self (");
}

/* Whether the process exists and is not a zombie. */
static bool is_alive(int pid)
{
    char path[40], state = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    bool is_known = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    if (file)
        fclose(file);
    return is_known && state != 'Z' && state != 'X';
}

CP_TEST(a_test_that_does_nothing_hangs)
{
    int status;
    char *output = test_command(&status, "%s/tests/idle_sample", test_build_dir());
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "panic: the test hangs: its processes have used no CPU time for 1 s\n");
    CHECK_CONTAINS(output, "\n    Test_waits\n");
    CHECK_CONTAINS(output, "--- FAIL: Test_waits");
    CHECKF(!strstr(output, "works_a_little"), "%s", output);
    free(output);
}

/* Checks that the process whose number the sample left in the file has ended. */
static void expect_no_child(const char *file)
{
    struct timespec start, now;
    char *text = test_command(NULL, "cat %s", file);
    int pid = atoi(text);
    CHECKF(pid > 1, "%s", text);
    free(text);
    clock_gettime(CLOCK_MONOTONIC, &start);
    now = start;
    for (; is_alive(pid) && now.tv_sec < start.tv_sec + 5; usleep(1000))
        clock_gettime(CLOCK_MONOTONIC, &now);
    CHECKF(!is_alive(pid), "process %d outlived its test", pid);
}

CP_TEST(no_process_outlives_its_test)
{
    char file[200];
    snprintf(file, sizeof(file), "%s/pid", test_dir());
    setenv("SAMPLE_FILE", file, 1);
    expect("-run hang_with_child", 1, "timed out");
    expect_no_child(file);
    unlink(file);
    expect("-run leaves_child", 0, "PASS");
    expect_no_child(file);
    unlink(file);
    expect("-run leaves_daemon", 0, "PASS");
    expect_no_child(file);
}

CP_TEST(a_test_that_leaves_its_group_is_ended)
{
    expect("-run 'hang_in_runners_group|self' -v", 1, "panic: the test timed out after 1 s\n",
           "--- PASS: Test_self (", "!These threads could not be ended");
}

/* Waits until the sample has written its number into the file. Returns the number. */
static pid_t await_number(const char *file)
{
    int number = 0;
    for (int naps = 0; number == 0; naps++) {
        FILE *numbers = fopen(file, "re");
        CHECKF(naps < 10000, "%s: no number", file);
        if (numbers && fscanf(numbers, "%d", &number) != 1)
            number = 0;
        if (numbers)
            fclose(numbers);
        usleep(1000);
    }
    return number;
}

/* A process that has been killed stays until its tracer, this test, takes its exit status. */
CP_TEST(a_test_that_cannot_be_ended_fails)
{
    char file[200], command[1000], line[200];
    snprintf(file, sizeof(file), "%s/pid", test_dir());
    setenv("SAMPLE_FILE", file, 1);
    snprintf(command, sizeof(command),
             "exec %s/tests/runner_sample -v -run 'hang_telling_number|Test_self' > %s/output 2>&1",
             test_build_dir(), test_dir());
    FILE *runner = popen(command, "re");
    int number = await_number(file);
    if (ptrace(PTRACE_SEIZE, number, NULL, NULL) < 0)
        SKIP("this machine lets no process trace another");
    int status = pclose(runner);
    char *text = test_command(NULL, "cat %s/output", test_dir());
    CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%#x\n%s", (unsigned)status, text);
    snprintf(line, sizeof(line),
             "panic: the test timed out after 1 s\nThese threads could not be ended:\n"
             "thread %d (runner_sample) of process %d ",
             number, number);
    CHECK_CONTAINS(text, line);
    CHECK_CONTAINS(text, "--- FAIL: Test_hang_telling_number");
    CHECK_CONTAINS(text, "--- PASS: Test_self (");
    free(text);
}

/* If a program ignores SIGCHLD, the programs that it starts do, too, and then the kernel keeps no exit status
 * of their children. */
CP_TEST(who_ignores_sigchld_may_start_a_runner)
{
    signal(SIGCHLD, SIG_IGN);
    char program[200], path[200];
    snprintf(program, sizeof(program), "%s/tests/runner_sample", test_build_dir());
    snprintf(path, sizeof(path), "%s/output", test_dir());
    pid_t pid = fork();
    if (pid == 0) {
        dup2(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600), STDOUT_FILENO);
        execl(program, program, "-v", "-run", "Test_self|exit_status_after", (char *)NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0); /* waits, and then fails because SIGCHLD is ignored */
    signal(SIGCHLD, SIG_DFL);
    free(test_command(NULL, "grep 'PASS: Test_self' %s && grep 'ended with status 7$' %s", path, path));
}

CP_TEST(a_run_that_is_ended_leaves_nothing_behind)
{
    char file[200];
    snprintf(file, sizeof(file), "%s/pid", test_dir());
    setenv("SAMPLE_FILE", file, 1);
    char *output = test_command(NULL,
                                "%s/tests/runner_sample -v -run 'hang_with_child|self' -timeout 1h "
                                "-cpuprofile %s/x.pb.gz & runner=$!\n"
                                "until [ -s %s ]; do sleep 0.05; done\n"
                                "kill $runner; wait $runner; echo status $?",
                                test_build_dir(), test_dir(), file);
    CHECK_CONTAINS(output, "panic: the run was ended by signal 15 (Terminated)\n");
    CHECK_CONTAINS(output, "--- FAIL: Test_hang_with_child (");
    CHECK_CONTAINS(output, "\nFAIL\nFAIL\trunner_sample\t");
    CHECK_CONTAINS(output, "x.pb.gz is not written: no process that could be sampled has ended normally.\n");
    CHECK_CONTAINS(output, "\nstatus 143\n");
    CHECKF(!strstr(output, "Test_self"), "%s", output);
    expect_no_child(file);
    const char *dir = strstr(output, "directory /");
    CHECK(dir && access(strndupa(dir + 10, strcspn(dir + 10, "\n")), F_OK) != 0);
    free(output);
}

CP_TEST(a_killed_runner_takes_its_test_along)
{
    char file[200];
    snprintf(file, sizeof(file), "%s/pid", test_dir());
    setenv("SAMPLE_FILE", file, 1);
    setenv("TMPDIR", test_dir(), 1); /* a killed runner removes nothing */
    free(test_command(NULL,
                      "%s/tests/runner_sample -run hang_telling_number -timeout 1h & runner=$!\n"
                      "until [ -s %s ]; do sleep 0.01; done; kill -KILL $runner; ! wait $runner",
                      test_build_dir(), file));
    expect_no_child(file);
}

CP_TEST(gs_that_are_left_are_told)
{
    expect("-v -run 'leak_g|self'", 1, "\n    The test has ended, but Gs are left: 1.\n", "[park]:\n",
           "parked_g(...)", SAMPLE, "--- FAIL: Test_leak_g", "--- PASS: Test_self",
           "!fail_where_gs_are_left");
}

CP_TEST(memory_that_leaks_is_told)
{
    if (!TEST_ASAN)
        SKIP("only LeakSanitizer finds it");
    setenv("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=0", 1);
    expect("-run 'leak_memory|self'", 1, "panic: after the test its process ended with status ",
           "LeakSanitizer: detected memory leaks", "in Test_leak_memory ", "--- FAIL: Test_leak_memory",
           "!--- FAIL: Test_self");
}

CP_TEST(what_a_sanitizer_finds_is_told)
{
    if (!TEST_ASAN && !TEST_TSAN)
        SKIP("there is none");
    expect("-run 'crash_segv|self'", 1,
           TEST_ASAN ? "runtime error: store to null pointer" : "ThreadSanitizer: SEGV",
           "panic: ", "--- FAIL: Test_crash_segv", "!--- FAIL: Test_self");
}

CP_TEST(forked_children_do_not_end_the_test)
{
    expect("-v -run forks", 0, TEST_ASAN || TEST_TSAN ? "by signal: " : "by signal: 11\n",
           "exit: ", "fatal in a child\n", "fatal: 1\n", "--- PASS: Test_forks", "!panic");
}
