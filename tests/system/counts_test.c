/*
 * Benchmarks with counters, run in counts_sample.c. If the machine takes the same time for each instruction,
 * CP_TEST_CPI is the number of cycles that it takes.
 */
#include "runtime.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR(value, expected) ((value) > 0.995 * (expected) && (value) < 1.005 * (expected))

/* Runs the sample and returns its output. */
static char *run_sample(int *status, const char *arguments)
{
    return test_command(status, "%s/tests/counts_sample -run '^$' %s", test_build_dir(), arguments);
}

/* Returns the figure that stands before a unit on a benchmark's line. */
static double figure(const char *output, const char *unit)
{
    char word[100];
    const char *line = strstr(output, "Benchmark_");
    snprintf(word, sizeof(word), " %s", unit);
    const char *end = line ? strstr(line, word) : NULL;
    CHECKF(end, "no %s in:\n%s", unit, output);
    while (end > line && end[-1] != '\t')
        end--;
    return strtod(end, NULL);
}

static void need_instructions(void)
{
    struct cp_error err;
    struct cp_event_spec spec = {.size = sizeof spec};
    CHECK_EQ(cp_event_parse("instructions", &spec, &err), 0);
    if (cp_event_probe(&spec, &err) < 0)
        SKIP("%s", err.message);
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer has instructions of its own");
}

/* Checks the instructions for each cycle if CP_TEST_CPI says how many the machine takes. */
static void check_ipc(const char *output)
{
    const char *cpi = getenv("CP_TEST_CPI");
    double ipc = figure(output, "IPC");
    CHECKF(ipc > 0 && (!cpi || NEAR(ipc, 1 / strtod(cpi, NULL))), "%s", output);
}

static void check_instructions(const char *arguments, double expected)
{
    need_instructions();
    char *output = run_sample(NULL, arguments);
    CHECKF(NEAR(figure(output, "instructions/op"), expected), "%s", output);
    check_ipc(output);
    free(output);
}

CP_TEST(instructions_are_those_of_the_loop)
{
    check_instructions("-bench instructions -benchtime 20x -counters cycles,instructions", 1e6);
}

CP_TEST(what_is_paused_and_what_stands_around_it_does_not_count)
{
    check_instructions("-bench paused -benchtime 20x -counters instructions,cycles", 1e6);
}

CP_TEST(all_threads_that_run_its_gs_count)
{
    check_instructions("-bench gs -benchtime 20x -cpu 2 -counters cycles,instructions", 1e7);
}

CP_TEST(figures_stand_in_the_order_of_the_flag)
{
    need_instructions();
    char *output =
        run_sample(NULL, "-bench instructions -benchtime 2x -counters instructions,taskClock,cycles");
    const char *instructions = strstr(output, " instructions/op"),
               *clock = strstr(output, " taskClock-ns/op"), *cycles = strstr(output, " cycles/op"),
               *ipc = strstr(output, " IPC");
    CHECKF(instructions && instructions < clock && clock < cycles && cycles < ipc, "%s", output);
    free(output);
}

/* More events than any processor has counters. */
CP_TEST(what_took_turns_is_marked)
{
    need_instructions();
    char *output =
        run_sample(NULL, "-bench instructions -benchtime 300ms -counters "
                         "instructions,instructions:k,instructions:uk,cycles,cycles:k,cycles:uk,"
                         "branches,branches:k,branches:uk,branchMisses,branchMisses:k,r1,r2,r3,r4,r5");
    if (!strstr(output, "%instructions"))
        SKIP("this processor counts all of these at once:\n%s", output);
    double percent = figure(output, "%instructions");
    CHECKF(percent > 0 && percent < 100, "%s", output);
    free(output);
}

CP_TEST(software_events_count_everywhere)
{
    test_need_events();
    char *output = run_sample(NULL, "-bench pages -benchtime 100x -counters pageFaults,taskClock");
    double faults = figure(output, "pageFaults/op");
    /* ThreadSanitizer's shadows are pages, too */
    CHECKF(faults >= 8 && (faults < 9 || TEST_TSAN), "%s", output);
    CHECKF(figure(output, "taskClock-ns/op") > 0, "%s", output);
    free(output);
}

CP_TEST(what_cannot_be_counted_is_told_once_and_left_out)
{
    test_need_events();
    char *output = run_sample(NULL, "-bench pages -benchtime 10x -count 3 -counters timer,pageFaults");
    const char *reason = strstr(output, "# no timer: ");
    CHECKF(reason && !strstr(reason + 1, "# no timer: "), "%s", output);
    CHECKF(!strstr(output, "timer/op") && figure(output, "pageFaults/op") >= 8, "%s", output);
    free(output);
}

/* Each event can run, but not all of them together. */
CP_TEST(events_that_there_is_no_room_for_are_told)
{
    int status;
    char *output = run_sample(&status, "-bench pages -benchtime 10x -counters "
                                       "mem:0x1000/8:w,mem:0x1008/8:w,mem:0x1010/8:w,mem:0x1018/8:w,"
                                       "mem:0x1020/8:w,mem:0x1028/8:w,pageFaults");
    if (strstr(output, "# no mem:"))
        SKIP("%s", output);
    CHECK_EQ(status, 0);
    figure(output, "mem:0x1000/8:w/op");
    figure(output, "pageFaults/op");
    CHECKF(strstr(output, "mem:0x1028/8:w/op") ||
               strstr(output, "    mem:0x1028/8:w is not counted: The event"),
           "%s", output);
    free(output);
}

CP_TEST(an_event_that_makes_no_sense_ends_with_the_usage)
{
    int status;
    char *output = run_sample(&status, "-bench pages -counters pageFaults,cycels");
    CHECK_EQ(status, 2);
    CHECK_CONTAINS(output, "cycels");
    CHECK_CONTAINS(output, "usage: ");
    free(output);
}
