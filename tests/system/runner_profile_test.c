/* All processes of the runner write one profile, which go tool pprof reads. The program is
 * profiled_sample.c. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TASK_CLOCK "-cpuprofileevent=taskClock -cpuprofileperiod=1000000"

static char *run_sample(int *status, const char *arguments)
{
    return test_command(status, "%s/tests/profiled_sample %s", test_build_dir(), arguments);
}

/* Runs the sample in the test's directory, so that file names need no path. */
static char *run_sample_here(int *status, const char *arguments)
{
    return test_command(status, "program=$(realpath %s/tests/profiled_sample) && cd %s && $program %s",
                        test_build_dir(), test_dir(), arguments);
}

static char *pprof(const char *arguments, const char *file)
{
    return test_command(NULL, "go tool pprof %s %s/%s 2> /dev/null", arguments, test_dir(), file);
}

CP_TEST(all_tests_are_in_one_profile)
{
    free(run_sample_here(NULL, "-cpuprofile=x.pb.gz -run 'one|two' " TASK_CLOCK));
    char *top = pprof("-top -nodefraction=0", "x.pb.gz");
    CHECK_CONTAINS(top, "event: taskClock\n");
    CHECK_CONTAINS(top, " burn_one");
    CHECK_CONTAINS(top, " burn_two");
    free(top);
}

CP_TEST(without_an_event_it_is_the_timer)
{
    free(run_sample_here(NULL, "-test.cpuprofile x.pb.gz -run one"));
    char *raw = pprof("-raw", "x.pb.gz");
    CHECK_CONTAINS(raw, "PeriodType: cpu nanoseconds");
    CHECK_CONTAINS(raw, "\nPeriod: 10000000\n");
    CHECK_CONTAINS(raw, " burn_one");
    free(raw);
}

/* Go's flags, beside a profile of CPU time. */
CP_TEST(waits_are_in_profiles_as_gos_are)
{
    free(run_sample_here(NULL, "-cpu 1 -run waits -cpuprofile=x.pb.gz -blockprofile b.pb.gz "
                               "-test.mutexprofile=m.pb.gz"));
    char *raw = pprof("-raw", "x.pb.gz");
    CHECK_CONTAINS(raw, "PeriodType: cpu nanoseconds");
    free(raw);
    raw = pprof("-raw", "b.pb.gz");
    CHECK_CONTAINS(raw, "PeriodType: contentions count\nPeriod: 1\n");
    CHECK_CONTAINS(raw, "contentions/count delay/nanoseconds[dflt]\n");
    CHECK_CONTAINS(raw, " receive_here ");
    free(raw);
    raw = pprof("-top -sample_index=contentions -focus=send_here", "m.pb.gz");
    CHECK_CONTAINS(raw, " 5   100%   100%");
    free(raw);
}

CP_TEST(flags_of_contentions_may_be_wrong)
{
    static const struct {
        const char *flags, *said;
    } wrong[] = {
        {"-blockprofile= x", "-blockprofile must name the file"},
        {"-mutexprofile= x", "-mutexprofile must name the file"},
        {"-blockprofilerate 5", "-blockprofilerate is for -blockprofile and -mutexprofile."},
        {"-blockprofile b.pb.gz -blockprofilerate 0",
         "must be a number of ns, at least 1, and \"0\" is not."},
        {"-blockprofile b.pb.gz -mutexprofile ./b.pb.gz", "Each profile is a file of its own."},
        {"-blockprofile b.pb.gz -cpuprofile x.pb.gz -cpuprofileevent wait",
         "The event wait was given twice."},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char arguments[200];
        int status;
        snprintf(arguments, sizeof(arguments), "%s 2>&1; s=$?; ls *.gz 2>&1; exit $s", wrong[i].flags);
        char *said = run_sample_here(&status, arguments);
        CHECKF(status == 2, "%s: %d", wrong[i].flags, status);
        CHECK_CONTAINS(said, wrong[i].said);
        CHECK_CONTAINS(said, "No such file");
        free(said);
    }
}

/* The samples of the process that crashed are lost, and no others. */
CP_TEST(a_test_that_crashes_takes_no_others_samples_along)
{
    test_need_events();
    int status;
    char *output = run_sample_here(&status, "-cpuprofile=x.pb.gz " TASK_CLOCK);
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "--- FAIL: Test_crashes");
    free(output);
    char *top = pprof("-top -nodefraction=0", "x.pb.gz");
    CHECK_CONTAINS(top, " burn_one");
    CHECK_CONTAINS(top, " burn_two");
    CHECKF(!strstr(top, "burn_before_exit"), "%s", top);
    free(top);
}

/* Returns pprof's report of one benchmark's samples, which its label selects. */
static char *focused(const char *benchmark)
{
    char arguments[200];
    snprintf(arguments, sizeof(arguments), "-top -nodefraction=0 -tagfocus 'benchmark=^%s$'", benchmark);
    return pprof(arguments, "b.pb.gz");
}

CP_TEST(a_bench_profile_has_the_loops_by_their_names)
{
    test_need_events();
    free(run_sample_here(NULL, "-run '^$' -bench . -benchtime 20x -cpu 2 -benchprofile=b.pb.gz " TASK_CLOCK));
    char *all = pprof("-top -nodefraction=0", "b.pb.gz");
    CHECK_CONTAINS(all, " burn_loop");
    CHECK_CONTAINS(all, " burn_g");
    CHECKF(!strstr(all, "burn_setup"), "%s", all);
    free(all);

    char *loop = focused("Benchmark_loop-2");
    CHECK_CONTAINS(loop, " burn_loop");
    CHECKF(!strstr(loop, "burn_g"), "%s", loop);
    free(loop);

    char *paused = focused("Benchmark_paused-2");
    CHECK_CONTAINS(paused, " burn_loop");
    CHECKF(!strstr(paused, "burn_paused"), "%s", paused);
    free(paused);

    char *gs = focused("Benchmark_gs-2");
    CHECK_CONTAINS(gs, " burn_g");
    CHECKF(!strstr(gs, "burn_loop"), "%s", gs);
    free(gs);
}

CP_TEST(both_profiles_and_counters_get_on)
{
    test_need_events();
    char *output =
        run_sample_here(NULL, "-run one -bench loop -benchtime 50x -counters taskClock -benchprofile=b.pb.gz "
                              "-cpuprofile=x.pb.gz " TASK_CLOCK);
    CHECK_CONTAINS(output, " taskClock-ns/op");
    free(output);
    char *all = pprof("-top -nodefraction=0", "x.pb.gz"), *loop = focused("Benchmark_loop.*");
    CHECK_CONTAINS(all, " burn_one");
    CHECK_CONTAINS(all, " burn_setup");
    CHECK_CONTAINS(all, " burn_loop");
    CHECK_CONTAINS(loop, " burn_loop");
    free(all);
    free(loop);
}

CP_TEST(where_nothing_runs_there_is_no_profile)
{
    char *output = run_sample_here(NULL, "-run nothing -cpuprofile=x.pb.gz; ls x.pb.gz 2>&1 || true");
    CHECK_CONTAINS(output, "x.pb.gz is not written: no process");
    CHECK_CONTAINS(output, "testing: warning: no tests to run");
    CHECK_CONTAINS(output, "No such file");
    free(output);
}

/* If two profiles had the same file, the second would overwrite the first. */
CP_TEST(two_profiles_are_two_files)
{
    static const char *const same[] = {
        "-cpuprofile x.pb.gz -benchprofile x.pb.gz",
        "-cpuprofile x.pb.gz -benchprofile ./x.pb.gz",
        "-cpuprofile sub/../x.pb.gz -benchprofile $PWD/x.pb.gz",
        "-cpuprofile x.pb.gz -benchprofile x.pb.gz -cpuprofileevent timer,taskClock",
        "-cpuprofile there.pb.gz -benchprofile link.pb.gz",
    };
    static const char *const different[] = {
        "-cpuprofile x.pb.gz -benchprofile y.pb.gz",
        "-cpuprofile x.pb.gz -benchprofile sub/x.pb.gz",
        "-cpuprofile there.pb.gz -benchprofile x.pb.gz",
        "-cpuprofile /dev/null -benchprofile /dev/null",
    };
    free(test_command(NULL, "cd %s && mkdir sub && touch there.pb.gz && ln -s there.pb.gz link.pb.gz",
                      test_dir()));
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        int status;
        char *output = run_sample_here(&status, same[i]);
        CHECKF(status == 2 && strstr(output, "-cpuprofile and -benchprofile name the same file, \""),
               "%s: %d, %s", same[i], status, output);
        free(output);
    }
    for (size_t i = 0; i < sizeof(different) / sizeof(different[0]); i++) {
        char arguments[200];
        snprintf(arguments, sizeof(arguments), "-run one %s", different[i]);
        free(run_sample_here(NULL, arguments));
    }
}

CP_TEST(what_cannot_be_profiled_ends_in_a_sentence)
{
    int status;
    char *output = run_sample(&status, "-bench . -benchprofile /nowhere/b.pb.gz");
    CHECK_EQ(status, 2);
    CHECK_CONTAINS(output, "/nowhere");
    CHECKF(!strstr(output, "PASS"), "%s", output);
    free(output);

    output = run_sample(&status, "-cpuprofileevent taskClock");
    CHECK_EQ(status, 2);
    CHECK_CONTAINS(output, "-cpuprofile must name the file");
    free(output);
}
