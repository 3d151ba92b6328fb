/* How often events are enabled and disabled, for tests of what stops events for a moment. */
#ifndef COUNTERPOINT_TESTS_SWITCHING_H
#define COUNTERPOINT_TESTS_SWITCHING_H

#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "atomic.h"
#include "tests/support/sim/sim.h"

static uint64_t switchings; /* atomic */

static long look_at_switching(long number, const long a[6])
{
    if (number == SYS_ioctl &&
        (a[1] == PERF_EVENT_IOC_DISABLE || a[1] == PERF_EVENT_IOC_ENABLE || a[1] == PERF_EVENT_IOC_REFRESH))
        cp_fetch_add_relaxed(&switchings, 1u); /* relaxed: read after everything is over */
    return sim_hand_on(number, a);
}

__attribute__((constructor)) static void hook_switching(void)
{
    sim_hook(look_at_switching);
}

/* Returns how often events were enabled and disabled since the last call. */
static uint64_t take_switchings(void)
{
    uint64_t n = cp_load_relaxed(&switchings); /* relaxed: whoever switches has been waited for */

    cp_store_relaxed(&switchings, (uint64_t)0);
    return n;
}

#endif
