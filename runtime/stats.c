#include "error.h"
#include "m.h"
#include "slot.h"

#include <string.h>

/* Adds what m has counted for the config run to stats. */
static void add_m(struct cp_slot_stats *stats, int slot, uint64_t run, const struct cp__m *m)
{
    const struct cp__m_stats *from = &m->stats[slot];
    int refused;

    /* acquire: pairs with the release in reset_stats_from_handler(), configure.c. All others relaxed: each is
     * a counter of its own. */
    if (cp_load_acquire(&from->seq) != run)
        return;
    stats->samples += cp_load_relaxed(&from->samples);
    stats->signals += cp_load_relaxed(&from->signals);
    stats->dropped += cp_load_relaxed(&from->dropped);
    stats->lost += cp_load_relaxed(&from->lost);
    stats->undelivered += cp_load_relaxed(&from->undelivered);
    stats->truncated += cp_load_relaxed(&from->truncated);
    stats->incomplete += cp_load_relaxed(&from->incomplete);
    stats->throttled += cp_load_relaxed(&from->throttled);
    stats->overruns += cp_load_relaxed(&from->overruns);
    stats->stalled += cp_load_relaxed(&from->stalled);
    stats->count += cp_load_relaxed(&from->count);
    stats->time_enabled += cp_load_relaxed(&from->time_enabled);
    stats->time_running += cp_load_relaxed(&from->time_running);
    stats->foreign += cp_load_relaxed(&m->foreign) - cp_load_relaxed(&from->foreign);
    refused = (int)cp_load_relaxed(&from->refused);
    if (refused < 0) {
        stats->ms_refused++;
        stats->refused_errno = refused;
    } else {
        stats->ms++;
        stats->ms_ringless += cp_load_relaxed(&from->ringless) != 0;
    }
}

void cp__slot_keep_stats(int slot, const struct cp__m *m)
{
    add_m(cp__slot_kept_stats(slot), slot, cp__slot_run(slot), m);
}

void cp_slots_stats(int slot, struct cp_slot_stats *stats)
{
    cp__lock(&cp__runtime_lock);
    *stats = *cp__slot_kept_stats(slot);
    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (!m->exited || (m->undrained >> slot & 1) != 0)
            add_m(stats, slot, cp__slot_run(slot), m);
    }
    cp__unlock(&cp__runtime_lock);
}
