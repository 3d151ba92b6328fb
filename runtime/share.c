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

/* Whether the slot's event was refused to m for a lack of what others have. */
static bool is_left_out(const struct cp__m *m, int slot)
{
    /* relaxed: written with the claim, and looked at again there */
    const int64_t refused = (int64_t)cp_load_relaxed(&m->stats[slot].refused);

    return !m->handles[slot].is_open && m->handles[slot].seq != 0 &&
           (refused == -EMFILE || refused == -ENFILE || refused == -ENOMEM || refused == -EAGAIN);
}

/* Whether m has the slot's event, and its thread has not run since the event was armed. */
static bool has_slept(const struct cp__m *m, int slot)
{
    /* relaxed, both: as above */
    return cp_load_relaxed(&m->life) == CP__M_LIVE && m != cp__m_current && m->handles[slot].is_open &&
           cp__m_has_slept_from_handler(m, slot);
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
