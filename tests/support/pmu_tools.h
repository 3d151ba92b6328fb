/*
 * What the tests of hardware events share. The tests run on a machine that has a PMU and are skipped on
 * others. tests/vm runs the tests on an emulated machine, and says with CP_TEST_PMU how many percent of an
 * event's own count its samples must be: 99 if the machine is exact, less if its interrupts come late. An
 * event that does not open is then a failure.
 */
#ifndef COUNTERPOINT_TESTS_PMU_TOOLS_H
#define COUNTERPOINT_TESTS_PMU_TOOLS_H

#include <stdint.h>

#include "burn.h"

/* In cycles. At 1 GHz, which the emulated machine has, the period is a millisecond. */
#define PERIOD 1000000

/* The same event by its number. Only Arm has one number for the cycles of every processor. */
#ifdef __aarch64__
#define RAW_CYCLES "r11"
#else
#define RAW_CYCLES "cycles"
#endif

static inline double least_share(void)
{
    const char *percent = getenv("CP_TEST_PMU");

    return percent != NULL ? strtod(percent, NULL) / 100 : 0.99;
}

static inline bool is_rough(void)
{
    return least_share() < 0.99;
}

static inline void need_prompt_signals(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: where they find a thread means nothing");
}

/* Skips the test if the events are not available. */
static inline void need(const struct cp_slot_request *requests, size_t n)
{
    struct cp_error err = {0};
    int slots[CP_EV_MAX];
    need_prompt_signals();
    int result = cp_slots_start(requests, n, slots, &err);

    if (result == 0) {
        cp_slots_stop(slots, n);
        cp_slots_release(slots, n);
        return;
    }
    CHECKF(getenv("CP_TEST_PMU") == NULL, "%s", err.message);
    SKIP("there is no PMU to be used (%s)", strerror(-result));
}

/* Checks that a slot has at least this share of the samples that the event's own count implies, and no more
 * than the event counted. */
static inline void check_least(const struct profile *profile, size_t i, uint64_t period, double least)
{
    const struct cp_slot_stats *stats = &profile->stats[i];
    double periods = periods_of(profile, i, period);
    double samples = (double)stats->samples;

    printf("slot %zu: %.1f periods, %llu samples by %llu signals, %llu lost, %llu throttled\n", i, periods,
           (unsigned long long)stats->samples, (unsigned long long)stats->signals,
           (unsigned long long)stats->lost, (unsigned long long)stats->throttled);
    CHECKF(periods >= (is_rough() ? 50 : 100), "%.1f periods", periods);
    CHECKF(samples >= least * periods - stats->ms, "%.0f of %.1f", samples, periods);
    CHECKF(samples <= (is_rough() ? 1.1 : 1.005) * periods + stats->ms, "%.0f of %.1f", samples, periods);
    CHECK_EQ(profile->seen[i].weight, stats->samples);
    CHECK_EQ(stats->lost + stats->dropped + stats->foreign + stats->ms_refused + stats->ms_ringless, 0);
    CHECK(stats->time_running == stats->time_enabled);
}

static inline void check_share(const struct profile *profile, size_t i, uint64_t period)
{
    check_least(profile, i, period, least_share());
}

static inline void run_profiled(struct profile *profile, const struct cp_slot_request *requests, size_t n,
                                void (*body)(struct worker *), uint64_t ns)
{
    struct worker worker;

    start_profile(profile, requests, n);
    run_attached(&worker, body, &ns);
    stop_profile(profile);
}

#endif
