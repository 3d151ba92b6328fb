/*
 * The test harness. A test is a function; each runs in a process of its own, in a process group of its own,
 * with a time limit. It passes when it returns, fails where a check does, where it dies of a signal or where
 * its time is over, and is skipped by SKIP(). What it printed is shown only where it did not pass (or with
 * -v).
 *
 *     build/tests/NAME              all tests
 *     build/tests/NAME test ...     these
 *     build/tests/NAME -i test      one, in this process and without a limit: for the debugger
 *     build/tests/NAME -l           their names
 *
 * Checks may be made on any thread and on any green thread, but not in a signal handler.
 */
#ifndef COUNTERPOINT_TESTS_TEST_H
#define COUNTERPOINT_TESTS_TEST_H

#include <stdbool.h>
#include <stddef.h>

struct test_case {
    const char *name;
    unsigned limit_s;
    void (*run)(void);
    struct test_case *next;
};
/* Adds a test; tests run in the order in which they were added. CP_TEST does it. */
void test_add(struct test_case *test);

/* CP_TEST(name) { ... } is a test of 30 seconds at most; sanitizer builds get TEST_SLOWDOWN times as long. */
#define CP_TEST(name) CP_TEST_TIMEOUT(name, 30)
#define CP_TEST_TIMEOUT(name_, seconds)                                                                      \
    static void test_##name_(void);                                                                          \
    __attribute__((constructor)) static void test_add_##name_(void)                                          \
    {                                                                                                        \
        static struct test_case test = {.name = #name_, .limit_s = (seconds), .run = test_##name_};          \
        test_add(&test);                                                                                     \
    }                                                                                                        \
    static void test_##name_(void)

/* ---- Checks ---------------------------------------------------------------------------------- */

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            test_fail(__FILE__, __LINE__, "%s", #condition);                                                 \
    } while (0)

/* A check that says more; the format is printf's. */
#define CHECKF(condition, ...)                                                                               \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            test_fail_because(__FILE__, __LINE__, #condition, __VA_ARGS__);                                  \
    } while (0)

/* Two integers are equal. */
#define CHECK_EQ(a, b)                                                                                       \
    do {                                                                                                     \
        long long test_a_ = (long long)(a), test_b_ = (long long)(b);                                        \
        if (test_a_ != test_b_)                                                                              \
            test_fail(__FILE__, __LINE__, "%s == %s: %lld and %lld", #a, #b, test_a_, test_b_);              \
    } while (0)

/* Two strings are equal; NULL equals NULL. */
#define CHECK_STR(a, b) test_check_str(__FILE__, __LINE__, #a " is " #b, (a), (b))
/* The second string stands somewhere in the first. */
#define CHECK_CONTAINS(text, part)                                                                           \
    test_check_contains(__FILE__, __LINE__, #text " contains " #part, (text), (part))

/* Ends the test, which counts as skipped; the reason is shown. */
#define SKIP(...) test_skip(__VA_ARGS__)

_Noreturn void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void test_fail_because(const char *file, int line, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void test_check_str(const char *file, int line, const char *what, const char *a, const char *b);
void test_check_contains(const char *file, int line, const char *what, const char *text, const char *part);
_Noreturn void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Surroundings ---------------------------------------------------------------------------- */

/* A directory for this test's files, made by the first call and removed after the test. */
const char *test_dir(void);
/* The build directory that this program stands in, with lib/, examples/ and tests/. */
const char *test_build_dir(void);

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
