/* See spread.h. */
#include "spread.h"

#include "report.h"

#include <stdlib.h>
#include <string.h>

/* A benchmark with the results of its runs so far; the list is in the order in which the benchmarks first
 * ran. */
struct benchmark {
    char *name;
    double *values;
    size_t count;
    struct benchmark *next;
};

static struct benchmark *first, **last = &first;

/* Returns the benchmark of that name; adds one if there is none. */
static struct benchmark *find_benchmark(const char *name)
{
    for (struct benchmark *b = first; b; b = b->next)
        if (strcmp(b->name, name) == 0)
            return b;
    struct benchmark *b = calloc(1, sizeof(*b));
    if (!b || !(b->name = strdup(name)))
        abort();
    *last = b;
    last = &b->next;
    return b;
}

void cp__spread_add(const char *benchmark, double ns_per_op)
{
    struct benchmark *b = find_benchmark(benchmark);
    b->values = realloc(b->values, (b->count + 1) * sizeof(b->values[0]));
    if (!b->values)
        abort();
    b->values[b->count++] = ns_per_op;
}

static int compare_samples(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Prints a benchmark's median, smallest and largest ns/op. Sorts the values. */
static void note(struct benchmark *b)
{
    qsort(b->values, b->count, sizeof(b->values[0]), compare_samples);
    double low = b->values[0], high = b->values[b->count - 1];
    double median = (b->values[(b->count - 1) / 2] + b->values[b->count / 2]) / 2;
    cp__report_note("# %s: %zu runs: median %.4g ns/op, %.4g to %.4g (%.1f %% to +%.1f %%)\n", b->name,
                    b->count, median, low, high, median > 0 ? 100 * (low / median - 1) : 0,
                    median > 0 ? 100 * (high / median - 1) : 0);
}

void cp__spread_note(void)
{
    while (first) {
        struct benchmark *b = first;
        first = b->next;
        if (b->count > 1)
            note(b);
        free(b->name);
        free(b->values);
        free(b);
    }
    last = &first;
}
