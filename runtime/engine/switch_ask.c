/* Asks for what a switch costs, which is measured when it is needed, by one thread at a time. */
#include "switch_ask.h"

#include <errno.h>
#include <pthread.h>

#include "engines.h"
#include "runtime/base/lock.h"
#include "runtime/base/os.h"
#include "runtime/cost.h"
#include "runtime/m.h"
#include "runtime/turn.h"

/* Shared, atomic: no measurement begins before this time of CLOCK_MONOTONIC, because no CPU was free for the
 * last one. */
static uint64_t failed_until_ns;
#define FAILURE_LASTS_NS 10000000000u

static bool has_failed(void)
{
    /* relaxed: nothing else depends on the number */
    return cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) < cp_load_relaxed(&failed_until_ns);
}

/* Shared, atomic: how often the costs were noted. */
static uint32_t measurements;

/* Measures, unless another thread has done so since there were `before` measurements, while this thread
 * waited for its turn. What the machine lacks, it lacks for good; a CPU may be free later. */
static void measure_switches_in_turn(uint32_t before)
{
    struct cp__switch_costs costs;
    int result;

    if (has_failed() || !cp__turn_begin())
        return;
    /* relaxed, both: the turn orders them */
    if (cp_load_relaxed(&measurements) == before && !has_failed()) {
        result = cp__switch_costs_measure(&costs);
        if (result != -ENODATA) {
            cp__switch_costs_note(result == 0 ? &costs : NULL);
            cp_store_relaxed(&measurements, before + 1);
        } else { /* relaxed: as above */
            cp_store_relaxed(&failed_until_ns,
                             cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + FAILURE_LASTS_NS);
        }
    }
    cp__turn_end();
}

/* The same, without a cancellation point: a thread that ended here would keep the turn for ever, and the
 * measuring thread would write to its stack. */
static void measure_switches(uint32_t before)
{
    int cancel_state;

    cp__engines_prepare();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    measure_switches_in_turn(before);
    pthread_setcancelstate(cancel_state, NULL);
}

uint64_t cp_switch_cost_ns(enum cp_event_kind kind, uint64_t period)
{
    if (!cp__switch_costs_are_known())
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
        measure_switches(cp_load_relaxed(&measurements)); /* relaxed: a measurement more does no harm */
}
