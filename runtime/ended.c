/*
 * Each sampling event has a limit: after so many samples the kernel disables the event, unless the limit was
 * renewed (engine/limits_linux.c says why and how). The M's handler renews it. An event can still reach its
 * limit: its samples leave the thread no time, or the thread blocks the signal. Then no record of the event
 * comes any more, although its thread runs, and a reader's passes notice that.
 */
#include "ended.h"

#include "engine.h"
#include "runtime/base/os.h"

/* An event without a record for so much of its thread's CPU time is asked for its own count. An event that is
 * rarer than that is asked in each pass, which costs a read(2). */
#define SILENT_NS 10000000
/* If the event has not counted for this much CPU time between two looks, it does not count. */
#define STILL_NS 1000000

/* Returns whether the slot has no new records although m's thread had the CPU for a while. */
static bool is_silent(struct cp__m *m, int slot, uint64_t cpu_ns)
{
    const struct cp__m_stats *stats = &m->stats[slot];
    struct cp__watched *watched = &m->watched[slot];
    /* acquire: pairs with the release in reset_stats_from_handler(), configure.c */
    uint64_t seq = cp_load_acquire(&stats->seq);
    /* relaxed: an older value is seen as new records at the next look */
    uint64_t interrupts = cp_load_relaxed(&stats->interrupts);

    if (watched->seq == seq && watched->interrupts == interrupts)
        return cpu_ns - watched->cpu_ns >= SILENT_NS;
    *watched =
        (struct cp__watched){.seq = seq, .interrupts = interrupts, .cpu_ns = cpu_ns, .looked_at = cpu_ns};
    return false;
}

/* The event's time and the CPU clock go alike, except that the time in which the kernel switched to and from
 * the thread is the thread's and not the event's. So what is told may be somewhat too much. */
uint64_t cp__ended_missed_from_handler(const struct cp__m *m, int slot, uint64_t time_enabled)
{
    const struct cp__m_stats *stats = &m->stats[slot];
    /* relaxed, all: written with the claim */
    uint64_t now = cp__os_clock_ns_from_handler(m->cpu_clock), at = cp_load_relaxed(&stats->armed_at);
    uint64_t passed = now > at ? now - at : 0; /* the clock of a thread that has ended is at 0 */
    uint64_t known =
        time_enabled + cp_load_relaxed(&stats->stopped_ns) + cp_load_relaxed(&stats->disabled_ns);

    return passed > known ? passed - known : 1;
}

void cp__ended_tell_from_handler(struct cp__m *m, int slot, uint64_t least, const struct cp__ending *ending)
{
    struct cp__m_stats *stats = &m->stats[slot];
    uint64_t missed = cp__ended_missed_from_handler(m, slot, ending->time_enabled);

    if (missed < least)
        return;
    /* relaxed, all: written with the claim, and nothing else depends on the numbers */
    if (ending->is_disabled) {
        cp_store_relaxed(&stats->disabled_ns, stats->disabled_ns + missed);
        return;
    }
    cp_store_relaxed(&stats->stops, stats->stops + 1);
    cp_store_relaxed(&stats->stopped_ns, stats->stopped_ns + missed);
}

/* Looks again at an event that does not count. A handler may have disabled the event for its own time. */
static void look_closely(struct cp__m *m, int slot, uint64_t cpu_ns)
{
    struct cp__watched *watched = &m->watched[slot];
    const struct cp__handle *handle = &m->handles[slot];
    struct cp__ending ending = {.time_enabled = 0};

    if (handle->seq != watched->seq || !handle->is_open || handle->engine->has_ended == NULL ||
        (cp_load_relaxed(&m->off) >> slot & 1) != 0 || /* relaxed: written with the claim */
        cp_load_relaxed(&m->runs) % 2 != 0)            /* relaxed: a later look finds the same */
        return;
    if (handle->engine->has_ended(m, slot, &ending)) {
        cp__ended_tell_from_handler(m, slot, 0, &ending);
        watched->cpu_ns = cpu_ns;
        handle->engine->restart(m, slot);
    }
    /* read after the event's time, so that the event has counted if the clock moves by STILL_NS from here to
     * the next look */
    watched->looked_at = cp__os_clock_ns_from_handler(m->cpu_clock);
}

void cp__ended_look(struct cp__m *m, uint64_t cpu_ns)
{
    /* relaxed, both: an event that has just been armed or disabled is looked at in a later pass */
    uint32_t counting = cp_load_relaxed(&m->armed) & ~cp_load_relaxed(&m->off);

    for (; counting != 0; counting &= counting - 1) {
        int slot = __builtin_ctz(counting);

        /* relaxed: set before seq, which is_silent() acquires. What the program does itself has no limit. */
        if (!is_silent(m, slot, cpu_ns) || cp_load_relaxed(&m->stats[slot].may_starve) == 0 ||
            cpu_ns - m->watched[slot].looked_at < STILL_NS)
            continue;
        if (!cp__m_claim_from_handler(m, CP__CLAIM_OUTSIDE))
            return;
        look_closely(m, slot, cpu_ns);
        cp__m_unclaim_from_handler(m);
    }
}
