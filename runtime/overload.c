/*
 * The program decides how often some events happen: page faults, context switches, tracepoints, accesses to
 * an address. The start of a clock or of cycles is refused if the event would cost too much, but by the cost
 * of a sample when that was measured. So a reader's passes compare what the samples cost each M with the M's
 * CPU time.
 */
#include "overload.h"

#include "cost.h"
#include "engine.h"
#include "runtime/base/os.h"

/* The least CPU time between two looks. */
#define WINDOW_NS 100000000u

/* Returns the number of interrupts. Each record has cost one, whether the record was read or found the ring
 * full. */
static uint64_t interrupts_of(const struct cp__m_stats *stats)
{
    /* relaxed: counters on which nothing else depends */
    return cp_load_relaxed(&stats->interrupts) + cp_load_relaxed(&stats->lost);
}

/* Returns the cost of the slot's samples since the last look. If a sample's cost could not be measured, the
 * number of samples still tells which slot costs the most. */
static uint64_t take_cost(struct cp__m *m, int slot)
{
    const uint64_t cost = cp__cost_known();
    const struct cp__m_stats *stats = &m->stats[slot];
    /* pairs with the release in reset_stats_from_handler(), configure.c */
    uint64_t seq = cp_load_acquire(&stats->seq);
    uint64_t now = interrupts_of(stats);
    uint64_t before = m->window.seq[slot] == seq ? m->window.interrupts[slot] : now;

    m->window.seq[slot] = seq;
    m->window.interrupts[slot] = now;
    return now > before ? (now - before) * (cost != 0 ? cost : 1) : 0;
}

struct costs {
    uint64_t of[CP_EV_MAX]; /* 0: none, or the event is disabled */
    uint64_t sum;
    uint64_t handler; /* the time in the handler, for all slots together */
};

/* Returns the cost of m's samples since the last look. */
static struct costs take_costs(struct cp__m *m)
{
    uint32_t counting =
        cp_load_relaxed(&m->armed) & ~cp_load_relaxed(&m->off); /* relaxed: this may be late */
    uint64_t handler = cp_load_relaxed(&m->handler_ns); /* relaxed: nothing else depends on the counter */
    struct costs costs = {.handler = handler - m->window.handler_ns};

    m->window.handler_ns = handler;
    for (; counting != 0; counting &= counting - 1) {
        int slot = __builtin_ctz(counting);

        costs.of[slot] = take_cost(m, slot);
        costs.sum += costs.of[slot];
    }
    return costs;
}

/*
 * Estimates the costs if the handler has been in one run for a whole window, because such a handler counts no
 * records. From the second look on, the events' own counts tell how often the events may have interrupted the
 * handler.
 */
static void estimate_costs(struct cp__m *m, struct costs *costs)
{
    uint32_t counting =
        cp_load_relaxed(&m->armed) & ~cp_load_relaxed(&m->off); /* relaxed: this may be late */

    *costs = (struct costs){.handler = 0};
    if (!cp__m_claim_from_handler(m, CP__CLAIM_OUTSIDE))
        return;
    for (; counting != 0; counting &= counting - 1) {
        int slot = __builtin_ctz(counting);
        uint64_t count;

        if (m->handles[slot].seq == 0 || m->handles[slot].kind == CP_EVENT_TIMER)
            continue;
        count = cp__engine.count(m, slot);
        if (m->window.is_stuck)
            costs->of[slot] =
                1 + (count - m->window.count[slot]) / m->handles[slot].period * cp__cost_known();
        costs->sum += costs->of[slot];
        m->window.count[slot] = count;
    }
    cp__m_unclaim_from_handler(m);
    m->window.is_stuck = true;
}

/* Returns whether the handler is in the same run as at the last look. */
static bool is_stuck(struct cp__m *m)
{
    uint64_t runs = cp_load_relaxed(&m->runs); /* relaxed: nothing else depends on the counter */
    bool same = runs % 2 == 1 && runs == m->window.runs;

    m->window.runs = runs;
    if (!same)
        m->window.is_stuck = false;
    return same;
}

/* Returns the slot whose samples cost the most, or -1 if none costs anything. */
static int find_costliest(const struct costs *costs)
{
    uint64_t most = 0;
    int found = -1;

    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (costs->of[slot] > most) {
            most = costs->of[slot];
            found = slot;
        }
    }
    return found;
}

/* Disables the event, unless m is just changing its handles; the next look finds the event again then. */
static void disable(struct cp__m *m, int slot, uint64_t cpu_ns)
{
    if (!cp__m_claim_from_handler(m, CP__CLAIM_OUTSIDE))
        return;
    if (m->handles[slot].seq == m->window.seq[slot] && m->handles[slot].kind != CP_EVENT_TIMER) {
        cp__engine.disable(m, slot);
        /* relaxed: nothing else depends on the number */
        cp_store_relaxed(&m->stats[slot].overloaded_at, cpu_ns);
    }
    cp__m_unclaim_from_handler(m);
}

/* Disables the costliest event first, until the others cost no more than half of the time. The handler's time
 * is that of all events together, so only one event is disabled because of it, and the next look decides
 * anew. */
void cp__overload_look(struct cp__m *m)
{
    uint64_t now = cp__os_clock_ns_from_handler(m->cpu_clock);
    uint64_t passed = now - m->window.cpu_ns;
    struct costs costs;
    bool too_much;

    if (passed < WINDOW_NS)
        return;
    m->window.cpu_ns = now;
    costs = take_costs(m);
    too_much = costs.sum > passed / 2 || costs.handler > passed / 2;
    if (is_stuck(m)) {
        estimate_costs(m, &costs);
        too_much = true;
    }
    while (too_much) {
        int slot = find_costliest(&costs);

        if (slot < 0)
            return;
        disable(m, slot, now);
        costs.sum -= costs.of[slot];
        costs.of[slot] = 0;
        too_much = costs.sum > passed / 2;
    }
}

uint64_t cp__overload_ns_from_handler(const struct cp__m *m, int slot)
{
    const struct cp__m_stats *stats = &m->stats[slot];
    /* relaxed, both: nothing else depends on the numbers */
    uint64_t at = cp_load_relaxed(&stats->overloaded_at);
    uint64_t ns = cp_load_relaxed(&stats->overloaded_ns);

    if (at == 0 || ns != 0)
        return ns;
    ns = cp__os_clock_ns_from_handler(m->cpu_clock);
    return ns > at ? ns - at : 1;
}
