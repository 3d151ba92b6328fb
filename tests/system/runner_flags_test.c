/* The flags of the runner (testing/): which tests run, how often, and where. */
#include "tests/support/runner_tools.h"

/* Checks which tests and subtests ran: their names in their order, each followed by a space. */
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
    expect("-run self -shuffle -5", 0, "-test.shuffle -5\n");
    expect("-run self -shuffle 0", 0, "-test.shuffle 0\n");
    expect("-run self -shuffle on", 0, "-test.shuffle ");
    expect("-run self -shuffle off", 0, "PASS", "!shuffle");
}

CP_TEST(flags_say_how_often_where_and_how_long)
{
    expect_runs("-run self -count 3", "Test_self Test_self Test_self ");
    expect_runs("-run self -bench empty -count 0", "");
    expect("-run self -count 0", 0, "testing: warning: no tests to run\nPASS\n");
    expect_runs("-failfast -run 'fail_error|fail_fatal|self'", "Test_fail_error ");
    expect_runs("-failfast=false -run 'fail_fatal|self'", "Test_fail_fatal Test_self ");
    expect("-run cpu -v -cpu 1,3", 0, ": on 1\n", ": on 3\n");
    expect("-run stack -v", 0, ": its stack has 262144 bytes\n"); /* the size that testing.h names */
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
    static const struct {
        const char *flags, *says;
    } bad[] = {
        {"-run '('", "-run must be a regular expression for each level of a name, and \"(\" is not. "},
        {"-run 'a/*('", "-run must be "},
        {"-skip '['", "-skip must be "},
        {"-bench '('", "-bench must be "},
        {"-list '('", "-list must be "},
        {"-benchtime 100",
         "-benchtime must be a time such as 1s or 300ms, or a number of iterations such as 100x, "
         "and \"100\" is not.\n"},
        {"-benchtime 0x", "\"0x\" is not.\n"},
        {"-benchtime x", "\"x\" is not.\n"},
        {"-benchtime -1s", "\"-1s\" is not.\n"},
        {"-benchtime 1y", "\"1y\" is not.\n"},
        {"-count -1", "-count must be a number from 0, and \"-1\" is not.\n"},
        {"-count 1x", "\"1x\" is not.\n"},
        {"-count ''", "\"\" is not.\n"},
        {"-cpu 0",
         "-cpu must be a number of threads from 1 to 1024, or up to 64 of them with commas between, and "
         "\"0\" is not.\n"},
        {"-cpu 1025", "\"1025\" is not.\n"},
        {"-cpu 1,", "\"1,\" is not.\n"},
        {"-cpu ,1", "\",1\" is not.\n"},
        {"-cpu a", "\"a\" is not.\n"},
        {"-timeout 5", "-timeout must be a time such as 5s or 1h30m, or 0 for none, and \"5\" is not.\n"},
        {"-timeout -1s", "\"-1s\" is not.\n"},
        {"-timeout 1ss", "\"1ss\" is not.\n"},
        {"-shuffle x", "-shuffle must be on, off or a whole number, and \"x\" is not.\n"},
        {"-shuffle 1.5", "\"1.5\" is not.\n"},
        {"-shuffle 9223372036854775808", "\"9223372036854775808\" is not.\n"},
        {"-v=perhaps", "-v must be true or false, and \"perhaps\" is not.\n"},
        {"-failfast=2", "-failfast must be true or false"},
        {"-json=yes", "-json must be true or false"},
        {"-tap=", "-tap must be true or false"},
        {"-inprocess=maybe", "-inprocess must be true or false"},
        {"-counters ''", "-counters must be events with commas between, and \"\" is not.\n"},
        {"-benchprofile ''", "-benchprofile must be the file for the profile, and \"\" is not.\n"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect(bad[i].flags, 2, bad[i].says,
               "\nusage: runner_sample [-FLAG [VALUE]]...; -help lists the flags\n", "!-run REGEX");
    expect("-unknown", 2, "unrecognized option '-unknown'", "usage: ", "\n  -run REGEX");
    expect("-run", 2, "requires an argument", "usage: ");
    expect("-tap -json", 2, "-tap and -json are two forms of one report. Give one of them.\nusage: ");
    expect("-tap -json -tap=false -run self", 0, "{\"Time\":");
    expect("self", 2, "\"self\" is not a flag. Name tests by -run.", "usage: ");
    expect("-help", 0, "usage: runner_sample", "-benchtime 1s|100x");
    expect("--help", 0, "usage: runner_sample");
}
