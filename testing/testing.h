/*
 * counterpoint/testing.h: profiles by flags for any test program, and tests and benchmarks in the manner of
 * Go's package testing.
 *
 * The flags are those of the Go proposal "hardware performance counters for CPU profiling"
 * (golang.org/issue/36821, section 4.5); counters in benchmarks are golang.org/issue/21295.
 *
 * Threads and signals: calls may be made from any thread unless said otherwise, none from a signal handler.
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
 * Takes these flags out of argv, wherever they stand before a "--", and starts the profile that they ask for:
 *
 *     -cpuprofile FILE           where the profile goes; nothing is profiled without it
 *     -cpuprofileevent EVENT     what samples are taken by, as cp_event_parse() reads it; by default timer.
 *                                Several, with commas between, give a file each: x.pb.gz becomes
 *                                x.timer.pb.gz, x.taskClock.pb.gz, ...
 *     -cpuprofileperiod N        events (ns for clocks) between two samples; by default the event's preset;
 *                                ignored for the timer, which has 100 samples a second
 *
 * each also with two dashes, as -test.NAME, and as NAME=VALUE. The calling thread becomes an M. If a flag is
 * wrong, or the profile cannot be started, a sentence on stderr says why and the program ends: with status 3
 * if this machine refuses one of the events, which would run elsewhere, and with status 2 otherwise. Call it
 * once, before there are tests, and from the process that starts them. A program that calls exit() stops by
 * it.
 */
void cp_testing_start(int *argc, char **argv);

/* Stops the profile, adds those of the children to it, and writes it. 0, also where there is none; 1, with
 * the reason on stderr, where it could not be written, or not all of it be read; then stderr also says in
 * which directory everything is kept. */
int cp_testing_stop(void);

/*
 * For runners with a process for each test: the same in such a process, before its test and after it, on the
 * thread that the test runs on, which becomes an M. What they have sampled becomes part of the one profile.
 * Of a process that is killed in between, or leaves by _exit(), nothing does, and stderr says so. The process
 * may have been forked, or started anew with the same environment; where it is the runner's own, whose
 * profile goes on, nothing happens. The directory for it is made in TMPDIR, or /tmp.
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
 * The program's flags are those of a Go test's program: -run, -bench, -v, -count, ...; -help lists them.
 * Regular expressions are POSIX's extended ones, which have [0-9] and no \d. Each test is called in a
 * process of its own, as the first G of a scheduler (sched.h) with -cpu Ms. Its stack and those of its Gs
 * have 256 KiB; what needs more takes a thread, or a "run" of the program's own (see below). It ends when
 * its function returns; Gs that are left then make it fail. A test named "reverse" is reported as
 * "Test_reverse", one named "Reverse" as "TestReverse".
 *
 * What a test prints to stdout and stderr is shown with -v, as it comes, and otherwise if the test fails; of
 * very much only 256 KiB of the beginning and of the end then, as of what it logs. Both outputs are a pipe.
 */

/* A test or a benchmark while it runs. */
struct cp_t {
    uint64_t left; /* for cp_bench_next() only */
};

/* What the macros tell about a test; timeout_s can be given to them: CP_TEST(name, .timeout_s = 60). */
struct cp_test_case {
    const char *name;
    void (*run)(struct cp_t *t);
    bool is_benchmark;
    double timeout_s; /* instead of -timeout's default; 0: that */
    struct cp_test_case *next;
};
/* Adds a test; they run in the order in which they were added. */
void cp_test_add(struct cp_test_case *test);

/* CP_TEST(name) or CP_TEST(name, .member = value). What is added to the arguments stands for a member that is
 * not given, and for the "..." that must not be empty before C23 and C++20. */
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

/* How cp_test_main() runs things where it is not asked by flags. */
struct cp_test_main_options {
    size_t size;      /* sizeof(struct cp_test_main_options) as the caller compiled it */
    double timeout_s; /* of each test; 0: 600 */
    /* Calls fn(arg) on a runtime with so many Ms and returns 0 when it has returned, or a negative errno
     * value where it was not called. NULL: cp_sched_run() does it. A program whose tests want a plain thread
     * calls fn itself here. */
    int (*run)(void (*fn)(void *), void *arg, unsigned threads, struct cp_error *err);
    /* A test whose processes use no CPU time for so many seconds, though they have not ended, hangs: it
     * fails then, with its stacks, and not only when its time is over. 0: a test may sleep for as long as
     * it likes. */
    unsigned idle_s;
};

/* Runs what the flags say and returns the exit status: 0; 1 if something failed; 2 for bad flags. A refused
 * event ends the program as cp_testing_start() says. options may be NULL. */
int cp_test_main(int argc, char **argv, const struct cp_test_main_options *options);
#define CP_TEST_MAIN()                                                                                       \
    int main(int argc, char **argv)                                                                          \
    {                                                                                                        \
        return cp_test_main(argc, argv, NULL);                                                               \
    }

/*
 * Helpers, for tests and benchmarks alike; formats are printf's. What is logged is shown with its file and
 * line, of a test that passes with -v only. To end a test (fatal, skip, fail_now) on the thread or G that it
 * runs on ends that test or subtest alone, without unwinding: C++ destructors and cleanup attributes do not
 * run, cp_t_cleanup()'s do. Elsewhere it ends the process and with it all tests that are open; in a process
 * that the test has forked it ends that, with status 1, or 77 for a skip.
 */
#define cp_t_log(t, ...) cp_t_report((t), CP_T_LOG, __FILE__, __LINE__, __VA_ARGS__)
/* Logs, and the test has failed; it goes on. */
#define cp_t_error(t, ...) cp_t_report((t), CP_T_ERROR, __FILE__, __LINE__, __VA_ARGS__)
/* Logs, and the test has failed and ends. */
#define cp_t_fatal(t, ...) cp_t_report_and_end((t), CP_T_FATAL, __FILE__, __LINE__, __VA_ARGS__)
/* Logs, and the test ends; it counts as skipped where it has not failed. */
#define cp_t_skip(t, ...) cp_t_report_and_end((t), CP_T_SKIP, __FILE__, __LINE__, __VA_ARGS__)

enum cp_t_report { CP_T_LOG, CP_T_ERROR, CP_T_FATAL, CP_T_SKIP };
void cp_t_report(struct cp_t *t, enum cp_t_report kind, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void cp_t_report_and_end(struct cp_t *t, enum cp_t_report kind, const char *file, int line,
                         const char *format, ...) __attribute__((noreturn, format(printf, 5, 6)));

/* The test that runs in this process, or the innermost of its subtests; NULL where none does. For what is not
 * given a "t". */
struct cp_t *cp_t_self(void);
void cp_t_fail(struct cp_t *t);
void cp_t_fail_now(struct cp_t *t) __attribute__((noreturn));
bool cp_t_failed(const struct cp_t *t);
/* The whole name, "Test_reverse/empty"; it lives as long as the test. */
const char *cp_t_name(const struct cp_t *t);
/* How many Ms run it: -cpu's. */
unsigned cp_t_cpu(const struct cp_t *t);
/* Calls fn(arg) when the test has ended, however it did short of a crash; the last one added first. */
void cp_t_cleanup(struct cp_t *t, void (*fn)(void *arg), void *arg);
/* A directory for the test's files, made by the first call and removed after the test, crash or not.
 * Nobody can foresee its name, and it is this user's alone; the path is absolute. */
const char *cp_t_temp_dir(struct cp_t *t);

/* Runs a subtest (of a benchmark: a sub-benchmark) on the calling thread or G, and returns when it has ended:
 * whether it has not failed. Its name is the test's, a slash, and name, with blanks as "_"; a name that was
 * there gets "#01", an empty one is "#00". Those that -run or -bench do not name are left out. */
bool cp_t_run(struct cp_t *t, const char *name, void (*fn)(struct cp_t *t, void *arg), void *arg);

/* ---- Benchmarks ------------------------------------------------------------------------------ */

/* For cp_bench_next() only. */
bool cp_bench_next_slow(struct cp_t *b);

/*
 * Whether the benchmark's loop goes on; it does until -benchtime is over. The first call starts the clock,
 * the counters and the profile, the last one stops them; what stands before and after the loop is not
 * measured. A benchmark has one such loop, on the thread or G that it was called on, and fails where it
 * leaves that in another way, by break or return, short of failing or skipping.
 */
static inline bool cp_bench_next(struct cp_t *b)
{
    if (__builtin_expect(b->left != 0, 1)) {
        b->left--;
        return true;
    }
    return cp_bench_next_slow(b);
}

/* In the loop: what comes until cp_bench_resume() is not measured. Each costs some microseconds where there
 * are counters or a profile. -benchtime is about what is measured: a loop that spends a hundred times as long
 * in pauses takes a hundred times as long; -benchtime 100x bounds it. */
void cp_bench_pause(struct cp_t *b);
void cp_bench_resume(struct cp_t *b);
/* The loop's iterations so far; after it, all of them. */
uint64_t cp_bench_iterations(const struct cp_t *b);
/* The bytes that an iteration handles: shown as MB/s. */
void cp_bench_set_bytes(struct cp_t *b, uint64_t bytes);
/* A figure of the benchmark's own, which replaces the one of that unit: an earlier one, or what is measured,
 * as "ns/op" or "cycles/op"; with 0, "ns/op" and "MB/s" are left out. The unit is a word, such as "hits/op".
 * With another unit, or a value that is infinite or no number, the benchmark fails and ends. */
void cp_bench_metric(struct cp_t *b, double value, const char *unit);

#ifdef __cplusplus
}
#endif
#endif
