/* The benchmarks of runner_sample. */
#include "runner_sample.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

CP_BENCHMARK(empty)
{
    for (; cp_bench_next(b);)
        ;
}

static void tells_setup(void)
{
    puts("set up");
}

CP_BENCHMARK(counted)
{
    uint64_t n = 0;
    tells_setup();
    for (; cp_bench_next(b);)
        if (cp_bench_iterations(b) != ++n)
            cp_t_fatal(b, "Iteration %llu says it is another.", (unsigned long long)n);
    if (cp_bench_iterations(b) != n)
        cp_t_fatal(b, "%llu were counted.", (unsigned long long)n);
    cp_bench_metric(b, 1, "bodies");
    cp_bench_metric(b, (double)n, "bodies");
    cp_bench_metric(b, 0.25, "hits/op");
}

CP_BENCHMARK(bytes)
{
    struct timespec ms = {.tv_nsec = 1000000};
    cp_bench_set_bytes(b, 1000000);
    for (; cp_bench_next(b);)
        nanosleep(&ms, NULL);
}

CP_BENCHMARK(paused)
{
    struct timespec ms_20 = {.tv_nsec = 20000000};
    nanosleep(&ms_20, NULL);
    cp_bench_resume(b);
    for (; cp_bench_next(b);) {
        cp_bench_pause(b);
        cp_bench_pause(b);
        nanosleep(&ms_20, NULL);
        cp_bench_resume(b);
        cp_bench_resume(b);
    }
    nanosleep(&ms_20, NULL);
    cp_bench_resume(b);
}

static void sub_benchmark(struct cp_t *b, void *unused)
{
    (void)unused;
    for (; cp_bench_next(b);)
        ;
}

static void middle_benchmark(struct cp_t *b, void *unused)
{
    cp_t_run(b, "x", sub_benchmark, unused);
    cp_t_run(b, "y", sub_benchmark, unused);
}

CP_BENCHMARK(subs)
{
    cp_t_run(b, "small", sub_benchmark, NULL);
    cp_t_run(b, "large", middle_benchmark, NULL);
}

CP_BENCHMARK(no_loop)
{
    cp_t_log(b, "nothing to measure");
}

CP_BENCHMARK(two_loops)
{
    for (; cp_bench_next(b);)
        ;
    for (; cp_bench_next(b);)
        ;
}

CP_BENCHMARK(breaks)
{
    for (; cp_bench_next(b);)
        if (cp_bench_iterations(b) == 7)
            break;
}

CP_BENCHMARK(breaks_at_the_end)
{
    for (; cp_bench_next(b);)
        if (cp_bench_iterations(b) == 10)
            break;
}

static void returning_benchmark(struct cp_t *b, void *unused)
{
    (void)unused;
    while (cp_bench_next(b))
        return;
}

CP_BENCHMARK(returns)
{
    cp_t_run(b, "sub", returning_benchmark, NULL);
}

static void own_figures(struct cp_t *b, void *factor)
{
    cp_bench_set_bytes(b, 1000);
    for (; cp_bench_next(b);)
        ;
    cp_bench_metric(b, 4 * *(double *)factor, "MB/s");
    cp_bench_metric(b, 2 * *(double *)factor, "ns/op");
    cp_bench_metric(b, 8, "taskClock-ns/op");
    cp_bench_metric(b, 16, "own/op");
}

CP_BENCHMARK(figures)
{
    double factors[] = {1, 0};
    cp_t_run(b, "own", own_figures, &factors[0]);
    cp_t_run(b, "less", own_figures, &factors[1]);
}

struct metric {
    const char *name, *unit;
    double value;
};

static void bad_metric(struct cp_t *b, void *metric)
{
    const struct metric *m = metric;
    for (; cp_bench_next(b);)
        ;
    cp_bench_metric(b, m->value, m->unit);
    puts("after the metric");
}

CP_BENCHMARK(metrics)
{
    struct metric bad[] = {{"blank", "a b", 1},
                           {"empty", "", 1},
                           {"line", "a\n", 1},
                           {"end", "a\x7f", 1},
                           {"infinite", "x/op", INFINITY},
                           {"nan", "x/op", NAN}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cp_t_run(b, bad[i].name, bad_metric, &bad[i]);
}

CP_BENCHMARK(fatal)
{
    for (; cp_bench_next(b);)
        cp_t_fatal(b, "in the loop");
}

CP_BENCHMARK(skipped)
{
    for (; cp_bench_next(b);)
        cp_t_skip(b, "in the loop");
}

CP_BENCHMARK(logs)
{
    for (; cp_bench_next(b);)
        ;
    cp_t_log(b, "a remark");
}

static void asks_for_iterations(void *b)
{
    printf("%llu in the cleanup\n", (unsigned long long)cp_bench_iterations(b));
}

CP_BENCHMARK(cleanup)
{
    cp_t_cleanup(b, asks_for_iterations, b);
    for (; cp_bench_next(b);)
        ;
}

CP_BENCHMARK(crash)
{
    for (; cp_bench_next(b);)
        zero = writes_to_nowhere() - 1;
}
