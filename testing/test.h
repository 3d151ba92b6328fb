/* The state of a test while the test runs, in the test's own process. */
#ifndef COUNTERPOINT_TESTING_TEST_H
#define COUNTERPOINT_TESTING_TEST_H

#include "event.h"
#include "options.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>

struct cp__bench;
struct cp__cleanup;
struct cp__subtest_name;

/* Only the thread or G that the test runs on uses a struct cp__test, except for the flags is_failed and
 * is_skipped, * which any thread may set. */
struct cp__test {
    struct cp_t t; /* the first member, so that cp__test_of() can cast what the public calls are given */
    char *name;    /* the full name, with the names of the tests above it */
    struct cp__test *parent; /* NULL: the test is no subtest */
    const struct cp__options *options;
    unsigned cpu;
    void *owner; /* the G or thread that the test runs on: see owner_self() in t.c */
    jmp_buf end; /* where a test that ends early jumps to */
    struct cp__cleanup *cleanups;
    struct cp__subtest_name *subtests; /* the names of the subtests so far, so that no two are equal */
    char *temp_dir;                    /* NULL: cp_t_temp_dir() was not called */
    bool has_ended_early;              /* the test or a subtest ended in the midst of its function */
    double started;                    /* seconds of CLOCK_MONOTONIC */
    struct cp__bench *bench;           /* NULL: a test, no benchmark */
    uint32_t is_failed;  /* shared between threads; accessed relaxed, because the flag only rises */
    uint32_t is_skipped; /* as is_failed */
};

static inline struct cp__test *cp__test_of(const struct cp_t *t)
{
    return (struct cp__test *)(size_t)t;
}

/* Returns the first of all tests and benchmarks of the program, which are in the order in which they were
 * added. */
struct cp_test_case *cp__test_cases(void);
/* Returns a test's name as reports show it, "Test_reverse"; the caller frees the name. */
char *cp__test_case_name(const struct cp_test_case *test);

/* cp_t_log() and its relatives for messages of the runner itself, which have no file and line. */
#define cp__t_log(t, ...) cp_t_report((t), CP_T_LOG, NULL, 0, __VA_ARGS__)
#define cp__t_error(t, ...) cp_t_report((t), CP_T_ERROR, NULL, 0, __VA_ARGS__)
#define cp__t_fatal(t, ...) cp_t_report_and_end((t), CP_T_FATAL, NULL, 0, __VA_ARGS__)

/* t.c: runs a test or benchmark and its cleanups on the calling thread or G. Returns whether the test
 * passed. */
bool cp__test_run(struct cp__test *test, void (*fn)(struct cp_t *t, void *arg), void *arg);
/* Tells the runner that the test has ended, with the outcome and the duration. */
void cp__test_tell_end(const struct cp__test *test);

/* child.c: sends an event of the test to the runner. */
void cp__tell(const struct cp__event *event);
/* Returns whether the calling process was forked by the test's code, and so is not the test's own process. */
bool cp__is_forked_by_test(void);
/* Ends the process of a test that cannot unwind, because its function runs on another thread or G. Tells
 * first that the * test and all tests above it have ended. */
_Noreturn void cp__end_process(struct cp__test *test);
/* Returns the directory that holds the temporary directories of the test and its subtests. The runner has
 * made * that directory and removes it. Sets *error to 0, or to the errno value that says why the directory
 * is missing. */
const char *cp__temp_root(int *error);

/* bench.c: what a benchmark does before its function runs, after the function has run, and at its end. */
void cp__bench_begin(struct cp__test *test);
void cp__bench_end(struct cp__test *test);
void cp__bench_free(struct cp__bench *bench);
/* Prints a tabulator and a figure of a benchmark's line. A figure that the benchmark has reported itself
 * under the same * unit replaces the value. */
void cp__bench_print_figure(FILE *stream, struct cp__bench *bench, double value, const char *unit);

#endif
