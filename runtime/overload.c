/*
 * How often some events happen is for the program to show: page faults, context switches, tracepoints,
 * accesses to an address. Clocks and cycles are refused at their start if they would cost too much, but by
 * what a sample cost when that was measured. So a reader's passes compare what samples cost each M with the
 * M's CPU time.
 */
#include "overload.h"

#include "cost.h"
#include "os.h"

/* So much CPU time at least lies between two looks. */
#define WINDOW_NS 100000000u

/* Each record has cost an interrupt, whether it was read or found the ring full. */
static uint64_t interrupts(const struct cp__m_stats *stats)
{
    /* relaxed: counters of their own */
    return cp_load_relaxed(&stats->records) + cp_load_relaxed(&stats->lost);
}

/* What the slot's samples have cost since the last look. */
static uint64_t take_cost(struct cp__m *m, int slot)
{
    const struct cp__m_stats *stats = &m->stats[slot];
    uint64_t seq = cp_load_acquire(&stats->seq); /* pairs with the release in reset_stats_from_handler() */
    uint64_t now = interrupts(stats);
    uint64_t before = m->window.seq[slot] == seq ? m->window.interrupts[slot] : now;

    m->window.seq[slot] = seq;
    m->window.interrupts[slot] = now;
    return now > before ? (now - before) * cp__cost_known() : 0;
}

/* The slot whose samples cost most, and all that samples have cost since the last look; -1: there is none. */
static int take_costliest(struct cp__m *m, uint64_t *sum)
{
    uint32_t counting =
        cp_load_relaxed(&m->armed) & ~cp_load_relaxed(&m->off); /* relaxed: this may be late */
    uint64_t busy = cp_load_relaxed(&m->busy_ns);               /* relaxed: a counter */
    uint64_t most = 0;
    int found = -1;

    *sum = 0;
    for (; counting != 0; counting &= counting - 1) {
        int slot = __builtin_ctz(counting);
        uint64_t cost = take_cost(m, slot);

        *sum += cost;
        if (cost > most) {
            most = cost;
            found = slot;
        }
    }
    if (*sum < busy - m->window.busy_ns)
        *sum = busy - m->window.busy_ns;
    m->window.busy_ns = busy;
    return found;
}

/* If m is just changing its handles, the next look will find the same. */
static void disable(struct cp__m *m, int slot, uint64_t cpu_ns)
{
    if (!cp__m_claim_from_handler(m, CP__CLAIM_OUTSIDE))
        return;
    if (m->handles[slot].seq == m->window.seq[slot] && m->handles[slot].kind != CP_EVENT_TIMER) {
        cp__os_disable(m, slot);
        cp_store_relaxed(&m->stats[slot].overloaded_at, cpu_ns); /* relaxed: a number of its own */
    }
    cp__m_unclaim_from_handler(m);
}

void cp__overload_look(struct cp__m *m)
{
    uint64_t now = cp__os_clock_ns_from_handler(m->cpu_clock);
    uint64_t passed = now - m->window.cpu_ns;
    uint64_t cost;
    int slot;

    if (passed < WINDOW_NS)
        return;
    m->window.cpu_ns = now;
    slot = take_costliest(m, &cost);
    if (slot >= 0 && cost > passed / 2)
        disable(m, slot, now);
}

uint64_t cp__overload_ns_from_handler(const struct cp__m *m, int slot)
{
    const struct cp__m_stats *stats = &m->stats[slot];
    uint64_t at = cp_load_relaxed(&stats->overloaded_at); /* relaxed, both: numbers of their own */
    uint64_t ns = cp_load_relaxed(&stats->overloaded_ns);

    if (at == 0 || ns != 0)
        return ns;
    ns = cp__os_clock_ns_from_handler(m->cpu_clock);
    return ns > at ? ns - at : 1;
}
