/* A test while it runs, in its own process. */
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

/* All belongs to the thread or G that the test runs on, less the two flags. */
struct cp__test {
    struct cp_t t; /* the first member: what the public calls are given */
    char *name;
    struct cp__test *parent; /* NULL: none */
    const struct cp__options *options;
    unsigned cpu;
    void *owner; /* where it runs: see owner_self() in t.c */
    jmp_buf end; /* where a test goes on that ends early */
    struct cp__cleanup *cleanups;
    struct cp__subtest_name *subtests; /* those that there were */
    char *temp_dir;
    bool has_ended_early;    /* it or one of its subtests, in the midst of what it did */
    double started;          /* seconds of CLOCK_MONOTONIC */
    struct cp__bench *bench; /* NULL: a test */
    uint32_t is_failed;      /* shared: by cp_load_relaxed() and so on, a flag that only rises */
    uint32_t is_skipped;     /* the same */
};

static inline struct cp__test *cp__test_of(const struct cp_t *t)
{
    return (struct cp__test *)(size_t)t;
}

/* All tests and benchmarks of the program, in the order in which they were added. */
struct cp_test_case *cp__test_cases(void);
/* "Test_reverse"; free() it. */
char *cp__test_case_name(const struct cp_test_case *test);

/* cp_t_log() and so on of what the runner itself has to say: no file and line stand before it. */
#define cp__t_log(t, ...) cp_t_report((t), CP_T_LOG, NULL, 0, __VA_ARGS__)
#define cp__t_error(t, ...) cp_t_report((t), CP_T_ERROR, NULL, 0, __VA_ARGS__)
#define cp__t_fatal(t, ...) cp_t_report_and_end((t), CP_T_FATAL, NULL, 0, __VA_ARGS__)

/* t.c: runs a test or benchmark with its cleanups, on the calling thread or G; whether it has not failed. */
bool cp__test_run(struct cp__test *test, void (*fn)(struct cp_t *t, void *arg), void *arg);
void cp__test_tell_end(const struct cp__test *test);

/* child.c: what happens in the test, to the runner. */
void cp__tell(const struct cp__event *event);
/* Whether the calling process is a child of the test's. */
bool cp__is_forked_by_test(void);
/* Lets a test end on a thread or G that is not its own, with all those above it and their process. */
_Noreturn void cp__end_process(struct cp__test *test);
/* The directory that those of the test and its subtests are in. The runner has made it, and removes it.
 * *error: why it is not there, as of errno; 0: it is. */
const char *cp__temp_root(int *error);

/* bench.c: a benchmark's part of a test, before and after it ran. */
void cp__bench_begin(struct cp__test *test);
void cp__bench_end(struct cp__test *test);
void cp__bench_free(struct cp__bench *bench);
/* A figure of a benchmark's line, with a tabulator before it; or the benchmark's own one under that name. */
void cp__bench_print_figure(FILE *stream, struct cp__bench *bench, double value, const char *unit);

#endif
