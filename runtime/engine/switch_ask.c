/* Asks for what a switch costs, which is measured when it is needed, by one thread at a time. */
#include "switch_ask.h"

#include <errno.h>
#include <pthread.h>

#include "engines.h"
#include "runtime/base/os.h"
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

/* Measures, unless another thread has done so while this thread waited for its turn. What the machine lacks,
 * it lacks for good; a CPU may be free later. */
static void measure_switches_in_turn(void)
{
    struct cp__switch_costs costs;
    int result;

    if (has_failed() || !cp__turn_begin())
        return;
    if (!cp__switch_costs_are_known() && !has_failed()) {
        result = cp__switch_costs_measure(&costs);
        if (result != -ENODATA)
            cp__switch_costs_note(result == 0 ? &costs : NULL);
        else /* relaxed: as above */
            cp_store_relaxed(&failed_until_ns,
                             cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + FAILURE_LASTS_NS);
    }
    cp__turn_end();
}

/* Without a cancellation point: a thread that ended here would keep the turn for ever, and the measuring
 * thread would write to its stack. */
static void make_sure(void)
{
    int cancel_state;

    if (cp__switch_costs_are_known())
        return;
    cp__engines_prepare();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    measure_switches_in_turn();
    pthread_setcancelstate(cancel_state, NULL);
}

uint64_t cp_switch_cost_ns(enum cp_event_kind kind, uint64_t period)
{
    make_sure();
    return cp__switch_cost_known(kind, period);
}

/* The least share of the process's CPU time that may go to switches, if a start is to wait for the
 * measurement: with less, no period is refused and no event is stopped. */
#define LEAST_SHARE 0.1

void cp__switch_costs_make_sure(void)
{
    const double cpu_ns = (double)cp__os_clock_ns_from_handler(CLOCK_PROCESS_CPUTIME_ID);

    if ((double)cp__os_switches() * CP__SWITCH_MOST_NS > LEAST_SHARE * cpu_ns)
        make_sure();
}
