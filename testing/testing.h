/*
 * counterpoint/testing.h: flags for profiles in any test program, and tests and benchmarks in the manner of
 * Go's package testing.
 *
 * The flags are those of the Go proposal "hardware performance counters for CPU profiling"
 * (golang.org/issue/36821, section 4.5); counters in benchmarks are golang.org/issue/21295.
 *
 * Threads and signals: calls may be made from any thread unless said otherwise, but none from a signal
 * handler.
 */
#ifndef COUNTERPOINT_TESTING_H
#define COUNTERPOINT_TESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Profiles of any test program ------------------------------------------------------------ */

/*
 *     int main(int argc, char **argv)
 *     {
 *         cp_testing_start(&argc, argv);
 *         int failed = ...;            the tests, run by whatever runs them
 *         return cp_testing_stop() || failed;
 *     }
 *
 * Removes these flags from argv, if they come before a "--", and starts the profile that they describe:
 *
 *     -cpuprofile FILE           the file for the profile; without it, nothing is profiled
 *     -cpuprofileevent EVENT     what triggers samples, as cp_event_parse() reads it; by default timer.
 *                                Several events, separated by commas, get a file each: x.pb.gz becomes
 *                                x.timer.pb.gz, x.taskClock.pb.gz, ... An event may end in a period of its
 *                                own, as cp_event_take_period() reads it: taskClock:1ms,pageFaults:100
 *     -cpuprofileperiod N        events (ns for clocks) between two samples, for the events that have no
 *                                period of their own; by default each event's preset. The flag is ignored for
 *                                the timer, which has 100 samples per second, and refused for clocks and
 *                                other events at once, because these count different things
 *     -cpuprofileengine ENGINE   trap or signal: how samples get out of threads (enum cp_engine); not for the
 *                                timer
 *     -blockprofile FILE         the file for a profile of where the program has waited, as Go's flag of that
 *                                name: the event wait, with Go's types (CP_OPTION_CONTENTIONS)
 *     -mutexprofile FILE         the same for who has made others wait: the event lock
 *     -blockprofilerate NS       the period of both in ns, by default 1, which records all waits
 *
 * Each flag may also have two dashes, be written -test.NAME, and be given as NAME=VALUE. The calling thread
 * becomes an M. If a flag is wrong or the profile cannot be started, a sentence on stderr says why, and the
 * program ends: with status 3 if this machine refuses one of the events, which may work elsewhere, and
 * otherwise with status 2. Call this function once, before there are tests, in the process that starts them.
 * If the program calls exit(), the profile is stopped and written.
 */
void cp_testing_start(int *argc, char **argv);

/* Stops the profile, adds the children's samples, and writes it. If the profile is empty, a sentence on
 * stderr says why, as cp_merge_warning() does. Returns 0, also if there is no profile.
 * Returns 1 if the profile could not be written or some samples could not be read; stderr then says why, and
 * in which directory everything is kept. */
int cp_testing_stop(void);

/*
 * For runners that run each test in a process of its own: call these functions in that process before and
 * after the test, on the test's thread, which becomes an M. The samples become part of the one profile. If
 * the process is killed in between, or ends by _exit(), its samples are lost, and stderr says so. The
 * process may have been forked, or started anew with the same environment. In the runner's own process,
 * which is profiled anyway, the calls do nothing. The samples are kept in a directory in TMPDIR or /tmp.
 */
void cp_testing_child_start(void);
void cp_testing_child_stop(void);

/* ---- Tests ----------------------------------------------------------------------------------- */

/*
 *     CP_TEST(reverse)
 *     {
 *         if (strcmp(reverse("abc"), "cba") != 0)
 *             cp_t_error(t, "abc became %s", reverse("abc"));
 *     }
 *
 *     CP_BENCHMARK(reverse)
 *     {
 *         for (; cp_bench_next(b);)
 *             reverse("abc");
 *     }
 *
 *     CP_TEST_MAIN()
 *
 * The program's flags are those of a Go test program: -run, -bench, -v, -count, ...; -help lists them.
 * Regular expressions are POSIX extended ones, which have [0-9] but no \d. Each test runs in a process of
 * its own, as the first G of a scheduler (sched.h) with -cpu Ms. The stacks of the test and of its Gs have
 * 256 KiB; code that needs more takes a thread, or the program has a "run" of its own (see below). The test
 * ends when its function returns, and fails if Gs are left then. A test named "reverse" is reported as
 * "Test_reverse", one named "Reverse" as "TestReverse".
 *
 * What a test prints to stdout and stderr is shown as it comes with -v, and otherwise only if the test
 * fails. Of long output, as of long logs, only 256 KiB from the beginning and from the end are then shown.
 * Both outputs are a pipe.
 */

/* A test or a benchmark that runs. */
struct cp_t {
    uint64_t left; /* for cp_bench_next() only */
};

/* A test, as the macros describe it; they accept timeout_s: CP_TEST(name, .timeout_s = 60). */
struct cp_test_case {
    const char *name;
    void (*run)(struct cp_t *t);
    bool is_benchmark;
    double timeout_s; /* seconds, unless -timeout is given; 0: the default of -timeout */
    struct cp_test_case *next;
};
/* Adds a test, which must live as long as the program. Tests run in the order in which they were added. */
void cp_test_add(struct cp_test_case *test);

/* Define a test or a benchmark: CP_TEST(name) or CP_TEST(name, .member = value). The macros append
 * arguments for a member that is not given, and because "..." must not be empty before C23 and C++20. */
#define CP_TEST(...) CP_TEST_CASE(Test, t, false, __VA_ARGS__, .next = 0, 0)
#define CP_BENCHMARK(...) CP_TEST_CASE(Benchmark, b, true, __VA_ARGS__, .next = 0, 0)
#define CP_TEST_CASE(kind, t, is_benchmark_, name_, member, ...)                                             \
    static void kind##_##name_(struct cp_t *t);                                                              \
    __attribute__((constructor)) static void kind##_##name_##_add(void)                                      \
    {                                                                                                        \
        static struct cp_test_case test = {#name_, kind##_##name_, is_benchmark_, 0, 0};                     \
        test member;                                                                                         \
        cp_test_add(&test);                                                                                  \
    }                                                                                                        \
    static void kind##_##name_(struct cp_t *t __attribute__((unused)))

/*
 * A test with a subtest for each row of an array, named by the row's member "name":
 *
 *     static const struct row { const char *name, *in, *out; } rows[] = {{"empty", "", ""}, ...};
 *     CP_TEST_TABLE(reverse, rows)
 *     {
 *         if (strcmp(reverse(row->in), row->out) != 0) ...
 *     }
 */
#define CP_TEST_TABLE(...) CP_TEST_TABLE_(__VA_ARGS__, .next = 0, 0)
#define CP_TEST_TABLE_(name_, rows, member, ...)                                                             \
    static void Test_##name_##_row(struct cp_t *t, const __typeof__((rows)[0]) *row);                        \
    static void Test_##name_##_call(struct cp_t *t, void *row)                                               \
    {                                                                                                        \
        Test_##name_##_row(t, (const __typeof__((rows)[0]) *)row);                                           \
    }                                                                                                        \
    CP_TEST(name_, member)                                                                                   \
    {                                                                                                        \
        for (size_t i = 0; i < sizeof(rows) / sizeof((rows)[0]); i++)                                        \
            cp_t_run(t, (rows)[i].name, Test_##name_##_call, CP_TEST_UNCONST(&(rows)[i]));                   \
    }                                                                                                        \
    static void Test_##name_##_row(struct cp_t *t __attribute__((unused)), const __typeof__((rows)[0]) *row)
#define CP_TEST_UNCONST(p) ((void *)(uintptr_t)(p))

/* What cp_test_main() does unless flags say otherwise. */
struct cp_test_main_options {
    size_t size;      /* sizeof(struct cp_test_main_options) as the caller compiled it */
    double timeout_s; /* time limit of each test in seconds; 0: 600 */
    /* Calls fn(arg) on a runtime with so many Ms, and returns 0 when fn() has returned, or a negative errno
     * value if fn() was not called. NULL: cp_sched_run() does that. A program whose tests need a plain thread
     * calls fn() itself here. */
    int (*run)(void (*fn)(void *), void *arg, unsigned threads, struct cp_error *err);
    /* A test whose processes have used no CPU time for so many seconds, although they have not ended, is
     * taken for hanging: the test fails at once, with its stacks, instead of when its time is over. 0: a
     * test may sleep without limit. */
    unsigned idle_s;
};

/* Runs what the flags say, and returns the exit status: 0; 1 if something failed; 2 if a flag is wrong. If
 * the machine refuses an event, the program ends as with cp_testing_start(). options may be NULL. */
int cp_test_main(int argc, char **argv, const struct cp_test_main_options *options);
#define CP_TEST_MAIN()                                                                                       \
    int main(int argc, char **argv)                                                                          \
    {                                                                                                        \
        return cp_test_main(argc, argv, NULL);                                                               \
    }

/*
 * Helpers for tests and benchmarks; formats are those of printf(). Logs are shown with file and line; those
 * of a test that passes only with -v. Calls that end a test (fatal, skip, fail_now) end only this test or
 * subtest if they are made on the thread or G that the test runs on; the stack is not unwound, so C++
 * destructors and cleanup attributes do not run, but functions of cp_t_cleanup() do. On another thread or G,
 * such a call ends the process, and with it all tests that run. In a process that the test has forked, such
 * a call ends that process, with status 1, or 77 for a skip.
 */
#define cp_t_log(t, ...) cp_t_report((t), CP_T_LOG, __FILE__, __LINE__, __VA_ARGS__)
/* Logs and marks the test as failed; the test goes on. */
#define cp_t_error(t, ...) cp_t_report((t), CP_T_ERROR, __FILE__, __LINE__, __VA_ARGS__)
/* Logs, marks the test as failed, and ends it. */
#define cp_t_fatal(t, ...) cp_t_report_and_end((t), CP_T_FATAL, __FILE__, __LINE__, __VA_ARGS__)
/* Logs and ends the test, which counts as skipped unless it has failed. */
#define cp_t_skip(t, ...) cp_t_report_and_end((t), CP_T_SKIP, __FILE__, __LINE__, __VA_ARGS__)

/* For the four macros above: a report of a test, and one that ends the test. */
enum cp_t_report { CP_T_LOG = 0, CP_T_ERROR = 1, CP_T_FATAL = 2, CP_T_SKIP = 3 };
void cp_t_report(struct cp_t *t, enum cp_t_report kind, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void cp_t_report_and_end(struct cp_t *t, enum cp_t_report kind, const char *file, int line,
                         const char *format, ...) __attribute__((noreturn, format(printf, 5, 6)));

/* Returns the test that runs in this process, or the innermost of its subtests that run; NULL if no test
 * runs. For code that has no "t". */
struct cp_t *cp_t_self(void);
/* Marks the test as failed; the test goes on. */
void cp_t_fail(struct cp_t *t);
/* Marks the test as failed, and ends it. */
void cp_t_fail_now(struct cp_t *t) __attribute__((noreturn));
/* Returns whether the test is marked as failed. */
bool cp_t_failed(const struct cp_t *t);
/* Returns the full name, "Test_reverse/empty", which is valid as long as the test runs. */
const char *cp_t_name(const struct cp_t *t);
/* Returns on how many Ms the test runs, the value of -cpu. */
unsigned cp_t_cpu(const struct cp_t *t);
/* Makes fn(arg) be called when the test has ended in any way except a crash. The function added last is
 * called first. */
void cp_t_cleanup(struct cp_t *t, void (*fn)(void *arg), void *arg);
/* Returns the absolute path of a directory for the test's files. The first call makes the directory, which
 * only this user may enter, with a name that nobody can foresee. It is removed after the test, even after a
 * crash. */
const char *cp_t_temp_dir(struct cp_t *t);

/* Runs a subtest (of a benchmark: a sub-benchmark) on the calling thread or G, waits for its end, and
 * returns whether it passed. The subtest's full name is the test's name, a slash, and "name" with "_" for
 * blanks; if that name was used before, "#01" and so on is appended; an empty name becomes "#00". A subtest
 * that -run or -bench does not choose is left out, and counts as passed. */
bool cp_t_run(struct cp_t *t, const char *name, void (*fn)(struct cp_t *t, void *arg), void *arg);

/* ---- Benchmarks ------------------------------------------------------------------------------ */

/* For cp_bench_next() only. */
bool cp_bench_next_slow(struct cp_t *b);

/*
 * Returns whether the benchmark's loop goes on, which it does until -benchtime is over. The first call
 * starts the clock, the counters and the profile, and the last call stops them; code before and after the
 * loop is not measured. A benchmark has one such loop, on the thread or G that it was called on. A benchmark
 * that leaves the loop otherwise, by break or return, fails, unless it fails or skips anyway.
 */
static inline bool cp_bench_next(struct cp_t *b)
{
    if (__builtin_expect(b->left != 0, 1)) {
        b->left--;
        return true;
    }
    return cp_bench_next_slow(b);
}

/* Pause and resume the measurement in the loop: what happens between the two calls is not measured. If
 * there are counters or a profile, each call costs some microseconds. -benchtime counts measured time
 * only, so a loop that spends most of its time in pauses takes much longer; -benchtime 100x limits the
 * iterations instead. */
void cp_bench_pause(struct cp_t *b);
void cp_bench_resume(struct cp_t *b);
/* Returns the loop's iterations so far; after the loop, all of them. */
uint64_t cp_bench_iterations(const struct cp_t *b);
/* Sets how many bytes an iteration processes, which are shown as MB/s. */
void cp_bench_set_bytes(struct cp_t *b, uint64_t bytes);
/* Sets a figure of the benchmark's own. The figure replaces an earlier one with that unit, or the measured
 * one, such as "ns/op" or "cycles/op"; a value of 0 leaves "ns/op" or "MB/s" out. The unit is one word, such
 * as "hits/op". If the unit is something else, or the value is not a finite number, the benchmark fails and
 * ends. */
void cp_bench_metric(struct cp_t *b, double value, const char *unit);

#ifdef __cplusplus
}
#endif
#endif
