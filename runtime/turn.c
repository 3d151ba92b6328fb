#include "turn.h"

#include <stdint.h>
#include <time.h>

#include "atomic.h"
#include "runtime/base/os.h"

static uint32_t is_taken; /* shared, atomic: 1 while a thread measures */

/* A measurement takes at most 0.3 s, unless its thread gets no CPU. A wait must end, because the measuring
 * thread may itself wait for the thread that asks, if the program has a pthread_create() of its own. */
#define LONGEST_WAIT_NS 1000000000u

bool cp__turn_begin(void)
{
    uint64_t start = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    uint32_t nobody = 0;

    while (!cp_compare_exchange(&is_taken, &nobody, 1u)) { /* pairs with the release in cp__turn_end() */
        uint64_t passed = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) - start;

        if (passed >= LONGEST_WAIT_NS)
            return false;
        cp__os_futex_wait(&is_taken, 1, (int)((LONGEST_WAIT_NS - passed) / 1000000u) + 1);
        nobody = 0;
    }
    return true;
}

void cp__turn_end(void)
{
    cp_store_release(&is_taken, 0); /* pairs with the acquire in cp__turn_begin() */
    cp__os_futex_wake_from_handler(&is_taken);
}

void cp__turn_forget(void)
{
    cp_store_relaxed(&is_taken, 0); /* relaxed: this is the only thread */
}
