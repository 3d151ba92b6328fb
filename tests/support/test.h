/*
 * What the project's tests have in addition to testing/testing.h: checks that end the test, and the test's
 * surroundings. A test runs on a plain thread. A test fails if its processes use no CPU time for 5 seconds,
 * which shows a hang, or if one of them has used 60 seconds of CPU time; builds with a sanitizer have
 * TEST_SLOWDOWN times as much CPU time. How long a test takes on a busy machine does not matter.
 *
 *     build/tests/NAME_test                     all tests
 *     build/tests/NAME_test -v -run one         the tests whose names contain it; '^Test_one$' is one test
 *     build/tests/NAME_test -inprocess -run one in this process, without a limit: for the debugger. A
 *                                               breakpoint at cp_t_report_and_end stops where a check fails
 *     build/tests/NAME_test -list .             the names of the tests
 *
 * If the machine refuses this user all events (kernel.perf_event_paranoid is 3, or a container's filter
 * forbids them), a test that asks for an event is skipped: see test.c.
 *
 * Checks may be made on any thread and on any green thread, but not in a signal handler.
 */
#ifndef COUNTERPOINT_TESTS_TEST_H
#define COUNTERPOINT_TESTS_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "testing.h"

/* ---- Checks ---------------------------------------------------------------------------------- */

#define TEST_FAIL(...) cp_t_report_and_end(cp_t_self(), CP_T_FATAL, __FILE__, __LINE__, __VA_ARGS__)

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            TEST_FAIL("%s", #condition);                                                                     \
    } while (0)

/* A check with a further explanation, in printf's format. */
#define CHECKF(condition, format, ...)                                                                       \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            TEST_FAIL("%s: " format, #condition, ##__VA_ARGS__);                                             \
    } while (0)

/* Checks that two integers are equal. */
#define CHECK_EQ(a, b)                                                                                       \
    do {                                                                                                     \
        long long test_a_ = (long long)(a), test_b_ = (long long)(b);                                        \
        if (test_a_ != test_b_)                                                                              \
            TEST_FAIL("%s == %s: %lld and %lld", #a, #b, test_a_, test_b_);                                  \
    } while (0)

/* Checks that two strings are equal; NULL equals NULL. */
#define CHECK_STR(a, b) test_check_str(__FILE__, __LINE__, #a " is " #b, (a), (b))
/* Checks that the first string contains the second. */
#define CHECK_CONTAINS(text, part)                                                                           \
    test_check_contains(__FILE__, __LINE__, #text " contains " #part, (text), (part))

/* Ends the test, which counts as skipped, and shows the reason. */
#define SKIP(...) cp_t_report_and_end(cp_t_self(), CP_T_SKIP, __FILE__, __LINE__, __VA_ARGS__)

/* Skips the test if this machine refused this user all events before the first test. A start that is refused
 * for this reason skips the test by itself; this call is for tests that start events on other threads, in
 * children or in other programs. */
void test_need_events(void);

/* Skips the test if the machine's kernel would throttle a clock that takes so many samples a second: a
 * throttled clock has fewer samples. The kernel lowers the limit by itself if interrupts take long, also
 * while a test runs. */
void test_need_rate(uint64_t rate);
#define TEST_THROTTLED "kernel.perf_event_max_sample_rate is so low that the kernel throttles the event"

/* Returns whether the test runs in an emulated machine (tests/vm/guest). What leaves a thread no time runs
 * only there, and on the simulated kernel (sim/sim.h). Anywhere else a start fails its test if it asks for
 * more than 10 000 samples a second, or for more than half of a thread's time. */
bool test_is_emulated(void);

/*
 * Returns the period, in ns, for clocks of which a thread has this many at once: what the test would like to
 * have, or more if these clocks would leave their thread less than three quarters of its time on this
 * machine. The answer is the same for the whole process. On the simulated kernel and in the emulated machine,
 * the test has what it likes.
 */
uint64_t test_period(uint64_t wanted_ns, unsigned clocks);

void test_check_str(const char *file, int line, const char *what, const char *a, const char *b);
void test_check_contains(const char *file, int line, const char *what, const char *text, const char *part);

/* ---- Surroundings ---------------------------------------------------------------------------- */

/* Returns a directory for the test's files. The first call makes the directory, and the directory is removed
 * after the test. */
const char *test_dir(void);
/* Writes a file into the test's directory. */
void test_write_file(const char *name, const char *text);
/* Returns the build directory of this program, with lib/, examples/ and tests/. */
const char *test_build_dir(void);

/* The exit status of a program if the machine refuses its event: see cp_testing_start(). */
#define TEST_REFUSED 3

/*
 * Runs a shell command, made as by printf(), and returns the text of its stdout and stderr; the caller frees
 * the text. *status is the exit status, or 128 + the number of the signal that ended the command. If status
 * is NULL and the command fails, the test fails and shows the text.
 */
char *test_command(int *status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#if defined(__has_feature)
#define TEST_HAS_FEATURE(x) __has_feature(x)
#else
#define TEST_HAS_FEATURE(x) 0
#endif

/* Which sanitizer the program is built with. */
#if defined(__SANITIZE_ADDRESS__) || TEST_HAS_FEATURE(address_sanitizer)
#define TEST_ASAN 1
#else
#define TEST_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || TEST_HAS_FEATURE(thread_sanitizer)
#define TEST_TSAN 1
#else
#define TEST_TSAN 0
#endif
#define TEST_SLOWDOWN (TEST_TSAN ? 6 : TEST_ASAN ? 3 : 1)

#endif
