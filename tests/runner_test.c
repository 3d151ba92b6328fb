/* The runner (testing/), by what runner_sample's tests do and what is shown of it. */
#include "test.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Runs the sample with these flags; what it printed. */
static char *run(int *status, const char *flags)
{
    return test_command(status, "%s/tests/runner_sample %s", test_build_dir(), flags);
}

/* Runs it and looks at its exit status, and for words in its output; one behind a "!" must not be there. */
static void expect_words(const char *flags, int expected_status, const char *const *words)
{
    int status;
    char *output = run(&status, flags);
    CHECKF(status == expected_status, "%s: %d\n%s", flags, status, output);
    for (; *words; words++)
        if (**words == '!')
            CHECKF(!strstr(output, *words + 1), "%s: \"%s\" in:\n%s", flags, *words + 1, output);
        else
            CHECKF(strstr(output, *words), "%s: no \"%s\" in:\n%s", flags, *words, output);
    free(output);
}
#define expect(flags, status, ...) expect_words(flags, status, (const char *const[]){__VA_ARGS__, NULL})

/* ---- Bad ends -------------------------------------------------------------------------------- */

static const char *const runners_frames[] = {"die_from_handler", "stop_from_handler", "tell_exit",
                                             "__restore_rt", NULL};

/* The test fails in these words, with a stack that has the functions with their lines, one below the other,
 * and none of the runner's that told of it; and the next one runs. A function may be named without its
 * lines: "". */
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
        char *place = strchr(p + 1, '\n') + 1, *file = strstr(place, "tests/runner_sample.c:");
        CHECKF(file && file < strchr(place, '\n') && isdigit((unsigned char)file[22]), "%s has no line:\n%s",
               *function, output);
    }
    for (const char *const *frame = runners_frames; *frame; frame++)
        CHECKF(!strstr(output, *frame), "%s in:\n%s", *frame, output);
    snprintf(line, sizeof(line), "--- FAIL: Test_%s (", bad->test);
    CHECK_CONTAINS(output, line);
    CHECK_CONTAINS(output, "--- PASS: Test_self (");
    free(output);
}

#define SEGV "killed by signal 11 (Segmentation fault)"

CP_TEST(a_crash_is_told_with_its_stack)
{
    static const struct bad_end bad[] = {
        {"crash_segv", SEGV, {"writes_to_nowhere", "Test_crash_segv"}},
        {"crash_abort", "killed by signal 6 (Aborted)", {"calls_abort", "Test_crash_abort"}},
        {"crash_overflow", SEGV, {"goes_down", "goes_down"}},
        {"crash_sub", SEGV, {"writes_to_nowhere", "crashing_sub"}},
        {"crash_thread", SEGV, {"writes_to_nowhere", "crashing_thread"}},
    };
    if (TEST_ASAN || TEST_TSAN)
        SKIP("the sanitizer's own handler tells of it");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_bad_end(&bad[i]);
    setenv("SAMPLE_PLAIN", "1", 1);
    expect_bad_end(&bad[0]);
    expect_bad_end(&bad[2]);
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
    expect("-run Test_kill_hard", 1, "\nNothing is left of its stacks.\n");
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
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* a G that exits has its memory still */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_bad_end(&bad[i]);
    expect("-run Test_exit_at_once", 1, "\nNothing is left of its stacks.\n");
    if (!TEST_ASAN) /* it takes the unwinding of a G's stack for an overflow */
        expect("-run Test_exit_main_thread", 1, "panic: ", "--- FAIL: Test_exit_main_thread");
}

CP_TEST(a_hang_is_told_with_all_stacks, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const struct bad_end loop = {
        "hang_loop", "the test timed out after 1 s", {"spins", "Test_hang_loop"}};
    if (TEST_ASAN || TEST_TSAN)
        SKIP("no second is enough");
    expect_bad_end(&loop);
    expect("-run 'hang_park|hang_sub' -v", 1, "panic: the test timed out after 1 s\n\ngoroutine 1 [park]:\n",
           "\nparks(...)\n\t", "\nTest_hang_park(...)\n\t",
           "tests/runner_sample.c:", "\nparking_sub(...)\n\t", "    --- FAIL: Test_hang_sub/inner",
           "\nthread ");
    expect("-run hang_park -timeout 0.2s", 1, "panic: the test timed out after 0.2 s\n");
    expect("-run hang_logging -v", 1, "panic: the test timed out after 1 s\n", "\n    Test_hang_logging\n");
}

/* The process whose number the sample left there has ended. */
static void expect_no_child(const char *file)
{
    int status = 0;
    char *pid = test_command(NULL, "cat %s", file);
    CHECKF(atoi(pid) > 1, "%s", pid);
    for (int ms = 0; status == 0 && ms < 5000; ms += 10, usleep(10000))
        free(test_command(&status, "grep -v 'zombie' /proc/%s/status | grep -q State:", pid));
    CHECKF(status != 0, "process %s outlived its test", pid);
    free(pid);
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
}

CP_TEST(gs_that_are_left_are_told)
{
    expect("-v -run 'leak_g|self'", 1, "    child.c:", ": The test ends, and Gs are left: 1.\n", "[park]:\n",
           "parked_g(...)", "tests/runner_sample.c:", "--- FAIL: Test_leak_g", "--- PASS: Test_self",
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

/* ---- t --------------------------------------------------------------------------------------- */

CP_TEST(failures_are_told)
{
    expect("-run Test_fail", 1, "--- FAIL: Test_fail_error",
           ".c:", ": first 1\n    runner_sample.c:", ": second\n        and its second line\n",
           "--- FAIL: Test_fail_fatal", ": the end\n", "--- FAIL: Test_fail_quietly", ": from a thread\n",
           ": goes on\n", "!after the end", "!not failed");
    expect("-run Test_fatal", 1, "--- FAIL: Test_fatal_thread (", "    --- FAIL: Test_fatal_thread/inner (",
           "    runner_sample.c:", ": fatal from a thread\n", "--- FAIL: Test_fatal_g (",
           ": fatal from a G\n", "!after the end", "!panic");
    expect("-run not_a_benchmark", 1, "This is a test; CP_BENCHMARK makes benchmarks.");
}

CP_TEST(skips_are_told)
{
    expect("-run skip", 1, "--- FAIL: Test_skip_failed", ": failed first\n", "!--- SKIP", "!unicorn",
           "!after the end");
    expect("-run 'skip$' -v", 0, "=== RUN   Test_skip\nprinted before the skip\n    runner_sample.c:",
           ": no unicorn here\n--- SKIP: Test_skip (", "\nPASS\nok  \trunner_sample\t", "!after the end");
}

CP_TEST(cleanups_run_the_last_one_first)
{
    char *output =
        test_command(NULL, "%s/tests/runner_sample -run Test_cleanup -v | grep ^cleanup", test_build_dir());
    CHECK_STR(output, "cleanup inner\ncleanup third\ncleanup second\ncleanup added\ncleanup first\n");
    free(output);
    expect("-run Test_cleanup", 1, ": fatal in a cleanup\n", ": the end\n");
}

/* Of each test that logs where its directory is, that is gone, and the one above it. */
static void expect_no_directory(const char *flags, int count)
{
    int n = 0;
    struct stat st;
    char *output = run(NULL, flags), *p = output;
    for (; (p = strstr(p, ": directory ")); n++) {
        p += strlen(": directory ");
        char *end = strchr(p, '\n');
        *end = 0;
        CHECKF(strncmp(p, test_dir(), strlen(test_dir())) == 0, "%s is not in %s", p, test_dir());
        CHECKF(stat(p, &st) < 0 && errno == ENOENT, "%s is still there", p);
        *end = '\n';
    }
    CHECKF(n == count, "%s", output);
    free(output);
    free(test_command(NULL, "! ls -d $TMPDIR/counterpoint-*"));
}

CP_TEST(directories_are_removed)
{
    char *parent = test_command(NULL, "d=%s/%0100d; mkdir $d; echo -n $d", test_dir(), 7);
    setenv("TMPDIR", parent, 1);
    free(parent);
    expect_no_directory("-v -run 'dir$'", 2);
    expect_no_directory("-v -run 'dir$' -inprocess", 2);
    expect_no_directory("-v -run 'crash_segv|hang_with_child|exit_at_once|fatal_thread' || :", 4);
}

CP_TEST(subtests_are_a_tree)
{
    expect("-run nested", 1, "--- FAIL: Test_nested (", "\n    --- FAIL: Test_nested/bad (",
           "\n        --- FAIL: Test_nested/bad/third (", "\n        runner_sample.c:", ": third level\n",
           "!good", "!last");
    expect("-run nested -v", 1, "\n=== RUN   Test_nested/good/third\n",
           "\n=== CONT  Test_nested/good\n    runner_sample.c:", ": third passed\n", ": third failed\n",
           "\n        --- PASS: Test_nested/good/third (", "\n    --- PASS: Test_nested/last (");
    expect("-run square -v", 1, "    --- PASS: Test_square/one (", "    --- PASS: Test_square/two (",
           "    --- FAIL: Test_square/three (", ": 3 became 9\n");
}

CP_TEST(names_are_made_fit)
{
    expect("-run Test_names -v", 0, "RUN   Test_names/same\n", "RUN   Test_names/same#01\n",
           "RUN   Test_names/#00\n", "RUN   Test_names/#00#01\n", "RUN   Test_names/two_words\n",
           "RUN   Test_names/tab_in\n", "RUN   Test_names/new_line\n", "RUN   Test_names/a/b\n",
           "RUN   Test_names/same#01#01\n", "RUN   Test_names/\xc3\xa4\n", "this is Test_names/_\n");
    expect("-run long_name -v", 0, "--- PASS: Test_long_name/nnn");
}

/* ---- Output ---------------------------------------------------------------------------------- */

CP_TEST(what_is_printed_and_logged_keeps_its_order)
{
    char *output =
        test_command(NULL, "%s/tests/runner_sample -run order -v | sed -n 's/.*step //p'", test_build_dir());
    char *p = output;
    for (long i = 0; i < 40; i++)
        CHECKF(strtol(p, &p, 10) == i, "%s", output);
    free(output);
    expect("-run order -v", 0, "=== CONT  Test_order\nprinted by the outer one\n",
           "\nunfinished\n--- PASS: Test_order (");
    expect("-run order", 0, "PASS\nok  \t", "!step", "!printed");
}

static long count_matches(const char *flags, const char *pattern)
{
    char *output = test_command(NULL, "%s/tests/runner_sample %s | grep -caE '%s' || :", test_build_dir(),
                                flags, pattern);
    long n = atol(output);
    free(output);
    return n;
}

CP_TEST(logs_arrive_whole, .timeout_s = 60 * TEST_SLOWDOWN)
{
    CHECK_EQ(count_matches("-v -run log_threads", "^    runner_sample.c:[0-9]+: <(a+|[b-y]+|z+)>$"), 1600);
    CHECK_EQ(count_matches("-v -run log_threads", "<"), 1600);
    CHECK_EQ(count_matches("-v -run log_long", "^    runner_sample.c:[0-9]+: <.{1999}>$"), 200);
    CHECK_EQ(count_matches("-v -run log_often", ": log [0-9]+$"), 100000);
    char *output = test_command(
        NULL, "%s/tests/runner_sample -v -run log_long | sed -n 's/.*: \\(<z\\{3000\\}z*>\\)$/\\1/p' | wc -c",
        test_build_dir());
    CHECK_EQ(atol(output), (1 << 20) + 2);
    free(output);
}

CP_TEST(all_that_is_printed_arrives)
{
    CHECK_EQ(count_matches("-v -run print_much", "^x{999}$"), 10500);
    CHECK_EQ(count_matches("-v -run print_much", "after much"), 1);
    CHECK_EQ(count_matches("-v -run print_odd", "a NUL: [?], invalid"), 1);
    expect("-v -run close_stdout", 0, "still heard");
    setenv("SAMPLE_PLAIN", "1", 1);
    expect("-v -run close_descriptors", 0, "still printed\n    runner_sample.c:", "still heard");
}

/* What test2json makes of the text is what -json says, event for event. A line of more than a kilobyte is
 * several events there; so lines are put together first. */
static void expect_events(const char *flags)
{
    const char *build = test_build_dir(), *dir = test_dir();
    int status;
    char *output = test_command(
        &status,
        "set -e; cd %s\n"
        "cat > normal.jq <<'END'\n"
        "reduce .[] as $e ([]; ($e | del(.Time) | if .Test then . else del(.Elapsed) end) as $e\n"
        "  | if length > 0 and $e.Output and (.[-1].Output // \"\\n\" | endswith(\"\\n\") | not)\n"
        "    then .[-1].Output += $e.Output else . + [$e] end) | .[]\n"
        "END\n"
        "%s/tests/runner_sample -json %s > events || :\n"
        "jq -rj 'select(.Action == \"output\").Output' events > text\n"
        "go tool test2json -t -p runner_sample < text > theirs\n"
        "jq -sc -f normal.jq events > ours.normal; jq -sc -f normal.jq theirs > theirs.normal\n"
        "[ $(wc -l < ours.normal) -gt 5 ]; cut -c1-3000 ours.normal > a; cut -c1-3000 theirs.normal > b\n"
        "diff a b | head -20; cmp ours.normal theirs.normal\n"
        "iconv -f UTF-8 -t UTF-16 events > all\n"
        "jq -e '.Package == \"runner_sample\" and (.Time | test(\"^2[0-9-]*T[0-9:]*[.][0-9]{9}Z$\"))' events "
        "> all\n"
        "! jq -e 'del(.Time, .Action, .Package, .Test, .Elapsed, .Output) | length == 0' events | grep "
        "false\n",
        dir, build, flags);
    CHECKF(status == 0, "%s\n%s", flags, output);
    free(output);
}

CP_TEST(json_is_what_test2json_makes_of_the_text, .timeout_s = 60 * TEST_SLOWDOWN)
{
    expect_events("-run 'fail|skip|nested|square|cleanup|order|print_odd|log_long|exit|kill'");
    expect_events("-run 'names|self' -shuffle 3");
    expect_events("-run 'crash|leak'");
    expect_events("-run '^$' -bench 'empty|subs|fatal|skipped|logs|no_loop' -benchtime 10x");
}

CP_TEST(json_says_the_same_as_the_text)
{
    const char *build = test_build_dir();
    free(test_command(NULL,
                      "cd %s; s=%s/tests/runner_sample; f=\"-run fail|skip|nested|order|names\"\n"
                      "times='s/[0-9.]*s)$/TIME/; s/[0-9.]*s$/TIME/'\n"
                      "$s -v \"$f\" | sed \"$times\" > text; $s -json \"$f\" > events\n"
                      "jq -rj 'select(.Action == \"output\").Output' events | sed \"$times\" | diff text -",
                      test_dir(), build));
}

CP_TEST(prove_reads_tap)
{
    int status;
    const char *build = test_build_dir();
    char *output = test_command(
        &status, "prove -v --exec '' %s/tests/runner_sample :: -tap -run 'skip$|names|self|dir$'", build);
    CHECKF(status == 0, "%s", output);
    CHECK_CONTAINS(output, "ok 1 - Test_skip # SKIP no unicorn here\n");
    CHECK_CONTAINS(output, "\n1..4\n");
    CHECK_CONTAINS(output, "    ok 14 - Test_names/\\#skip_me\n");
    CHECK_CONTAINS(output, "\nResult: PASS\n");
    free(output);
    output = test_command(
        &status,
        "prove -v --exec '' %s/tests/runner_sample :: -tap -run 'nested|self|skip_failed|crash_segv'", build);
    CHECKF(status != 0, "%s", output);
    CHECK_CONTAINS(output, "\n        not ok 1 - Test_nested/bad/third\n");
    CHECK_CONTAINS(output, "\nok 4 - Test_self\n");
    CHECK_CONTAINS(output, "Failed 3/4 subtests");
    CHECK_CONTAINS(output, "Failed tests:  1-3\n");
    free(output);
}

/* ---- Which, how often, where ------------------------------------------------------------------ */

/* The names of the tests and subtests that ran, in their order, each with a blank behind it. */
static void expect_runs(const char *flags, const char *names)
{
    char *output =
        test_command(NULL, "%s/tests/runner_sample -v %s | sed -n 's/^=== RUN   //p' | tr '\\n' ' '",
                     test_build_dir(), flags);
    CHECKF(strcmp(output, names) == 0, "%s: %s", flags, output);
    free(output);
}

CP_TEST(tests_are_chosen_by_level)
{
    expect_runs("-run square/t", "Test_square Test_square/two Test_square/three ");
    expect_runs("-run square/t -skip /two", "Test_square Test_square/three ");
    expect_runs("-run 'self|pid' -skip pid", "Test_self ");
    expect_runs("-skip . -run square", "");
    expect_runs("-run 'square/one|self'", "Test_square Test_square/one Test_self ");
    expect_runs("-run 'Test_(self|pi[cd])$'", "Test_pid Test_self ");
    expect_runs("-run 'square/[[:digit:]t/]h'", "Test_square Test_square/three ");
    expect_runs("-run 'names/^a/b'", "Test_names Test_names/a/b ");
    expect_runs("-run 'names/two words'", "Test_names Test_names/two_words ");
    expect_runs("-run nested/good/none", "Test_nested Test_nested/good ");
    expect_runs("-run '^$' -bench subs/la/x -benchtime 1x -cpu 2",
                "Benchmark_subs-2 Benchmark_subs/large-2 Benchmark_subs/large/x-2 ");
    expect_runs("--run=self", "Test_self ");
    expect_runs("-test.run self -test.count=2", "Test_self Test_self ");
}

CP_TEST(tests_are_listed_and_not_run)
{
    int status;
    char *output = run(&status, "-list 'crash|empty'");
    CHECK_EQ(status, 0);
    CHECK_STR(output,
              "Test_crash_segv\nTest_crash_abort\nTest_crash_overflow\nTest_crash_sub\nTest_crash_thread\n"
              "Benchmark_empty\nBenchmark_crash\n");
    free(output);
}

CP_TEST(a_shuffle_is_the_same_for_the_same_seed)
{
    const char *build = test_build_dir();
    char *runs[3];
    for (int i = 0; i < 3; i++)
        runs[i] = test_command(NULL,
                               "%s/tests/runner_sample -v -run 'skip$|dir|cpu|pid|self|order' -shuffle %d |"
                               " grep '^=== RUN   Test_[a-z]*$'",
                               build, i < 2 ? 5 : 6);
    CHECK_STR(runs[0], runs[1]);
    CHECK(strcmp(runs[0], runs[2]) != 0);
    CHECK_EQ(strlen(runs[0]), strlen(runs[2]));
    for (int i = 0; i < 3; i++)
        free(runs[i]);
    expect("-run self -shuffle 5", 0, "-test.shuffle 5\n");
    expect("-run self -shuffle on", 0, "-test.shuffle ");
    expect("-run self -shuffle off", 0, "PASS", "!shuffle");
}

CP_TEST(flags_say_how_often_where_and_how_long)
{
    expect_runs("-run self -count 3", "Test_self Test_self Test_self ");
    expect_runs("-failfast -run 'fail_error|fail_fatal|self'", "Test_fail_error ");
    expect_runs("-failfast=false -run 'fail_fatal|self'", "Test_fail_fatal Test_self ");
    expect("-run cpu -v -cpu 1,3", 0, ": on 1\n", ": on 3\n");
    expect("-run self -timeout 0", 0, "PASS");
    expect("-run self -timeout 1000h", 0, "PASS");
    expect("-run self --v", 0, "--- PASS");
    expect("-run self -test.v", 0, "--- PASS");
    expect("-run self -v -v=false", 0, "PASS", "!---");
}

CP_TEST(in_process_means_in_this_process)
{
    char *output =
        test_command(NULL, "echo pid $$; exec %s/tests/runner_sample -inprocess -run pid", test_build_dir());
    char *second = strchr(output, '\n') + 1;
    CHECKF(strncmp(output, second, (size_t)(second - output)) == 0, "%s", output);
    free(output);
    expect("-inprocess -v -run 'nested|self|fail_thread'", 1, "        --- FAIL: Test_nested/bad/third (",
           "--- PASS: Test_self", ": from a thread\n");
}

CP_TEST(flags_that_make_no_sense_end_with_a_sentence)
{
    static const char *const bad[] = {
        "-run '('",     "-run 'a/*('",      "-skip '['",      "-bench '('",    "-list '('",   "-benchtime 0x",
        "-benchtime x", "-benchtime 1",     "-benchtime -1s", "-benchtime 1y", "-count 0",    "-count -1",
        "-count 1x",    "-cpu 0",           "-cpu 1,",        "-cpu ,1",       "-cpu a",      "-timeout -1s",
        "-timeout 1",   "-timeout 1ss",     "-shuffle x",     "-v=perhaps",    "-failfast=2", "-json=yes",
        "-tap=",        "-inprocess=maybe", "-counters ''"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect(bad[i], 2, " makes no sense as \"", "usage: runner_sample [-FLAG [VALUE]]...\n  -run REGEX");
    expect("-unknown", 2, "unrecognized option '-unknown'", "usage: ");
    expect("-run", 2, "requires an argument", "usage: ");
    expect("self", 2, "\"self\" is no flag; tests are named by -run.", "usage: ");
    expect("-help", 0, "usage: runner_sample", "-benchtime 1s|100x");
    expect("--help", 0, "usage: runner_sample");
}

/* ---- Benchmarks ------------------------------------------------------------------------------ */

/* Go's own reader of benchmarks prints what it understands: name, N, ns/op and MB/s, or 0. */
static const char parser[] =
    "package main\n"
    "import (\"fmt\"; \"os\"; \"golang.org/x/tools/benchmark/parse\"; \"sort\")\n"
    "func main() {\n"
    "    set, err := parse.ParseSet(os.Stdin)\n"
    "    if err != nil { panic(err) }\n"
    "    all := []*parse.Benchmark{}\n"
    "    for _, s := range set { all = append(all, s...) }\n"
    "    sort.Slice(all, func(i, j int) bool { return all[i].Ord < all[j].Ord })\n"
    "    for _, b := range all { fmt.Println(b.Name, b.N, b.NsPerOp, b.MBPerS, b.Measured) }\n"
    "}\n";

struct figures {
    char name[100];
    long n;
    double ns_per_op, mb_per_s;
    int measured; /* 1: ns/op, 2: MB/s */
};

/* Runs benchmarks and reads their lines; how many there were. */
static size_t bench(const char *flags, struct figures *figures, size_t most)
{
    char path[300];
    const char *build = test_build_dir();
    snprintf(path, sizeof(path), "%s/parse.go", test_dir());
    FILE *file = fopen(path, "w");
    fputs(parser, file);
    fclose(file);
    char *output =
        test_command(NULL,
                     "%s/tests/runner_sample -run '^$' %s > %s/lines || exit\n"
                     "GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=%s/go-cache go run %s < %s/lines",
                     build, flags, test_dir(), build, path, test_dir());
    size_t n = 0;
    for (char *p = output, *line; (line = strsep(&p, "\n")) && *line && n < most; n++) {
        struct figures *f = &figures[n];
        CHECKF(sscanf(line, "%99s %ld %lf %lf %d", f->name, &f->n, &f->ns_per_op, &f->mb_per_s,
                      &f->measured) == 5,
               "%s", line);
    }
    free(output);
    return n;
}

CP_TEST(gos_parser_reads_benchmarks, .timeout_s = 120 * TEST_SLOWDOWN)
{
    struct figures f[20];
    CHECK_EQ(bench("-bench 'counted|bytes|broken|paused' -benchtime 100x -cpu 1,3", f, 20), 8);
    CHECK_STR(f[0].name, "Benchmark_counted");
    CHECK_STR(f[1].name, "Benchmark_counted-3");
    CHECK_EQ(f[0].n, 100);
    CHECK_EQ(f[0].measured, 1);
    CHECK_STR(f[3].name, "Benchmark_bytes-3");
    CHECK_EQ(f[3].measured, 3);
    CHECKF(f[3].ns_per_op >= 1e6, "%g", f[3].ns_per_op); /* it sleeps as long */
    CHECKF(f[3].mb_per_s * f[3].ns_per_op / 1e9 > 0.99 && f[3].mb_per_s * f[3].ns_per_op / 1e9 < 1.01,
           "%g and %g", f[3].ns_per_op, f[3].mb_per_s);
    CHECK_STR(f[4].name, "Benchmark_paused");
    CHECKF(f[4].ns_per_op < 10e6, "20 ms of pause in %g ns/op", f[4].ns_per_op);
    CHECK_STR(f[6].name, "Benchmark_broken_off");
    CHECK_EQ(f[6].n, 7);

    CHECK_EQ(bench("-bench subs -benchtime 5x -cpu 1", f, 20), 3);
    CHECK_STR(f[0].name, "Benchmark_subs/small");
    CHECK_STR(f[2].name, "Benchmark_subs/large/y");
    CHECK_EQ(bench("-bench empty -benchtime 10ms -v -cpu 2", f, 20), 1);
    CHECK_STR(f[0].name, "Benchmark_empty-2");
    CHECKF(f[0].n > 1000, "%ld", f[0].n);
}

CP_TEST(benchmark_lines_are_gos)
{
    char *model =
        test_command(NULL, "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1 | tr -d '\\n'");
    char cpu[300];
    snprintf(cpu, sizeof(cpu), "%s%s", *model ? "\ncpu: " : "", model);
    free(model);
    expect("-run '^$' -bench counted -benchtime 100x -cpu 1", 0,
           "goos: linux\ngoarch: ", "\npkg: runner_sample\n", cpu, "\nBenchmark_counted       \t     100\t",
           " ns/op\t       100.0 bodies\t         0.2500 hits/op\nPASS\nok  \t", "!set up", "!===");
    CHECK_EQ(count_matches("-run '^$' -bench counted -benchtime 10ms -v", "^set up$"), 1);
    CHECK_EQ(count_matches("-run '^$' -bench counted -benchtime 5x -v -count 3", "^set up$"), 3);
}

CP_TEST(the_spread_of_runs_is_told)
{
    CHECK_EQ(count_matches(
                 "-run '^$' -bench 'empty|subs/s' -benchtime 1000x -cpu 1 -count 5",
                 "^# Benchmark_(empty|subs/small): 5 runs: median [0-9.e-]+ ns/op, [0-9.e-]+ to [0-9.e-]+ "
                 "\\(-?[0-9.]+ % to \\+[0-9.]+ %\\)$"),
             2);
    CHECK_EQ(count_matches("-run '^$' -bench empty -benchtime 1000x", "^#"), 0);
}

CP_TEST(odd_benchmarks_are_told)
{
    expect("-run '^$' -bench 'no_loop' -cpu 1", 1, "--- FAIL: Benchmark_no_loop\n", "nothing to measure\n",
           ": It has no loop: for (; cp_bench_next(b);) is what is measured.\n");
    expect("-run '^$' -bench 'two_loops' -cpu 1 -benchtime 2x", 1, "--- FAIL: Benchmark_two_loops\n",
           ": A benchmark has one loop by cp_bench_next(); this is its second.\n", "!ns/op");
    expect("-run '^$' -bench 'fatal' -cpu 2", 1, "--- FAIL: Benchmark_fatal-2\n", ": in the loop\n",
           "!ns/op");
    expect("-run '^$' -bench 'skipped' -cpu 1", 0, "--- SKIP: Benchmark_skipped\n", ": in the loop\n",
           "!ns/op");
    expect("-run '^$' -bench 'logs' -cpu 1 -benchtime 2x", 0,
           " ns/op\n--- BENCH: Benchmark_logs\n    runner_sample.c:", ": a remark\n");
    expect("-run '^$' -bench 'cleanup' -cpu 1 -benchtime 6x -v", 0, "6 in the cleanup\n");
    if (!TEST_ASAN && !TEST_TSAN)
        expect("-run '^$' -bench 'crash|empty' -failfast=false -benchtime 2x -cpu 1", 1, "panic: " SEGV,
               "Benchmark_crash\n", "Benchmark_empty ", "\nFAIL\n");
    expect("-run fail_error -bench empty", 1, "FAIL", "!Benchmark_empty");
}
