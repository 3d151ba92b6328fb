#ifndef COUNTERPOINT_TESTING_CLOCK_H
#define COUNTERPOINT_TESTING_CLOCK_H

#include <time.h>

/* Seconds since some moment, for differences. */
static inline double cp__clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
