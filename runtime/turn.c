#include "turn.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "atomic.h"
#include "runtime/base/os.h"

static uint32_t is_taken; /* shared, atomic: 1 while a thread measures */

/* A measurement takes at most 0.3 s, unless its thread gets no CPU. A wait must end, because the measuring
 * thread may itself wait for the thread that asks, if the program has a pthread_create() of its own. */
#define LONGEST_WAIT_NS 1000000000u
/* A measurement that fails has kept a CPU busy for up to 0.3 s. */
#define FAILURE_LASTS_NS 10000000000u

static bool begin_turn(void)
{
    uint64_t start = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    uint32_t nobody = 0;

    while (!cp_compare_exchange(&is_taken, &nobody, 1u)) { /* pairs with the release in end_turn() */
        uint64_t passed = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) - start;

        if (passed >= LONGEST_WAIT_NS)
            return false;
        cp__os_futex_wait(&is_taken, 1, (int)((LONGEST_WAIT_NS - passed) / 1000000u) + 1);
        nobody = 0;
    }
    return true;
}

static void end_turn(void)
{
    cp_store_release(&is_taken, 0); /* pairs with the acquire in begin_turn() */
    cp__os_futex_wake_from_handler(&is_taken);
}

void cp__turn_forget(void)
{
    cp_store_relaxed(&is_taken, 0); /* relaxed: this is the only thread */
}

static bool has_failed(const struct cp__measured *measured)
{
    /* relaxed: nothing else depends on the number */
    return cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) < cp_load_relaxed(&measured->failed_until_ns);
}

static int measure_now(struct cp__measured *measured, int (*measure)(struct cp_error *err),
                       struct cp_error *err)
{
    int result = measure(err);

    if (result == -ENODATA) /* relaxed: as above */
        cp_store_relaxed(&measured->failed_until_ns,
                         cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + FAILURE_LASTS_NS);
    else if (result == 0) /* release: pairs with the acquires of those who ask */
        cp_store_release(&measured->times, measured->times + 1);
    return result;
}

/* A thread that ended here would keep the turn for ever, and the measuring thread would write to its
 * stack. */
int cp__measure_in_turn(struct cp__measured *measured, uint32_t before, int (*measure)(struct cp_error *err),
                        struct cp_error *err)
{
    int cancel_state, result = -ENODATA;

    if (has_failed(measured))
        return result;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    if (!begin_turn()) {
        result = -EBUSY;
    } else {
        if (cp_load_relaxed(&measured->times) != before) /* relaxed: the turn orders it */
            result = 0;
        else if (!has_failed(measured))
            result = measure_now(measured, measure, err);
        end_turn();
    }
    pthread_setcancelstate(cancel_state, NULL);
    return result;
}
