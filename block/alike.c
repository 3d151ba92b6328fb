/* See alike.h. */
#include "alike.h"

#include <stdlib.h>
#include <string.h>

#define MOST 64u
#define TOLERANCE 0.002

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double mean_of(const double *times, unsigned n)
{
    double sum = 0;

    for (unsigned i = 0; i < n; i++)
        sum += times[i];
    return sum / n;
}

/* Of equally many, the shortest: what disturbs makes timings longer. */
struct cp__alike cp__alike_find(const double *times, unsigned n, double step)
{
    struct cp__alike most = {.n = 0};
    double sorted[MOST];

    n = n < MOST ? n : MOST;
    memcpy(sorted, times, n * sizeof sorted[0]);
    qsort(sorted, n, sizeof sorted[0], compare);
    for (unsigned begin = 0, end = 0; begin < n; begin++) {
        const double tolerance = sorted[begin] * TOLERANCE > step ? sorted[begin] * TOLERANCE : step;

        while (end < n && sorted[end] - sorted[begin] <= tolerance)
            end++;
        if (end - begin > most.n)
            most = (struct cp__alike){end - begin, mean_of(sorted + begin, end - begin),
                                      sorted[end - 1] - sorted[begin]};
    }
    return most;
}
