/*
 * Stops that wait for a thread, without the machine's time: the calling thread's steps of the wait take
 * simulated time. A stop waits for 2 s at most, in steps of 1 ms.
 */
#ifndef COUNTERPOINT_TESTS_STOP_TIME_H
#define COUNTERPOINT_TESTS_STOP_TIME_H

#include <errno.h>
#include <linux/futex.h>

#include "burn.h"
#include "clock.h"
#include "stub_syscall.h"

#define LONGEST_WAIT_MS 2000

static _Thread_local bool is_stopping;
static _Thread_local int steps;            /* in which the thread has waited ... */
static _Thread_local uint64_t waits_since; /* ... since then */

static long stub_syscall(long number, const long a[6])
{
    if (number != SYS_futex || (a[1] & FUTEX_CMD_MASK) != FUTEX_WAIT || a[3] == 0 || !is_stopping)
        return hand_on(number, a);
    CHECK_EQ(((const struct timespec *)a[3])->tv_nsec, MS);
    steps++;
    sim_happen((struct sim_run){SIM_TIME, MS, 0});
    errno = ETIMEDOUT;
    return -1;
}

BURN_API void begin_stop(void)
{
    is_stopping = true;
    steps = 0;
    waits_since = wall_ns();
}

/* Checks that the stop has waited for as long as it waits for any thread. The machine's time counts, too. */
BURN_API void end_long_stop(void)
{
    is_stopping = false;
    CHECK(steps <= LONGEST_WAIT_MS);
    CHECK(wall_ns() - waits_since >= LONGEST_WAIT_MS * MS);
}

/* Checks that the stop has not waited. */
BURN_API void end_short_stop(void)
{
    is_stopping = false;
    CHECK_EQ(steps, 0);
}

#endif
