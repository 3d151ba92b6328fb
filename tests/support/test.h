/*
 * What the project's tests have beside testing/testing.h: checks that end the test, and their surroundings.
 * A test runs on a plain thread. It fails if its processes use no CPU time for 5 seconds, which is how a hang
 * shows, or if one of them has used up 60 seconds of CPU time; sanitizer builds get TEST_SLOWDOWN times as
 * much of that. How long it takes on a busy machine does not matter.
 *
 *     build/tests/NAME_test                     all tests
 *     build/tests/NAME_test -v -run one         those whose names have it in them; '^Test_one$' is one alone
 *     build/tests/NAME_test -inprocess -run one in this process, without a limit: for the debugger, which a
 *                                               breakpoint at cp_t_report_and_end stops where a check fails
 *     build/tests/NAME_test -list .             their names
 *
 * If the machine refuses this user all events (kernel.perf_event_paranoid is 3, or a container's filter
 * forbids them), a test that asks for one is skipped: see test.c.
 *
 * Checks may be made on any thread and on any green thread, but not in a signal handler.
 */
#ifndef COUNTERPOINT_TESTS_TEST_H
#define COUNTERPOINT_TESTS_TEST_H

#include <stdbool.h>
#include <stddef.h>

#include "testing.h"

/* ---- Checks ---------------------------------------------------------------------------------- */

#define TEST_FAIL(...) cp_t_report_and_end(cp_t_self(), CP_T_FATAL, __FILE__, __LINE__, __VA_ARGS__)

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            TEST_FAIL("%s", #condition);                                                                     \
    } while (0)

/* A check that says more; the format is printf's. */
#define CHECKF(condition, format, ...)                                                                       \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            TEST_FAIL("%s: " format, #condition, ##__VA_ARGS__);                                             \
    } while (0)

/* Two integers are equal. */
#define CHECK_EQ(a, b)                                                                                       \
    do {                                                                                                     \
        long long test_a_ = (long long)(a), test_b_ = (long long)(b);                                        \
        if (test_a_ != test_b_)                                                                              \
            TEST_FAIL("%s == %s: %lld and %lld", #a, #b, test_a_, test_b_);                                  \
    } while (0)

/* Two strings are equal; NULL equals NULL. */
#define CHECK_STR(a, b) test_check_str(__FILE__, __LINE__, #a " is " #b, (a), (b))
/* The second string stands somewhere in the first. */
#define CHECK_CONTAINS(text, part)                                                                           \
    test_check_contains(__FILE__, __LINE__, #text " contains " #part, (text), (part))

/* Ends the test, which counts as skipped; the reason is shown. */
#define SKIP(...) cp_t_report_and_end(cp_t_self(), CP_T_SKIP, __FILE__, __LINE__, __VA_ARGS__)

/* Skips the test on a machine that refuses this user all events, by its answer before any test. A start that
 * is refused for that skips the test by itself; this is for tests that start on other threads, in children or
 * in other programs. */
void test_need_events(void);

void test_check_str(const char *file, int line, const char *what, const char *a, const char *b);
void test_check_contains(const char *file, int line, const char *what, const char *text, const char *part);

/* ---- Surroundings ---------------------------------------------------------------------------- */

/* A directory for this test's files, made by the first call and removed after the test. */
const char *test_dir(void);
/* Makes a file with that text in it. */
void test_write_file(const char *name, const char *text);
/* The build directory that this program stands in, with lib/, examples/ and tests/. */
const char *test_build_dir(void);

/* The exit status of a program whose event the machine refuses: see cp_testing_start(). */
#define TEST_REFUSED 3

/*
 * Runs a shell command, made as by printf, and returns what it wrote to both of its outputs, with a
 * terminating zero; free() it. *status is its exit status, or 128 + the number of the signal that ended it.
 * NULL: the command must succeed, or the test fails and shows what it wrote.
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
