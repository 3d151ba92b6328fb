/* Running Gs in tests. */
#ifndef COUNTERPOINT_TESTS_GS_H
#define COUNTERPOINT_TESTS_GS_H

#include "clock.h"
#include "sched.h"
#include "test.h"

#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#define MS 1000000ull /* ns */

/* Runs fn(arg) as the first G, until all Gs have ended. */
static inline void run(unsigned threads, void (*fn)(void *), void *arg)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = threads};
    struct cp_error err = {0};
    int result = cp_sched_run(&options, fn, arg, &err);

    CHECKF(result == 0, "%s", err.message);
}

static inline void go(void (*fn)(void *), void *arg)
{
    CHECK_EQ(cp_go(fn, arg), 0);
}

/* Adds one to an unsigned. Can also be the function of a G. */
static inline void add_one(void *counter)
{
    cp_fetch_add_acq_rel((unsigned *)counter, 1u);
}

/* ---- A signal every 200 us, without SA_RESTART ----------------------------------------------- */

static unsigned storm_signals;

static inline void count_storm_signal(int signo)
{
    (void)signo;
    cp_fetch_add_relaxed(&storm_signals, 1u);
}

static inline void begin_storm(void)
{
    struct sigaction action = {.sa_handler = count_storm_signal};
    struct itimerval often = {.it_interval = {.tv_usec = 200}, .it_value = {.tv_usec = 200}};

    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static inline void end_storm(void)
{
    CHECK_EQ(setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0}}, NULL), 0);
    CHECKF(storm_signals > 10, "only %u signals came", storm_signals);
}

#endif
