#include "outside.h"

#include "engine.h"
#include "slot.h"

/* Returns whether the event in slot could leave its thread no time. */
static bool can_starve(const struct cp__m *m, int slot)
{
    const struct cp__handle *handle = &m->handles[slot];

    return handle->is_open && handle->engine->disable != NULL &&
           (cp_load_relaxed(&m->off) >> slot & 1) == 0; /* relaxed: written with the claim */
}

/*
 * Disables the events of configs that no slot holds any more. If the M takes the claim later, it sees that
 * the slots are empty, because its exchange of the claim pairs with the release here. If the M has the claim
 * now, the caller must look again: this returns false.
 */
bool cp__outside_disable_unwanted(struct cp__m *m)
{
    if (!cp__m_claim_from_handler(m, CP__CLAIM_OUTSIDE))
        return false;
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (can_starve(m, slot) && m->handles[slot].seq != cp__slot_seq_from_handler(slot))
            m->handles[slot].engine->disable(m, slot);
    }
    cp__m_unclaim_from_handler(m);
    return true;
}
