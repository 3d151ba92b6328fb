/*
 * What an event really takes is known only when it runs: how often page faults, context switches,
 * tracepoints or accesses to an address happen is the program's choice, and the cost of a sample may be
 * other than it was when it was measured. So a reader's passes look at what the samples of each M have
 * taken of the M's CPU time.
 *
 * An event is stopped on an M only if its samples leave the thread next to nothing, and that twice in a
 * row. A thread that gets on keeps its event, even if the profile slows it down much: the profile has a
 * comment on that. Two of the three signs need no cost of a sample. An event that only the program's own
 * progress causes is judged by the time in the handler alone.
 *
 * What the events cost at the thread's switches is added to what their samples cost, because the thread has
 * as little left in the end. That needs a cost of a switch that was measured before: switch_cost.h.
 */
#include "overload.h"

#include "cost.h"
#include "engine.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "switch_cost.h"

/* The least CPU time between two looks. */
#define WINDOW_NS 100000000u
/* Fewer records than these say nothing about how an event's records follow each other. */
#define ENOUGH_RECORDS 16
/* Records that are further apart on average have breaks between them: no machine needs so long for a sample.
 * Without timers of a high resolution, a kernel's clocks skip all periods up to its next tick, which comes
 * after a millisecond at the earliest. */
#define LONGEST_SAMPLE_NS 500000

struct costs {
    uint64_t of[CP_EV_MAX]; /* 0: none, or the event is disabled */
    uint64_t sum;
    uint64_t handler;  /* the time in the handler, for all slots together */
    bool is_saturated; /* a clock's samples follow each other without a break */
};

/* A clock whose samples take longer than its period has records for several periods: at least one of four, if
 * its samples do not come in time (makes_progress_from_handler(), engine/limits_linux.c). A busy host or a
 * throttling kernel also skip periods, but in few long gaps. */
bool cp__overload_has_no_breaks_from_handler(uint64_t records, uint64_t multiples, uint64_t ns)
{
    return records >= ENOUGH_RECORDS && multiples > records / 4 && records * LONGEST_SAMPLE_NS > ns;
}

/* Adds the slot's samples since the last look. If a sample's cost could not be measured, the number of
 * samples still tells which slot costs the most. */
static void take_cost(struct cp__m *m, int slot, uint64_t passed, struct costs *costs)
{
    const uint64_t cost = cp__cost_known();
    const struct cp__m_stats *stats = &m->stats[slot];
    /* pairs with the release in reset_stats_from_handler(), configure.c */
    uint64_t seq = cp_load_acquire(&stats->seq);
    /* relaxed, both: counters on which nothing else depends */
    uint64_t interrupts = cp_load_relaxed(&stats->interrupts);
    uint64_t multiples = cp_load_relaxed(&stats->multiples);
    bool is_same = m->window.seq[slot] == seq;
    uint64_t n = is_same ? interrupts - m->window.interrupts[slot] : 0;

    if (is_same && cp__overload_has_no_breaks_from_handler(n, multiples - m->window.multiples[slot], passed))
        costs->is_saturated = true;
    m->window.seq[slot] = seq;
    m->window.interrupts[slot] = interrupts;
    m->window.multiples[slot] = multiples;
    costs->of[slot] = n * (cost != 0 ? cost : 1);
    costs->sum += cp_load_relaxed(&stats->is_own_doing) != 0 ? 0 : n * cost; /* relaxed: set before seq */
}

/* Reads the figures of m's thread, from a file. If another thread forks, nobody opens one. */
static bool read_switches(const struct cp__m *m, uint64_t *switches)
{
    uint64_t cpu_ns;
    bool is_read;

    if (!cp__fork_delay_from_handler())
        return false;
    is_read = cp__os_switches_of(m->tid, switches, &cpu_ns);
    cp__fork_allow_from_handler();
    return is_read;
}

/* Adds what the events cost at the switches of m's thread since the last look. The first look only notes how
 * many there were. */
static void take_switches(struct cp__m *m, uint64_t passed, struct costs *costs)
{
    uint64_t of_slot[CP_EV_MAX] = {0}, switches, n;
    const uint64_t cost = cp__switch_cost_of_m(m, of_slot);

    if (cost == 0 || !read_switches(m, &switches)) {
        m->window.switches = 0;
        return;
    }
    n = m->window.switches != 0 && switches > m->window.switches ? switches - m->window.switches : 0;
    m->window.switches = switches;
    for (int slot = 0; slot < CP_EV_MAX; slot++)
        costs->of[slot] += n * of_slot[slot];
    costs->sum += cp__switch_ns(cost, n, passed);
}

/* Returns the cost of m's samples since the last look, and of its events at switches. */
static struct costs take_costs(struct cp__m *m, uint64_t passed)
{
    uint32_t counting =
        cp_load_relaxed(&m->armed) & ~cp_load_relaxed(&m->off); /* relaxed: this may be late */
    uint64_t handler = cp_load_relaxed(&m->handler_ns); /* relaxed: nothing else depends on the counter */
    struct costs costs = {.handler = handler - m->window.handler_ns};

    m->window.handler_ns = handler;
    for (; counting != 0; counting &= counting - 1)
        take_cost(m, __builtin_ctz(counting), passed, &costs);
    take_switches(m, passed, &costs);
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
        struct cp__count read;
        uint64_t count;

        if (m->handles[slot].seq == 0 || m->handles[slot].engine->read == NULL)
            continue;
        m->handles[slot].engine->read(m, slot, &read);
        count = m->handles[slot].kind == CP_EVENT_CLOCK ? read.time_running : read.value;
        if (m->window.is_stuck)
            costs->of[slot] = 1 + (count - m->window.count[slot]) /
                                      m->handles[slot].engine->interval(m, slot) * cp__cost_known();
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
    struct cp__m_stats *stats = &m->stats[slot];

    if (!cp__m_claim_from_handler(m, CP__CLAIM_OUTSIDE))
        return;
    if (m->handles[slot].seq == m->window.seq[slot] && m->handles[slot].engine->disable != NULL) {
        m->handles[slot].engine->disable(m, slot);
        /* relaxed, both: nothing else depends on the numbers */
        cp_store_relaxed(&stats->stops, stats->stops + 1);
        cp_store_relaxed(&stats->stopped_at, cpu_ns);
    }
    cp__m_unclaim_from_handler(m);
}

/* Returns whether so much time in samples leaves a thread nothing to speak of. */
static bool is_too_much(uint64_t ns, uint64_t passed)
{
    return ns > passed - passed / 10;
}

/* Disables the costliest event first, until the others cost less. The handler's time and the lack of
 * breaks are those of all events together, so only one event is disabled because of them, and the next
 * look decides anew. */
static void disable_costliest(struct cp__m *m, struct costs *costs, uint64_t now, uint64_t passed)
{
    do {
        int slot = find_costliest(costs);

        if (slot < 0)
            return;
        disable(m, slot, now);
        costs->sum -= costs->sum > costs->of[slot] ? costs->of[slot] : costs->sum;
        costs->of[slot] = 0;
    } while (is_too_much(costs->sum, passed));
}

void cp__overload_look(struct cp__m *m, uint64_t cpu_ns)
{
    uint64_t passed = cpu_ns - m->window.cpu_ns;
    bool was_too_much = m->window.was_too_much;
    struct costs costs;

    if (passed < WINDOW_NS)
        return;
    m->window.cpu_ns = cpu_ns;
    costs = take_costs(m, passed);
    m->window.was_too_much =
        is_too_much(costs.sum, passed) || is_too_much(costs.handler, passed) || costs.is_saturated;
    if (is_stuck(m)) {
        estimate_costs(m, &costs);
        m->window.was_too_much = was_too_much = true;
    }
    if (m->window.was_too_much && was_too_much)
        disable_costliest(m, &costs, cpu_ns, passed);
}

uint64_t cp__overload_ns_from_handler(const struct cp__m *m, int slot)
{
    const struct cp__m_stats *stats = &m->stats[slot];
    /* relaxed, both: nothing else depends on the numbers */
    uint64_t at = cp_load_relaxed(&stats->stopped_at);
    uint64_t ns = cp_load_relaxed(&stats->stopped_ns);
    uint64_t now;

    if (at == 0)
        return ns;
    now = cp__os_clock_ns_from_handler(m->cpu_clock);
    return ns + (now > at ? now - at : 1);
}

void cp__overload_end_from_handler(struct cp__m *m, int slot)
{
    /* relaxed, both: written with the claim */
    cp_store_relaxed(&m->stats[slot].stopped_ns, cp__overload_ns_from_handler(m, slot));
    cp_store_relaxed(&m->stats[slot].stopped_at, 0);
}
