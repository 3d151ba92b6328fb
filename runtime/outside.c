#include "outside.h"

#include "engine.h"
#include "slot.h"

/* A POSIX timer on a CPU clock expires at the kernel's ticks at the most, and leaves its thread its time. */
static bool can_starve(const struct cp__m *m, int slot)
{
    const struct cp__handle *handle = &m->handles[slot];

    return handle->seq != 0 && handle->fd >= 0 && handle->kind != CP_EVENT_TIMER &&
           (cp_load_relaxed(&m->off) >> slot & 1) == 0; /* relaxed: written with the claim */
}

/*
 * An M that takes the claim later sees that the slots are empty: the exchange with which it takes the claim
 * pairs with the release of it here. One that has it now is still to be looked at. So no event goes on that
 * was armed from what the slots held before.
 */
bool cp__outside_disable_unwanted(struct cp__m *m)
{
    if (!cp__m_claim_from_handler(m, CP__CLAIM_OUTSIDE))
        return false;
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (can_starve(m, slot) && m->handles[slot].seq != cp__slot_seq_from_handler(slot))
            cp__engine.disable(m, slot);
    }
    cp__m_unclaim_from_handler(m);
    return true;
}
