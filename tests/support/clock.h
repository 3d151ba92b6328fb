/* Clocks, in nanoseconds. */
#ifndef COUNTERPOINT_TESTS_CLOCK_H
#define COUNTERPOINT_TESTS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t wall_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* Returns the CPU time of the calling thread. */
static inline uint64_t cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

#endif
