/* What the benchmarks share: testing/testing.h on a plain thread, clocks, and the statistics of paired
 * rounds. */
#ifndef COUNTERPOINT_BENCH_BENCH_H
#define COUNTERPOINT_BENCH_BENCH_H

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "testing.h"

#define BENCH_API __attribute__((unused)) static

BENCH_API double bench_clock_ns(clockid_t clock)
{
    return (double)cp__clock_ns(clock);
}

BENCH_API double bench_now_ns(void)
{
    return bench_clock_ns(CLOCK_MONOTONIC);
}

/* The figures of a benchmark's rounds; each iteration of the benchmark's loop adds one. */
struct bench_rounds {
    double *values;
    size_t n;
};

BENCH_API void bench_add(struct bench_rounds *rounds, double value)
{
    rounds->values = realloc(rounds->values, (rounds->n + 1) * sizeof(double));
    if (rounds->values == NULL)
        abort();
    rounds->values[rounds->n++] = value;
}

BENCH_API int bench_ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

BENCH_API void bench_sort(double *values, size_t n)
{
    if (n > 0)
        qsort(values, n, sizeof *values, bench_ascending);
}

/* Reports the median of the rounds, and frees them. */
BENCH_API void bench_median(struct cp_t *b, struct bench_rounds *rounds, const char *unit)
{
    bench_sort(rounds->values, rounds->n);
    if (rounds->n > 0)
        cp_bench_metric(b, rounds->values[rounds->n / 2], unit);
    free(rounds->values);
    *rounds = (struct bench_rounds){0};
}

/* Reports the median as UNIT and the quartiles as UNIT-q1 and UNIT-q3, and frees the rounds. */
BENCH_API void bench_spread(struct cp_t *b, struct bench_rounds *rounds, const char *unit)
{
    char q1[80], q3[80];

    snprintf(q1, sizeof q1, "%s-q1", unit);
    snprintf(q3, sizeof q3, "%s-q3", unit);
    bench_sort(rounds->values, rounds->n);
    if (rounds->n > 0) {
        cp_bench_metric(b, rounds->values[rounds->n / 2], unit);
        cp_bench_metric(b, rounds->values[rounds->n / 4], q1);
        cp_bench_metric(b, rounds->values[rounds->n - 1 - rounds->n / 4], q3);
    }
    bench_median(b, rounds, unit);
}

BENCH_API int bench_on_plain_thread(void (*fn)(void *), void *arg, unsigned threads, struct cp_error *err)
{
    (void)threads, (void)err;
    fn(arg);
    return 0;
}

/* Defines main(). The benchmarks create their schedulers, Ms and threads themselves. */
#define BENCH_MAIN()                                                                                         \
    int main(int argc, char **argv)                                                                          \
    {                                                                                                        \
        const struct cp_test_main_options options = {.size = sizeof options, .run = bench_on_plain_thread};  \
        return cp_test_main(argc, argv, &options);                                                           \
    }

#endif
