/*
 * What a switch costs with armed events: two threads of the library's own wake each other on one CPU, and one
 * of them has no event, or an event of each sort, by turns. The cost is how much longer the median of the
 * round trips is.
 *
 * Both threads stay on one CPU, as threads do that wake each other on a busy machine: a CPU without work
 * would add its way out of idleness.
 */
#include "switch_measure.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "engines.h"
#include "measuring.h"
#include "runtime/base/lock.h"
#include "runtime/base/os.h"
#include "runtime/base/thread.h"
#include "runtime/cost.h"
#include "runtime/m.h"
#include "runtime/switch_cost.h"
#include "runtime/turn.h"

enum { BARE, SOON, LATER, OTHER, SORTS };

/* The rounds take turns between the sorts, so that whatever else happens on the machine meets all of them. */
#define ROUNDS 4
#define TRIPS_A_ROUND 8
/* On a busy machine the threads wait for a CPU now and then. With fewer trips of each sort the costs stay
 * unknown. */
#define LEAST_TRIPS 8
#define LATE_NS 300000000u
#define LONGEST_WAIT_MS 100
/* Such a clock seldom expires before the next tick, and no trip has a sample of it. */
#define TICKS_LATER 8
#define NEVER (UINT64_C(1) << 40)

struct trips {
    struct cp__m *m;
    uint32_t is_out;  /* shared, atomic: 1 while it is the other thread's turn */
    uint32_t is_over; /* shared, atomic */
    uint64_t start_ns;
    uint64_t ns[SORTS][ROUNDS * TRIPS_A_ROUND];
    unsigned n[SORTS];
};

static uint64_t trip_clock_ns(void)
{
    return cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
}

static bool are_trips_late(const struct trips *trips)
{
    return trip_clock_ns() - trips->start_ns >= LATE_NS;
}

static void *answer_often(void *arg)
{
    struct trips *trips = arg;

    while (cp_load_relaxed(&trips->is_over) == 0) { /* relaxed: a flag */
        if (cp_load_relaxed(&trips->is_out) == 0) { /* relaxed, both: nothing else is handed over */
            cp__os_futex_wait(&trips->is_out, 0, LONGEST_WAIT_MS);
            continue;
        }
        cp_store_relaxed(&trips->is_out, 0);
        cp__os_futex_wake_from_handler(&trips->is_out);
    }
    return NULL;
}

static void *answer_as_own(void *arg)
{
    return cp__thread_own(answer_often, arg);
}

/* Lets the other thread have the CPU once, and notes how long that took. */
static void do_trip(struct trips *trips, int sort)
{
    const uint64_t start = trip_clock_ns();

    cp_store_relaxed(&trips->is_out, 1); /* relaxed, both: nothing else is handed over */
    cp__os_futex_wake_from_handler(&trips->is_out);
    while (cp_load_relaxed(&trips->is_out) == 1 && !are_trips_late(trips))
        cp__os_futex_wait(&trips->is_out, 1, LONGEST_WAIT_MS);
    if (cp_load_relaxed(&trips->is_out) == 0) /* relaxed: as above */
        trips->ns[sort][trips->n[sort]++] = trip_clock_ns() - start;
}

static int arm_sort(struct trips *trips, int sort)
{
    switch (sort) {
    case SOON:
        return cp__measuring_arm(trips->m, CP_CPUPROF_SW_TASK_CLOCK, cp__measuring_interval_ns(),
                                 TRIPS_A_ROUND);
    case LATER:
        return cp__measuring_arm(trips->m, CP_CPUPROF_SW_TASK_CLOCK, TICKS_LATER * cp__os_tick_ns(),
                                 TRIPS_A_ROUND);
    case OTHER:
        return cp__measuring_arm(trips->m, CP_CPUPROF_SW_PAGE_FAULTS, NEVER, TRIPS_A_ROUND);
    default:
        return 0;
    }
}

static int do_trips(struct trips *trips, int sort)
{
    int result = arm_sort(trips, sort);

    for (int i = 0; i < TRIPS_A_ROUND && result == 0 && !are_trips_late(trips); i++)
        do_trip(trips, sort);
    if (sort != BARE && result == 0)
        cp__measuring_disarm(trips->m);
    return result;
}

static void stay_on_this_cpu(void)
{
    cpu_set_t here;

    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here);
}

static void end_other(struct trips *trips, pthread_t other)
{
    cp_store_relaxed(&trips->is_over, 1); /* relaxed: a flag */
    cp_store_relaxed(&trips->is_out, 1);  /* relaxed: the other thread looks again in any case */
    cp__os_futex_wake_from_handler(&trips->is_out);
    pthread_join(other, NULL);
}

static int ask_often(struct cp__m *m, void *arg)
{
    struct trips *trips = arg;
    pthread_t other;
    int result;

    stay_on_this_cpu();
    result = cp__thread_start(&other, CP__DEEP_STACK, answer_as_own, trips);
    if (result < 0)
        return result;
    trips->m = m;
    trips->start_ns = trip_clock_ns();
    for (int i = 0; i < ROUNDS * SORTS && result == 0; i++)
        result = do_trips(trips, i % SORTS);
    end_other(trips, other);
    return result;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* A few trips have samples, or waited for a CPU. */
static uint64_t median(struct trips *trips, int sort)
{
    qsort(trips->ns[sort], trips->n[sort], sizeof trips->ns[sort][0], ascending);
    return trips->ns[sort][trips->n[sort] / 2];
}

static uint64_t difference(struct trips *trips, int sort)
{
    const uint64_t bare = median(trips, BARE), armed = median(trips, sort);

    return armed > bare ? armed - bare : 0;
}

static int evaluate(struct trips *trips, struct cp__switch_costs *costs)
{
    for (int sort = 0; sort < SORTS; sort++) {
        if (trips->n[sort] < LEAST_TRIPS)
            return -ENODATA;
    }
    *costs = (struct cp__switch_costs){.bare = median(trips, BARE) / 2,
                                       .soon = difference(trips, SOON),
                                       .later = difference(trips, LATER),
                                       .other = difference(trips, OTHER)};
    return 0;
}

/* Measures the costs, on threads of its own: -ENODATA if no CPU was free for it. */
static int measure_costs(struct cp__switch_costs *costs)
{
    struct trips *trips = calloc(1, sizeof *trips);
    int result = trips == NULL ? -ENOMEM : cp__measuring_run(ask_often, trips, NULL);

    if (result == 0)
        result = evaluate(trips, costs);
    free(trips);
    return result;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static struct cp__measured measured;

/* What the machine lacks, it lacks for good; a CPU may be free later. */
static int measure_and_note(struct cp_error *err)
{
    struct cp__switch_costs costs;
    int result = measure_costs(&costs);

    (void)err;
    if (result == -ENODATA)
        return result;
    cp__switch_costs_note(result == 0 ? &costs : NULL);
    return 0;
}

/* Measures, unless another thread has done so since it was done that often. */
static void measure_switches(uint32_t times)
{
    cp__engines_prepare();
    cp__measure_in_turn(&measured, times, measure_and_note, NULL);
}

uint64_t cp_switch_cost_ns(enum cp_event_kind kind, uint64_t period)
{
    if (kind != CP_EVENT_TIMER && kind != CP_EVENT_WAIT && !cp__switch_costs_are_known())
        measure_switches(0);
    return cp__switch_cost_known(kind, period);
}

/* The least share of the process's CPU time that may go to switches, if a start is to wait for the
 * measurement: with less, no period is refused and no event is stopped. */
#define LEAST_SHARE 0.1
/* Costs that would refuse a start are measured again, because a busy machine makes them too high, at most
 * this often. */
#define MOST_TRIES 3

/* How often a process was switched in its first moments says little about what it will do. */
#define YOUNG_NS 200000000u

static bool switches_often(void)
{
    const uint64_t cpu_ns = cp__os_clock_ns_from_handler(CLOCK_PROCESS_CPUTIME_ID) + YOUNG_NS;

    return (double)cp__os_switches() * CP__SWITCH_MOST_NS > LEAST_SHARE * (double)cpu_ns;
}

static bool would_refuse(const struct cp_slot_request *requests, size_t n, double running)
{
    int result;

    cp__lock(&cp__runtime_lock);
    result = cp__switch_check(requests, n, cp__cost_share(requests, n, running),
                              cp__switch_share(requests, n), NULL);
    cp__unlock(&cp__runtime_lock);
    return result < 0;
}

void cp__switch_costs_make_sure(const struct cp_slot_request *requests, size_t n, double running)
{
    if (!switches_often() || cp__switch_costs_are_set())
        return;
    if (!cp__switch_costs_are_known())
        measure_switches(0);
    for (int tries = 1; tries < MOST_TRIES && would_refuse(requests, n, running); tries++)
        measure_switches(cp_load_relaxed(&measured.times)); /* relaxed: a measurement more does no harm */
}
