/* What a test does with its t, and what the runner (testing/) reports. */
#include "tests/support/refuse.h"
#include "tests/support/runner_tools.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

CP_TEST(failures_are_told)
{
    expect("-run Test_fail", 1, "--- FAIL: Test_fail_error",
           ".c:", ": first 1\n    runner_sample.c:", ": second\n        and its second line\n",
           "--- FAIL: Test_fail_fatal", ": the end\n", "--- FAIL: Test_fail_quietly", ": from a thread\n",
           ": goes on\n", "!after the end", "!not failed");
    expect("-run Test_fatal", 1, "--- FAIL: Test_fatal_thread (", "    --- FAIL: Test_fatal_thread/inner (",
           "    runner_sample.c:", ": fatal from a thread\n", "--- FAIL: Test_fatal_g (",
           ": fatal from a G\n", "!after the end", "!panic");
    expect("-run not_a_benchmark", 1, "\n    This is a test. Only CP_BENCHMARK() makes benchmarks.");
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

/* Checks that the directory of each test that logs it is gone, and the directory above it. */
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

/* If the name were predictable, another user could make the directory first, and own what the tests put
 * there. */
CP_TEST(a_directory_that_was_there_is_not_used)
{
    free(test_command(NULL,
                      "cd %s && sh -c 'echo $$ > pid; mkdir -m 777 counterpoint-$$-1\n"
                      "TMPDIR=$PWD exec %s/tests/runner_sample -v -run dir$' > output\n"
                      "planted=counterpoint-$(cat pid)-1\n"
                      "grep ': directory /' output && ! grep $planted output && ls -d $planted",
                      test_dir(), test_build_dir()));
    expect("-v -run dir_mode", 0, ": is mine with mode 700, in one of mine with mode 711\n");
}

/* Root may enter any directory, so the test becomes another user if root runs it. That user may not enter the
 * folder of this program, as in most home directories: the sample is copied. Returns the copy. */
static char *as_user(void)
{
    if (geteuid() != 0)
        return test_command(NULL, "echo -n %s/tests/runner_sample", test_build_dir());
    char *copy =
        test_command(NULL, "cp %s/tests/runner_sample %s && chmod 777 %s && echo -n %s/runner_sample",
                     test_build_dir(), test_dir(), test_dir(), test_dir());
    become_nobody();
    return copy;
}

CP_TEST(directories_that_a_test_has_closed_are_removed)
{
    setenv("TMPDIR", test_dir(), 1);
    sample = as_user();
    expect_no_directory("-v -run closed_dirs", 1);
}

CP_TEST(a_directory_that_cannot_be_is_told)
{
    setenv("TMPDIR", "/", 1);
    sample = as_user();
    expect("-run closed_dirs", 1, "The directory //counterpoint-", ": Permission denied. Set TMPDIR");
}

CP_TEST(subtests_are_a_tree)
{
    expect("-run nested", 1, "--- FAIL: Test_nested (", "\n    --- FAIL: Test_nested/bad (",
           "\n        --- FAIL: Test_nested/bad/third (", "\n        runner_sample.c:", ": third level\n",
           "!good", "!last");
    expect("-run nested -v", 1, "\n=== RUN   Test_nested/good/third\n",
           "\n=== CONT  Test_nested/good\n    runner_sample.c:", ": third passed\n", ": third failed\n",
           "\n        --- PASS: Test_nested/good/third (", "\n    --- PASS: Test_nested/last (");
    expect("-run nested", 1, ": before\n    --- FAIL: Test_nested/bad (",
           ": third failed\n    runner_sample.c:", ": after\n", "!third passed");
    expect("-run square -v", 1, "    --- PASS: Test_square/one (", "    --- PASS: Test_square/two (",
           "    --- FAIL: Test_square/three (", ": 3 became 9\n");
}

CP_TEST(names_are_made_fit)
{
    expect("-run Test_names -v", 0, "RUN   Test_names/same\n", "RUN   Test_names/same#01\n",
           "RUN   Test_names/#00\n", "RUN   Test_names/#01\n", "RUN   Test_names/two_words\n",
           "RUN   Test_names/tab_in\n", "RUN   Test_names/new_line\n", "RUN   Test_names/a/b\n",
           "RUN   Test_names/same#01#01\n", "RUN   Test_names/\xc3\xa4\n", "this is Test_names/_\n");
    expect("-run long_name -v", 0, "--- PASS: Test_long_name/nnn");
}
