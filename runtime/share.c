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

/* The M itself may be changing its handles, so only what is atomic tells here. What is seen late is looked at
 * again with the claim. */
static bool is_armed(const struct cp__m *m, int slot)
{
    return (cp_load_relaxed(&m->armed) >> slot & 1) != 0; /* relaxed: see above */
}

/* Whether the slot's event was refused to m for a lack of what others have. */
static bool is_left_out(const struct cp__m *m, int slot)
{
    const int64_t refused = (int64_t)cp_load_relaxed(&m->stats[slot].refused); /* relaxed: see is_armed() */

    return is_armed(m, slot) &&
           (refused == -EMFILE || refused == -ENFILE || refused == -ENOMEM || refused == -EAGAIN);
}

/* Whether m has the slot's event, and its thread has not run since the event was armed. */
static bool has_slept(const struct cp__m *m, int slot)
{
    /* relaxed, both: see is_armed() */
    return cp_load_relaxed(&m->life) == CP__M_LIVE && m != cp__m_current && is_armed(m, slot) &&
           cp_load_relaxed(&m->stats[slot].refused) == 0 && cp__m_has_slept_from_handler(m, slot);
}

static struct cp__m *find_sleeper(int slot)
{
    struct cp__m *m = cp__ms;

    while (m != NULL && !has_slept(m, slot))
        m = m->next;
    return m;
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
    /* relaxed: as above */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1) {
        int slot = __builtin_ctz(armed);

        if (is_left_out(m, slot) && cpu_ns >= m->cpu[slot].since + CP__MOMENT_NS)
            share_slot(m, slot);
    }
}
