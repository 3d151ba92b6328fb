/* The loop of a benchmark, and the figures that the benchmark reports. */
#include "bench_profile.h"
#include "counts.h"
#include "runtime/base/clock.h"
#include "test.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A figure that the benchmark itself reports by cp_bench_metric(). */
struct metric {
    struct metric *next;
    double value;
    bool is_shown; /* already printed, in place of the measured figure with the same unit */
    char unit[];
};

/* Only the thread or G that the benchmark runs on uses a struct cp__bench. */
struct cp__bench {
    uint64_t granted; /* iterations granted to the loop so far; cp_t.left of them are still to be made */
    bool is_started;
    bool is_running; /* the clock runs */
    bool is_over;
    uint64_t started_ns; /* CLOCK_MONOTONIC when the clock was started last */
    uint64_t elapsed_ns; /* measured before the clock was started last */
    uint64_t bytes;      /* bytes that an iteration processes; 0: unknown */
    struct metric *metrics;
};

/* ---- The loop -------------------------------------------------------------------------------- */

/* Returns the benchmark's part of b; fails the test if b is a test and not a benchmark. */
static struct cp__bench *bench_of(const struct cp_t *b)
{
    struct cp__bench *bench = cp__test_of(b)->bench;
    if (!bench)
        cp__t_fatal(&cp__test_of(b)->t, "This is a test. Only CP_BENCHMARK() makes benchmarks.");
    return bench;
}

/* Starts the counters before the clock, as stop_clock() stops them after it: starting and stopping a counter
 * takes microseconds in the kernel, which are not part of the loop. The counters, in turn, count some
 * hundred instructions of reading the clock. */
static void run_clock(struct cp__bench *bench)
{
    cp__counts_start();
    bench->is_running = true;
    bench->started_ns = (uint64_t)cp__clock_ns(CLOCK_MONOTONIC);
}

static void stop_clock(struct cp__bench *bench)
{
    bench->elapsed_ns += (uint64_t)cp__clock_ns(CLOCK_MONOTONIC) - bench->started_ns;
    bench->is_running = false;
    cp__counts_stop();
}

void cp_bench_pause(struct cp_t *b)
{
    struct cp__bench *bench = bench_of(b);
    if (!bench->is_running)
        return;
    stop_clock(bench);
    cp__bench_unlabel();
}

void cp_bench_resume(struct cp_t *b)
{
    struct cp__bench *bench = bench_of(b);
    if (!bench->is_started || bench->is_over || bench->is_running)
        return;
    cp__bench_label(cp__test_of(b));
    run_clock(bench);
}

/* Ends the loop: stops the clock and the profile. */
static void finish_bench(struct cp_t *b, struct cp__bench *bench)
{
    struct cp_error err;
    cp_bench_pause(b);
    if (cp__bench_profile_stop(&err) < 0)
        cp__t_error(b, "The profile of the benchmark is lost: %s", err.message);
    bench->is_over = true;
}

/* Returns how many iterations in all should fill the time: by the speed so far, plus a fifth, but at most a
 * hundred times as many as before, because the first iteration may be much cheaper than the others. */
static uint64_t next_goal(const struct cp__bench *bench, uint64_t elapsed_ns, uint64_t goal_ns)
{
    double goal = 1.2 * (double)bench->granted * (double)goal_ns / (double)(elapsed_ns ? elapsed_ns : 1);
    double most = 100.0 * (double)bench->granted;
    uint64_t n = (uint64_t)(goal < most ? goal : most);
    return n > bench->granted ? n : bench->granted + 1;
}

/* Returns the nanoseconds for which the clock has run so far. */
static uint64_t elapsed(const struct cp__bench *bench)
{
    return bench->elapsed_ns +
           (bench->is_running ? (uint64_t)cp__clock_ns(CLOCK_MONOTONIC) - bench->started_ns : 0);
}

bool cp_bench_next_slow(struct cp_t *b)
{
    const struct cp__options *o = cp__test_of(b)->options;
    struct cp__bench *bench = bench_of(b);
    struct cp_error err;
    if (bench->is_over)
        cp__t_fatal(b, "A benchmark has only one loop with cp_bench_next(), and this is the second.");
    if (!bench->is_started) {
        bench->is_started = true;
        bench->granted = o->bench_iterations ? o->bench_iterations : 1;
        b->left = bench->granted - 1;
        cp__counts_reset();
        if (cp__bench_profile_start(cp__test_of(b), &err) < 0)
            cp__t_fatal(b, "The benchmark cannot be profiled: %s", err.message);
        run_clock(bench);
        return true;
    }
    uint64_t ns = elapsed(bench);
    if (o->bench_iterations || ns >= o->bench_ns) {
        finish_bench(b, bench);
        return false;
    }
    uint64_t goal = next_goal(bench, ns, o->bench_ns);
    b->left = goal - bench->granted - 1;
    bench->granted = goal;
    return true;
}

uint64_t cp_bench_iterations(const struct cp_t *b)
{
    return bench_of(b)->granted - b->left;
}

/* ---- Figures --------------------------------------------------------------------------------- */

void cp_bench_set_bytes(struct cp_t *b, uint64_t bytes)
{
    bench_of(b)->bytes = bytes;
}

/* Returns the link to the metric with that unit, or the link at the end of the list. */
static struct metric **find_metric(struct cp__bench *bench, const char *unit)
{
    struct metric **m = &bench->metrics;
    while (*m && strcmp((*m)->unit, unit) != 0)
        m = &(*m)->next;
    return m;
}

/* Returns whether the unit is one word. Programs that read the benchmark's line separate its fields by
 * blanks. */
static bool is_word(const char *unit)
{
    const char *end = unit;
    while (*end && !isspace((unsigned char)*end) && !iscntrl((unsigned char)*end))
        end++;
    return end > unit && !*end;
}

void cp_bench_metric(struct cp_t *b, double value, const char *unit)
{
    struct metric **m = find_metric(bench_of(b), unit);
    if (!is_word(unit))
        cp__t_fatal(b, "A metric's unit must be one word, such as hits/op, and \"%s\" is not.", unit);
    if (!isfinite(value))
        cp__t_fatal(b, "The metric %s must be a finite number, and %g is not.", unit, value);
    if (!*m) {
        *m = calloc(1, sizeof(**m) + strlen(unit) + 1);
        if (!*m)
            abort();
        strcpy((*m)->unit, unit);
    }
    (*m)->value = value;
}

/* Returns the value that the benchmark itself has reported for the unit, or else the measured value. */
static double own_or_measured(struct cp__bench *bench, const char *unit, double measured)
{
    struct metric *m = *find_metric(bench, unit);
    if (m)
        m->is_shown = true;
    return m ? m->value : measured;
}

/* Prints a figure with about four digits, as Go's testing package does. */
static void print_figure(FILE *stream, double value, const char *unit)
{
    double size = value < 0 ? -value : value, limit = 99.995;
    int digits = size > 0 && size < 999.95;
    for (; digits > 0 && digits < 10 && size < limit; limit /= 10)
        digits++;
    fprintf(stream, "\t%*.*f %s", digits ? 11 + digits : 10, digits, value, unit);
}

void cp__bench_print_figure(FILE *stream, struct cp__bench *bench, double value, const char *unit)
{
    print_figure(stream, own_or_measured(bench, unit, value), unit);
}

/* Sends the benchmark's line to the runner. */
static void tell_result(struct cp__test *test)
{
    struct cp__bench *bench = test->bench;
    char *text = NULL;
    size_t size;
    double n = (double)cp_bench_iterations(&test->t), ns = (double)bench->elapsed_ns;
    double ns_per_op = own_or_measured(bench, "ns/op", ns / n);
    double mb_per_s = own_or_measured(bench, "MB/s", ns > 0 ? (double)bench->bytes * n * 1e3 / ns : 0);
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        abort();
    fprintf(stream, "%8.0f", n);
    if (ns_per_op != 0)
        print_figure(stream, ns_per_op, "ns/op");
    if (mb_per_s != 0)
        fprintf(stream, "\t%7.2f MB/s", mb_per_s);
    cp__counts_print(stream, bench, n);
    for (struct metric *m = bench->metrics; m; m = m->next)
        if (!m->is_shown)
            print_figure(stream, m->value, m->unit);
    fclose(stream);
    cp__tell(
        &(struct cp__event){.kind = CP__EVENT_RESULT, .name = test->name, .text = text, .number = ns_per_op});
    free(text);
}

/* ---- Before and after the loop -------------------------------------------------------------- */

void cp__bench_begin(struct cp__test *test)
{
    test->bench = calloc(1, sizeof(*test->bench));
    if (!test->bench)
        abort();
    cp__bench_label(test); /* before the loop, so that Gs that the benchmark starts there inherit the label */
}

/* Reports the result, or fails a benchmark whose loop is missing or was left early. */
void cp__bench_end(struct cp__test *test)
{
    struct cp__bench *bench = test->bench;
    bool has_left_loop = bench->is_started && !bench->is_over;
    if (has_left_loop)
        finish_bench(&test->t, bench);
    bool has_failed = cp_t_failed(&test->t) || test->is_skipped;
    if (has_left_loop && !has_failed)
        cp__t_error(
            &test->t,
            "The benchmark has left its loop, perhaps by break or return, before cp_bench_next() was false.");
    else if (!bench->is_started && !test->subtests && !has_failed)
        cp__t_error(
            &test->t,
            "The benchmark has no loop. Write for (; cp_bench_next(b);) around what is to be measured.");
    else if (bench->is_started && !has_failed)
        tell_result(test);
}

void cp__bench_free(struct cp__bench *bench)
{
    while (bench && bench->metrics) {
        struct metric *m = bench->metrics;
        bench->metrics = m->next;
        free(m);
    }
    free(bench);
}
