/* Reading clocks, for all libraries: each library has its own copy of these functions. */
#ifndef COUNTERPOINT_RUNTIME_BASE_CLOCK_H
#define COUNTERPOINT_RUNTIME_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns the clock's time in nanoseconds; for CLOCK_REALTIME and similar clocks, since 1970. */
static inline int64_t cp__clock_ns(clockid_t clock)
{
    struct timespec ts = {0, 0};

    clock_gettime(clock, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* Returns seconds since an unspecified moment. Only differences are meaningful. */
static inline double cp__clock_s(void)
{
    return (double)cp__clock_ns(CLOCK_MONOTONIC) * 1e-9;
}

#endif
