/* How many samples there are, and whose they are. tests/live/clocks_test.c asks the machine's kernel. */
#include "tests/support/burn.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Checks that a slot has so many samples, which came at once, each by a signal of its own. */
static void check_samples(const struct profile *profile, size_t i, uint64_t samples)
{
    const struct cp_slot_stats *stats = &profile->stats[i];

    CHECK_EQ(stats->samples, samples);
    CHECK_EQ(stats->signals, samples);
    CHECK_EQ(profile->seen[i].samples, samples);
    CHECK_EQ(profile->seen[i].weight, samples);
    CHECK_EQ(profile->seen[i].truncated + profile->seen[i].foreign_sp, 0);
    CHECK_EQ(stats->overruns + stats->stalled + stats->late, 0);
}

/* Checks that nothing of a slot has gone elsewhere. */
static void check_books(const struct profile *profile, size_t i)
{
    const struct cp_slot_stats *stats = &profile->stats[i];

    CHECK_EQ(profile->seen[i].weight, stats->samples);
    CHECK_EQ(profile->seen[i].late, stats->late);
    CHECK_EQ(profile->seen[i].stalled, stats->stalled);
    CHECK_EQ(stats->lost + stats->dropped + stats->foreign, 0);
    CHECK_EQ(stats->ms_refused + stats->ms_ringless, 0);
}

/* Profiles a thread that runs body. */
static void profile_worker(struct profile *profile, const struct cp_slot_request *requests, size_t n,
                           void (*body)(struct worker *), void *arg)
{
    struct worker worker;

    start_profile(profile, requests, n);
    run_attached(&worker, body, arg);
    stop_profile(profile);
    for (size_t i = 0; i < n; i++)
        check_books(profile, i);
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

SIM_TEST(task_clock_samples_are_its_count_by_the_period)
{
    struct cp_slot_request requests[] = {request("taskClock", 200000)};
    struct profile profile = {.n = 0};
    uint64_t ns = 100 * MS;

    profile_worker(&profile, requests, 1, body_a, &ns);
    check_samples(&profile, 0, 500);
    check_told(&profile, 0, 200000);
    CHECK_EQ(profile.stats[0].count, ns);
    CHECK_EQ(profile.stats[0].time_running, ns);
    CHECK_EQ(profile.stats[0].throttled, 0);
    CHECK_EQ(profile.stats[0].ms, 1);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 500);
    CHECK_EQ(profile.seen[0].in[IN_B] + profile.seen[0].in[IN_C], 0);
}

/* What is left of the last period is no sample, on each M. */
SIM_TEST(a_period_that_does_not_end_is_no_sample)
{
    struct cp_slot_request requests[] = {request("cpuClock", 2 * MS)};
    struct profile profile = {.n = 0};
    uint64_t ns = 10 * MS - 1;

    start_profile(&profile, requests, 1);
    for (int i = 0; i < 3; i++) {
        struct worker worker;

        run_attached(&worker, body_a, &ns);
    }
    stop_profile(&profile);
    check_samples(&profile, 0, 3 * 4);
    CHECK_EQ(profile.stats[0].count, 3 * ns);
    CHECK_EQ(profile.stats[0].ms, 3);
}

SIM_TEST(two_clocks_of_one_period_are_both_whole)
{
    struct cp_slot_request requests[] = {request("taskClock", 200000), request("cpuClock", 200000)};
    struct profile profile = {.n = 0};
    uint64_t ns = 100 * MS;

    profile_worker(&profile, requests, 2, body_a, &ns);
    for (size_t i = 0; i < 2; i++) {
        check_samples(&profile, i, 500);
        check_told(&profile, i, 200000);
        CHECK_EQ(profile.seen[i].leaf[IN_A], 500);
    }
}

/* ---- Throttling ------------------------------------------------------------------------------ */

/*
 * The limit lets so many samples of a tick pass, and one more is what throttles. For the rest of the tick the
 * event stands still, and the first sample of the next tick ends a whole period. The records say how much
 * time had passed at the sample that throttled and at the next one, and how much wall time was between both
 * ends of the throttling, which is a period less. The smaller one counts.
 */
static const struct limit {
    uint64_t max_rate;
    uint64_t period;
    uint64_t in_a_tick; /* samples; 4 ms have 200, 100 or 40 periods */
} limits[] = {
    {25000, 20000, 101}, {12000, 40000, 49}, {5000, 100000, 21}, {4000, 100000, 17}, {1000, 100000, 5},
};

#define TICK (4 * MS)
#define TICKS 10

/* Checks what the event has after ten ticks, of which the last one is cut short. */
static void check_throttled(const struct limit *limit, const char *event, uint64_t cut)
{
    struct cp_slot_request requests[] = {request(event, limit->period)};
    struct profile profile = {.may_be_throttled = true};
    const struct cp_slot_stats *stats = &profile.stats[0];
    uint64_t ns = TICKS * TICK - cut;

    printf("%s, of which the kernel lets %llu a second pass\n", event, (unsigned long long)limit->max_rate);
    sim->max_rate = limit->max_rate;
    profile_worker(&profile, requests, 1, body_a, &ns);
    check_samples(&profile, 0, TICKS * limit->in_a_tick);
    CHECK_EQ(profile.seen[0].leaf[IN_A], TICKS * limit->in_a_tick);
    CHECK_EQ(stats->throttled, TICKS);
    CHECK_EQ(stats->time_running, ns);
    CHECK_EQ(stats->count, ns);
    CHECK_EQ(stats->throttled_ns, TICKS * (TICK - limit->in_a_tick * limit->period) - cut);
}

static void check_limits(uint64_t cut)
{
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        check_throttled(&limits[i], "taskClock", cut);
        check_throttled(&limits[i], "cpuClock", cut);
    }
}

SIM_TEST(what_the_kernel_throttles_is_told)
{
    check_limits(0);
}

SIM_TEST(a_throttling_that_does_not_end_is_told)
{
    check_limits(MS);
}

/* An event with a longer period goes on while the other one is throttled. */
SIM_TEST(throttling_is_of_one_event)
{
    struct cp_slot_request requests[] = {request("taskClock", 125000), request("cpuClock", MS)};
    struct profile profile = {.may_be_throttled = true};
    uint64_t ns = 40 * MS;

    sim->max_rate = 5000;
    profile_worker(&profile, requests, 2, body_a, &ns);
    check_samples(&profile, 0, 10 * 21);
    check_samples(&profile, 1, 40);
    CHECK_EQ(profile.stats[0].throttled, 10);
    CHECK_EQ(profile.stats[1].throttled + profile.stats[1].throttled_ns, 0);
}

/* ---- A CPU that stands still ------------------------------------------------------------------ */

CODE(a) void stall_a(uint64_t ns)
{
    SIM_STALL_FOR(ns);
}

/* Runs for 20 ms, and stands still in the midst of them. */
static void body_stalls(struct worker *worker)
{
    const uint64_t stall = *(const uint64_t *)worker->arg;

    burn_b(5 * MS);
    stall_a(stall);
    burn_b(15 * MS - stall);
}

/* Checks that the stall has one signal, by which so many periods came that passed meanwhile. */
static void check_stall(const char *event, uint64_t stall, uint64_t overruns, uint64_t stalled)
{
    struct cp_slot_request requests[] = {request(event, MS)};
    struct profile profile = {.n = 0};
    const struct cp_slot_stats *stats = &profile.stats[0];

    profile_worker(&profile, requests, 1, body_stalls, &stall);
    check_told(&profile, 0, MS);
    CHECK_EQ(stats->samples, 20);
    CHECK_EQ(stats->signals, 20 - overruns);
    CHECK_EQ(profile.seen[0].samples, 20 - overruns);
    CHECK_EQ(stats->overruns, overruns);
    CHECK_EQ(stats->stalled, stalled);
    CHECK_EQ(stats->late, 0);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 1 + overruns); /* with those that count for no function */
    CHECK_EQ(profile.seen[0].leaf[IN_B], 19 - overruns);
}

/* Interrupts may be off for 2 ms. */
SIM_TEST(periods_that_a_late_interrupt_skips_belong_to_its_place)
{
    check_stall("taskClock", MS + MS / 2, 0, 0);
    check_stall("taskClock", 2 * MS + MS / 2, 1, 0);
    check_stall("cpuClock", 3 * MS + MS / 2, 2, 0);
}

SIM_TEST(what_passes_while_a_cpu_stands_still_is_no_functions)
{
    check_stall("taskClock", 4 * MS + MS / 2, 3, 3);
    check_stall("cpuClock", 10 * MS + MS / 2, 9, 9);
}

/* A timer's expiries are counted by the kernel. The first one is anywhere in the first period, so 10 or
 * 11 fall into the stall. */
SIM_TEST(a_timer_counts_what_passes_while_a_cpu_stands_still)
{
    struct cp_slot_request requests[] = {request("timer", MS)};
    struct profile profile = {.n = 0};
    const struct cp_slot_stats *stats = &profile.stats[0];
    uint64_t stall = 10 * MS + MS / 2;

    profile_worker(&profile, requests, 1, body_stalls, &stall);
    CHECK_EQ(stats->samples, 20);
    CHECK(stats->overruns == 9 || stats->overruns == 10);
    CHECK_EQ(stats->signals, 20 - stats->overruns);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 1 + stats->overruns);
    CHECK_EQ(stats->stalled, 0);
}

/* ---- Events that the program causes ---------------------------------------------------------- */

#define ROUNDS 20
#define FAULTS 64
#define SWITCHES 4

CODE(a) void fault_a(void)
{
    for (uintptr_t i = 0; i < FAULTS; i++)
        SIM_FAULT(4096 * i);
}

CODE(b) void switch_b(void)
{
    SIM_SWITCH(SWITCHES);
}

/* Causes all of the events below, and runs for 17 ms in each round. */
static void body_mixture(struct worker *worker)
{
    (void)worker;
    for (int i = 0; i < ROUNDS; i++) {
        fault_a();
        switch_b();
        burn_a(17 * MS);
    }
}

static void check_mixture(const struct cp_slot_request *requests, const uint64_t *samples, size_t n)
{
    struct profile profile = {.n = 0};

    profile_worker(&profile, requests, n, body_mixture, NULL);
    for (size_t i = 0; i < n; i++) {
        bool is_switch = requests[i].event == CP_CPUPROF_SW_CONTEXT_SWITCHES;

        check_samples(&profile, i, samples[i]);
        CHECK_EQ(profile.seen[i].leaf[is_switch ? IN_B : IN_A], samples[i]);
        if (requests[i].event != CP_CPUPROF_OS_TIMER)
            check_told(&profile, i, requests[i].config.period);
    }
}

SIM_TEST(four_events_at_once_are_whole)
{
    const struct cp_slot_request requests[] = {request("taskClock", MS), request("cpuClock", MS),
                                               request("pageFaults", 7), request("contextSwitches", 3)};
    const uint64_t samples[] = {340, 340, ROUNDS * FAULTS / 7, ROUNDS * SWITCHES / 3};

    check_mixture(requests, samples, ARRAY_SIZE(requests));
}

SIM_TEST(eight_events_at_once_are_whole)
{
    const struct cp_slot_request requests[] = {
        request("taskClock", MS),      request("cpuClock", 11 * MS / 10),  request("pageFaults", 7),
        request("contextSwitches", 3), request("taskClock", 17 * MS / 10), request("cpuClock", 31 * MS / 10),
        request("timer", 10 * MS),     request("cpuMigrations", 1),
    };
    const uint64_t samples[] = {
        340, 309 /* 339.9 ms */, ROUNDS * FAULTS / 7, ROUNDS * SWITCHES / 3, 200, 109 /* 337.9 ms */, 34, 0,
    };

    check_mixture(requests, samples, ARRAY_SIZE(requests));
}

SIM_TEST(page_faults_belong_to_the_function_that_faults)
{
    struct cp_slot_request requests[] = {request("pageFaults", 1)};
    struct profile profile = {.n = 0};

    profile_worker(&profile, requests, 1, body_mixture, NULL);
    check_samples(&profile, 0, ROUNDS * FAULTS);
    check_told(&profile, 0, 1);
    CHECK_EQ(profile.seen[0].leaf[IN_A], ROUNDS * FAULTS);
}

SIM_TEST(context_switches_are_sampled)
{
    struct cp_slot_request requests[] = {request("contextSwitches", 1)};
    struct profile profile = {.n = 0};

    profile_worker(&profile, requests, 1, body_mixture, NULL);
    check_samples(&profile, 0, ROUNDS * SWITCHES);
    check_told(&profile, 0, 1);
    CHECK_EQ(profile.seen[0].leaf[IN_B], ROUNDS * SWITCHES);
}

/* ---- Timers ---------------------------------------------------------------------------------- */

/* The first expiry is in (0, period], and the others follow at each period. So there are as many expiries as
 * whole periods, wherever the first one is. */
SIM_TEST(a_timer_of_100_hz_samples_every_10_ms)
{
    struct cp_slot_request requests[] = {request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    uint64_t ns = 400 * MS;

    profile_worker(&profile, requests, 1, body_a, &ns);
    check_samples(&profile, 0, 40);
    CHECK_EQ(profile.stats[0].count, ns);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 40);
}

/* At a tick of 4 ms, four expiries have passed, whose signal is one. What expires after the last tick has no
 * signal. */
SIM_TEST(a_timer_above_the_tick_rate_folds_overruns_in)
{
    struct cp_slot_request requests[] = {request("timer", MS)};
    struct profile profile = {.n = 0};
    const struct cp_slot_stats *stats = &profile.stats[0];
    uint64_t ns = 402 * MS;

    sim->timers_tick = true;
    profile_worker(&profile, requests, 1, body_a, &ns);
    CHECK_EQ(stats->count, ns);
    CHECK_EQ(stats->samples, 400);
    CHECK_EQ(stats->signals, 100);
    CHECK_EQ(profile.seen[0].samples, 100);
    CHECK_EQ(stats->overruns, 300);
    CHECK_EQ(stats->stalled + stats->late, 0);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 400);
}

/* Runs until the slot has its first sample. */
static void body_first_sample(struct worker *worker)
{
    const int *slot = worker->arg;
    uint64_t before = sampled(*slot);

    while (sampled(*slot) == before)
        SPIN();
}

/* The first expiry is uniform in (0, period]. A timer with a fixed first expiry would always be at the
 * period, or at 0. */
SIM_TEST(a_timers_first_expiry_is_uniform)
{
    enum { MEASURED = 60 };
    const uint64_t period = 20 * MS;
    struct cp_slot_request requests[] = {request("timer", period)};
    struct profile profile = {.n = 0};
    double sum = 0;
    uint64_t least = period, most = 0;

    start_profile(&profile, requests, 1);
    for (int i = 0; i < MEASURED; i++) {
        struct worker worker;

        run_attached(&worker, body_first_sample, &profile.slots[0]);
        sum += (double)worker.cpu;
        least = worker.cpu < least ? worker.cpu : least;
        most = worker.cpu > most ? worker.cpu : most;
    }
    stop_profile(&profile);
    check_samples(&profile, 0, MEASURED);
    CHECK(most <= period);
    CHECK(least < period / 3 && most > period * 2 / 3);
    /* Each was noticed half a SPIN() late. The bound is five times the error of the mean. */
    CHECKF(fabs(sum / MEASURED - (double)(period + SPIN_NS) / 2) < 5 * (double)period / sqrt(12 * MEASURED),
           "first samples after %.3f ms on average", sum / MEASURED / 1e6);
}

enum { SHORT_THREADS = 100 };

/* Returns how many samples threads have together that run for so long under a timer of 10 ms. */
static uint64_t samples_of_short_threads(uint64_t ns)
{
    struct cp_slot_request requests[] = {request("timer", 10 * MS)};
    struct profile profile = {.n = 0};

    start_profile(&profile, requests, 1);
    for (int i = 0; i < SHORT_THREADS; i++) {
        struct worker worker;

        run_attached(&worker, body_a, &ns);
    }
    stop_profile(&profile);
    check_books(&profile, 0);
    check_samples(&profile, 0, profile.stats[0].samples);
    CHECK_EQ(profile.stats[0].count, SHORT_THREADS * ns);
    CHECK_EQ(profile.stats[0].ms, SHORT_THREADS);
    return profile.stats[0].samples;
}

/* A thread of one and a half periods has one or two samples, so the standard deviation of the sum is
 * half of the number's root. */
SIM_TEST(short_threads_are_sampled_in_proportion)
{
    double error = (double)samples_of_short_threads(15 * MS) - 1.5 * SHORT_THREADS;

    CHECKF(fabs(error) < 5 * 0.5 * sqrt(SHORT_THREADS), "%.0f", error);
    CHECK_EQ(samples_of_short_threads(20 * MS), 2 * SHORT_THREADS);
}

/* ---- Threads and Gs of samples --------------------------------------------------------------- */

struct ownership {
    int with_a, with_b; /* samples with these threads' labels */
    int of_nobody;
    int wrong;
};

static void check_owner(void *context, const struct cp_sample *sample)
{
    struct ownership *owned = context;
    enum code forbidden;

    if (cp_labels_count(sample->labels) != 1) {
        owned->of_nobody++;
        return;
    }
    CHECK_STR(cp_labels_key(sample->labels, 0), "thread");
    if (strcmp(cp_labels_value(sample->labels, 0), "a") == 0) {
        owned->with_a++;
        forbidden = IN_B;
    } else {
        owned->with_b++;
        forbidden = IN_A;
    }
    for (unsigned i = 0; i < sample->depth; i++)
        owned->wrong += is_in(forbidden, sample->frames[i]);
}

static void body_labelled_a(struct worker *worker)
{
    CP_LABEL_SCOPE("thread", "a");
    body_a(worker);
}

static void body_labelled_b(struct worker *worker)
{
    CP_LABEL_SCOPE("thread", "b");
    body_b(worker);
}

SIM_TEST(samples_belong_to_the_thread_that_caused_them)
{
    struct cp_slot_request requests[] = {request("taskClock", 200000), request("timer", MS)};
    struct ownership owned = {0};
    struct profile profile = {.look = check_owner, .context = &owned};
    struct worker a, b;
    uint64_t ns = 100 * MS;

    start_profile(&profile, requests, 2);
    start_worker(&a, body_labelled_a, &ns);
    start_worker(&b, body_labelled_b, &ns);
    join_worker(&a);
    join_worker(&b);
    stop_profile(&profile);
    check_samples(&profile, 0, 2 * 500);
    check_samples(&profile, 1, 2 * 100);
    CHECK_EQ(owned.wrong, 0);
    CHECK_EQ(owned.of_nobody, 0);
    CHECK_EQ(owned.with_a, 500 + 100);
    CHECK_EQ(owned.with_b, 500 + 100);
    CHECK_EQ(profile.stats[0].ms, 2);
}
