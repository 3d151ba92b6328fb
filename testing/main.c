/* The main function of a test program: decides which tests run, in which order, and in which process. */
#include "report.h"

#include "bench_profile.h"
#include "counts.h"
#include "end.h"
#include "process.h"
#include "profile.h"
#include "runtime/base/clock.h"
#include "spread.h"
#include "temp.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tests or benchmarks in the order in which they run. */
struct list {
    const struct cp_test_case **tests;
    size_t count;
};

/* Returns whether the flags choose the test or benchmark, or tests below it. */
static bool is_case_chosen(const struct cp_test_case *test, const struct cp__options *o)
{
    char *name = cp__test_case_name(test);
    bool is = cp__pattern_match(test->is_benchmark ? &o->bench : &o->run, name) &&
              !(o->has_skip && cp__pattern_match_whole(&o->skip, name));
    free(name);
    return is && (!test->is_benchmark || o->has_bench);
}

/* Returns the chosen tests, or the chosen benchmarks; the caller frees "tests". */
static struct list choose_cases(const struct cp__options *o, bool are_benchmarks)
{
    size_t all = 0;
    for (struct cp_test_case *t = cp__test_cases(); t; t = t->next)
        all++;
    struct list list = {.tests = calloc(all + 1, sizeof(list.tests[0]))};
    if (!list.tests)
        abort();
    for (struct cp_test_case *t = cp__test_cases(); t; t = t->next)
        if (t->is_benchmark == are_benchmarks && is_case_chosen(t, o))
            list.tests[list.count++] = t;
    return list;
}

/* Shuffles the list. Equal seeds give equal orders on every machine, so that a failure can be repeated. */
static void shuffle(struct list *list, uint64_t seed)
{
    for (size_t i = list->count; i > 1; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u; /* the generator of Knuth's MMIX */
        size_t j = (size_t)((seed >> 33) % i);
        const struct cp_test_case *test = list->tests[j];
        list->tests[j] = list->tests[i - 1];
        list->tests[i - 1] = test;
    }
}

static void print_case_name(const struct cp__options *o, const char *name)
{
    char *line;
    if (asprintf(&line, "%s\n", name) < 0)
        abort();
    if (o->is_json)
        cp__report_json("output", NULL, -1, line, strlen(line));
    else
        fputs(line, stdout);
    free(line);
}

/* -list: prints the names of the tests that match, and runs nothing. */
static void print_names(const struct cp__options *o)
{
    double started = cp__clock_s();
    for (struct cp_test_case *t = cp__test_cases(); t; t = t->next) {
        char *name = cp__test_case_name(t);
        if (cp__pattern_match(&o->list, name))
            print_case_name(o, name);
        free(name);
    }
    if (o->is_json)
        cp__report_json("pass", NULL, cp__clock_s() - started, NULL, 0);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Returns the time limit of a test in seconds. -timeout takes precedence over the test's own limit. */
static double timeout_of(const struct cp_test_case *test, const struct cp__options *o)
{
    return o->is_timeout_given || test->timeout_s == 0 ? o->timeout_s : test->timeout_s;
}

/* Runs one test. Returns whether the run goes on: it ends after a failure with -failfast, and after a
 * signal. */
static bool run_one(const struct cp_test_case *test, const struct cp__options *o, unsigned cpu)
{
    char *temp_root;
    int temp_result = cp__temp_make(&temp_root);
    struct cp__job job = {
        .test = test, .options = o, .cpu = cpu, .temp_root = temp_root, .temp_error = -temp_result};
    cp__report_cpu(cpu);
    if (o->is_in_process)
        cp__child_run_in_process(&job, cp__report_event);
    else
        cp__process_run(&job, timeout_of(test, o));
    if (temp_result == 0)
        cp__temp_remove(temp_root);
    free(temp_root);
    return !(o->is_fail_fast && cp__report_last_failed()) && cp__process_signal() == 0;
}

/* Runs the chosen tests on each number of threads. Returns whether the run goes on. */
static bool run_tests(const struct cp__options *o)
{
    struct list list = choose_cases(o, false);
    if ((list.count == 0 || o->count == 0) && !o->has_bench)
        cp__report_note("testing: warning: no tests to run\n");
    if (o->is_shuffled) {
        cp__report_note("-test.shuffle %lld\n", (long long)o->shuffle_seed);
        shuffle(&list, (uint64_t)o->shuffle_seed);
    }
    bool goes_on = true;
    for (size_t c = 0; c < o->cpu_count && goes_on; c++)
        for (uint64_t n = 0; n < o->count && goes_on; n++)
            for (size_t i = 0; i < list.count && goes_on; i++)
                goes_on = run_one(list.tests[i], o, o->cpus[c]);
    free(list.tests);
    return goes_on;
}

static void run_benchmarks(const struct cp__options *o)
{
    struct list list = choose_cases(o, true);
    if (o->is_shuffled)
        shuffle(&list, (uint64_t)o->shuffle_seed);
    bool goes_on = true;
    for (size_t i = 0; i < list.count && goes_on; i++)
        for (size_t c = 0; c < o->cpu_count && goes_on; c++) {
            for (uint64_t n = 0; n < o->count && goes_on; n++)
                goes_on = run_one(list.tests[i], o, o->cpus[c]);
            cp__spread_note();
        }
    free(list.tests);
}

/* Checks what the flags' own syntax does not show, such as whether events can be counted and files written.
 * Prints a sentence and exits with status 2 if something is impossible. */
static void prepare(struct cp__options *o, struct cp__profile_flags *profile)
{
    struct cp_error err;
    struct cp__profile_flags bench_profile = *profile;
    struct cp__profile_flags all = *profile;
    bench_profile.file = o->bench_profile;
    memset(bench_profile.contention_files, 0, sizeof bench_profile.contention_files);
    if (o->bench_profile) /* the flags of -cpuprofile are for it, too */
        all.file = o->bench_profile;
    if (cp__profile_flags_lack(&all))
        cp__options_refuse("%s", cp__profile_flags_lack(&all));
    if (profile->file && o->bench_profile && cp__parts_same_file(profile->file, o->bench_profile))
        cp__options_refuse(
            "-cpuprofile and -benchprofile name the same file, \"%s\". Each profile is a file of "
            "its own.",
            o->bench_profile);
    if (o->counters && cp__counts_choose(o->counters, &err) < 0)
        cp__options_refuse("-counters: %s", err.message);
    if (o->bench_profile && cp__bench_profile_open(&bench_profile, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(2);
    }
    cp__profile_start(profile, !o->is_in_process);
}

int cp_test_main(int argc, char **argv, const struct cp_test_main_options *main_options)
{
    static struct cp__options options;
    struct cp__profile_flags profile;
    setvbuf(stdout, NULL, _IOLBF, 0);
    cp__profile_flags_take(&argc, argv, &profile);
    cp__options_parse(&options, argc, argv, main_options);
    options.is_verbose |= options.is_json;
    if (options.is_list) {
        print_names(&options);
        return 0;
    }
    cp__report_begin(&options);
    prepare(&options, &profile);
    if (!options.is_in_process) {
        cp__process_catch_signals();
        cp__end_adopt();
    }
    if (run_tests(&options) && !cp__report_has_failed())
        run_benchmarks(&options);
    cp__end_release();
    bool is_written = cp__bench_profile_write();
    is_written &= cp_testing_stop() == 0;
    int signal_number = cp__process_signal();
    bool is_passed = cp__report_finish(signal_number == 0);
    if (signal_number != 0)
        raise(signal_number);
    return is_passed && is_written ? 0 : 1;
}
