/*
 * A start arms all Ms. If descriptors or memory end before all have their events, those that sleep have
 * events that they do not need, and others that run may have none. A reader's pass finds an M that runs
 * without one, and takes an event for it from an M that has not run since it was armed: that one has missed
 * nothing so far, and is told as refused. If its thread wakes, a pass finds it in turn. So those are left out
 * that sleep the longest.
 */
#include "share.h"

#include <errno.h>

#include "engine.h"
#include "outside.h"
#include "runtime/base/os.h"
#include "slot.h"

static uint64_t looks; /* which this pass has left, for sleepers; under the runtime lock */

void cp__share_begin(uint64_t n)
{
    looks = n;
}

/* Whether the slot's event was refused to m for a lack of what others have. */
static bool is_left_out(const struct cp__m *m, int slot)
{
    const struct cp__m_stats *stats = &m->stats[slot];
    /* acquire: pairs with the release in reset_stats_from_handler(), configure.c */
    const bool is_of_slot = cp_load_acquire(&stats->seq) == cp__slot_seq_from_handler(slot);
    const int64_t refused = (int64_t)cp_load_relaxed(&stats->refused); /* relaxed: a number of its own */

    return is_of_slot &&
           (refused == -EMFILE || refused == -ENFILE || refused == -ENOMEM || refused == -EAGAIN);
}

/* Looks at as many Ms as the pass may, from where the last search has ended. */
static struct cp__m *find_sleeper(int slot)
{
    const struct cp__m *first = NULL;

    while (looks > 0) {
        struct cp__m *m = cp__ms_sleep_cursor != NULL ? cp__ms_sleep_cursor : cp__ms;

        if (m == NULL || m == first)
            return NULL;
        if (first == NULL)
            first = m;
        cp__ms_sleep_cursor = m->next;
        looks--;
        if (m != cp__m_current && cp__outside_has_slept(m, slot))
            return m;
    }
    return NULL;
}

static void share_slot(struct cp__m *m, int slot)
{
    struct cp__m *sleeper;

    if (!cp__outside_try_again(m, slot) || !is_left_out(m, slot))
        return;
    sleeper = find_sleeper(slot);
    if (sleeper != NULL && cp__outside_leave_out(sleeper, slot))
        cp__outside_try_again(m, slot);
}

void cp__share_look(struct cp__m *m, uint64_t cpu_ns)
{
    /* relaxed: looked at again with the claim */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1) {
        int slot = __builtin_ctz(armed);

        if (is_left_out(m, slot) && cpu_ns >= m->cpu[slot].since + CP__MOMENT_NS)
            share_slot(m, slot);
    }
}
