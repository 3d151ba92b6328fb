/* Time that passes in programs that know nothing of the profiler, and include nothing of it. */
#ifndef COUNTERPOINT_TESTS_LET_PASS_H
#define COUNTERPOINT_TESTS_LET_PASS_H

#include <errno.h>
#include <time.h>

/* Returns the time of a clock in so many ms. */
static struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec t;

    clock_gettime(clock, &t);
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* Sleeps by another call than nanosleep(), which the programs wait in. */
static void let_pass(long ms)
{
    const struct timespec until = in_ms(CLOCK_MONOTONIC, ms);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

#endif
