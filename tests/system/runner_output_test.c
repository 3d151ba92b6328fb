/* What tests print and log arrives whole and in order: as text, as JSON, and by the Test Anything
 * Protocol. */
#include "tests/support/runner_tools.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* The output of one thread keeps its order while another thread prints without end. */
CP_TEST(noise_does_not_change_the_order)
{
    char *output = test_command(NULL, "%s/tests/runner_sample -run steps_in_noise -v | sed -n 's/.*step //p'",
                                test_build_dir());
    char *p = output;
    for (long i = 0; i < 400; i++)
        CHECKF(strtol(p, &p, 10) == i, "%s", output);
    free(output);
}

/* Reads until these words have come, then makes the file for which the sample's test waits. */
static void see(FILE *output, const char *words, const char *file)
{
    size_t seen = 0;
    while (words[seen]) {
        int c = getc(output);
        CHECKF(c != EOF, "no \"%s\" while the test runs", words);
        seen = c == words[seen] ? seen + 1 : c == words[0];
    }
    test_write_file(file, "");
}

CP_TEST(what_is_printed_is_shown_at_once)
{
    char command[300];
    snprintf(command, sizeof(command), "%s/tests/runner_sample -v -run print_and_wait", test_build_dir());
    setenv("SAMPLE_DIR", test_dir(), 1);
    FILE *output = popen(command, "re");
    CHECK(output);
    setvbuf(output, NULL, _IONBF, 0);
    see(output, "a line\n", "saw-line");
    see(output, "half a line", "saw-half");
    while (getc(output) != EOF)
        ;
    CHECK_EQ(pclose(output), 0);
}

/* Runs the sample with its output in a file of this name, and checks how much memory the runner needed. */
static void expect_little_memory(const char *pattern, const char *flag, const char *file)
{
    char program[200], path[300];
    struct rusage usage;
    int status;
    snprintf(program, sizeof(program), "%s/tests/runner_sample", test_build_dir());
    snprintf(path, sizeof(path), "%s/%s", test_dir(), file);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600), STDOUT_FILENO);
        execl(program, program, "-run", pattern, flag, (char *)NULL);
        _exit(127);
    }
    CHECK_EQ(wait4(pid, &status, 0, &usage), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    CHECKF(usage.ru_maxrss < 50 << 10, "%s %s took %ld KiB", pattern, flag, usage.ru_maxrss);
}

/* The test prints 200 MiB. The file has all of it, or its beginning and end with a line that says so between
 * them. */
CP_TEST(no_output_is_too_much)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer takes more memory than that");
    expect_little_memory("print_very", "-count=1", "print");
    expect_little_memory("log_very", "-count=1", "log");
    expect_little_memory("print_very", "-tap", "tap");
    expect_little_memory("log_very", "-tap", "log-tap");
    free(test_command(NULL,
                      "cd %s && for file in print log tap log-tap; do [ $(wc -c < $file) -lt 3000000 ]"
                      " && grep 'the first of much' $file && grep ': the reason' $file"
                      " && grep '[.]{3} [0-9]{9} bytes are left out here [.]{3}$' -E $file || exit 1; done"
                      " && grep 'the last of much' print && grep 'the last of much' tap",
                      test_dir()));
    setenv("SAMPLE_NO_LINES", "1", 1);
    expect_little_memory("print_very", "-json", "json");
    expect_little_memory("print_very", "-v", "verbose");
    free(test_command(NULL, "[ $(wc -c < %s/verbose) -gt 209715200 ]", test_dir()));
}

CP_TEST(logs_arrive_whole)
{
    CHECK_EQ(count_matches("-v -run log_threads", "^    runner_sample_output.c:[0-9]+: <(a+|[b-y]+|z+)>$"),
             1600);
    CHECK_EQ(count_matches("-v -run log_threads", "<"), 1600);
    CHECK_EQ(count_matches("-v -run log_long", "^    runner_sample_output.c:[0-9]+: <.{1999}>$"), 200);
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
    expect("-v -run close_all_descriptors", 1, "so far heard",
           "panic: the test ended its process by _exit(0), or", " closed the descriptors",
           "--- FAIL: Test_close_all", "!not heard");
    expect("-v -run close_descriptors", 0, "still printed\n    runner_sample_output.c:", "still heard");
}

/* Checks that test2json makes the same events from the text as -json writes. test2json splits a line of more
 * than a kilobyte into several events, so the parts of a line are joined first. */
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

CP_TEST(json_is_what_test2json_makes_of_the_text)
{
    expect_events("-run 'fail|skip|nested|square|cleanup|order|print_odd|log_long|exit|kill'");
    expect_events("-run 'names|self' -shuffle 3");
    expect_events("-run 'crash|leak'");
    expect_events("-run '^$' -bench 'empty|subs|fatal|skipped|logs|no_loop' -benchtime 10x");
}

CP_TEST(names_are_events_too)
{
    const char *build = test_build_dir();
    free(test_command(
        NULL,
        "cd %s; s=%s/tests/runner_sample; normal='del(.Time, .Elapsed)'\n"
        "$s -json -list 'square|empty' > events && go tool test2json -t -p runner_sample $s -list "
        "'square|empty' > theirs\n"
        "jq -c \"$normal\" events > a; jq -c \"$normal\" theirs > b\n"
        "[ $(wc -l < a) = 3 ] && diff a b && jq -es '.[-1].Elapsed >= 0' events",
        test_dir(), build));
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
