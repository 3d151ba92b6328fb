#include "outside.h"

#include "configure.h"
#include "disposition.h"
#include "engine.h"
#include "moment.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "slot.h"

#define LOOK_AGAIN_MS 1
/* So many Ms are brought in line under one lock, and by one barrier, which interrupts all CPUs that run this
 * process. Their handlers keep off meanwhile: for half a millisecond. */
#define MS_AT_ONCE 16

unsigned cp__settle_ms = 2000;

/* ---- One M ----------------------------------------------------------------------------------- */

/* Returns whether m has handles, or may be opening some. */
static bool may_hold(const struct cp__m *m)
{
    /* acquire: pairs with the release in cp__m_unclaim_from_handler(), m.h */
    return cp_load_acquire(&m->claim) != CP__CLAIM_NONE || cp_load_relaxed(&m->armed) != 0;
}

/* Returns whether m has to open or close handles. */
static bool is_behind(const struct cp__m *m)
{
    /* acquire: pairs with the release in change_from_handler(), configure.c */
    return cp_load_acquire(&m->head.generation) != cp_load_relaxed(&cp_generation) &&
           (cp__slots_running() || may_hold(m));
}

/* Returns whether the event in slot could leave its thread no time. */
static bool can_starve(const struct cp__m *m, int slot)
{
    const struct cp__handle *handle = &m->handles[slot];

    return handle->is_open && handle->engine->disable != NULL &&
           (cp_load_relaxed(&m->off) >> slot & 1) == 0; /* relaxed: written with the claim */
}

/* Disables the events of configs that no slot holds any more, so that they leave m's handler the time to come
 * to its end, and to close them. */
static void disable_unwanted(struct cp__m *m)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (can_starve(m, slot) && m->handles[slot].seq != cp__slot_seq_from_handler(slot))
            m->handles[slot].engine->disable(m, slot);
    }
}

/* Returns whether the handles of m, which has been claimed, may be changed, because its handler keeps off.
 * has_barrier: all threads have passed a barrier since the claim. Else gives the claim back. */
static bool may_change(struct cp__m *m, bool has_barrier)
{
    /* Claim, then look at runs; the handler does it the other way round. acquire: pairs with the release
     * at the end of cp__on_signal_from_handler(), handler.c */
    if (has_barrier && cp_load_acquire(&m->runs) % 2 == 0)
        return true;
    disable_unwanted(m);
    cp__m_unclaim_from_handler(m);
    return false;
}

/* Takes the claim so that m's handler keeps off. Returns false if the claim is taken, or the handler runs. */
static bool claim_for_change(struct cp__m *m)
{
    return cp__m_claim_from_handler(m, CP__CLAIM_CHANGING) && may_change(m, cp__os_heavy_barrier());
}

/* The thread may have left the claim taken, or may seem to run its handler. Nobody else has the claim,
 * because the caller has the runtime lock. */
bool cp__outside_find_gone(struct cp__m *m)
{
    /* relaxed: if the M is leaving, its thread closes its handles */
    if (cp_load_relaxed(&m->life) != CP__M_LIVE || cp__is_raw_child_from_handler() ||
        cp__os_has_thread(m->tid))
        return false;
    cp_store_relaxed(&m->life, CP__M_LEAVING); /* relaxed, all: nobody runs with m */
    cp_store_relaxed(&m->claim, CP__CLAIM_CHANGING);
    cp__configure_outside(m);
    cp_store_relaxed(&m->late, CP__LATE_NO);
    cp__m_lost_its_thread(m);
    return true;
}

/* Returns whether somebody has to open or close handles of m, and m's thread is there. */
static bool is_to_change(struct cp__m *m)
{
    /* relaxed: if the M is leaving, it closes its handles itself */
    return cp_load_relaxed(&m->life) == CP__M_LIVE && is_behind(m) && !cp__outside_find_gone(m);
}

bool cp__outside_bring_in_line(struct cp__m *m)
{
    if (!is_to_change(m))
        return true;
    if (!claim_for_change(m))
        return false;
    cp__configure_outside(m);
    return true;
}

bool cp__outside_try_again(struct cp__m *m, int slot)
{
    if (!claim_for_change(m))
        return false;
    if (m->handles[slot].is_open)
        cp__configure_outside(m);
    else
        cp__configure_again(m, slot);
    return true;
}

bool cp__outside_has_slept(const struct cp__m *m, int slot)
{
    /* relaxed, all: written with the claim, and looked at again there */
    return cp_load_relaxed(&m->life) == CP__M_LIVE && (cp_load_relaxed(&m->armed) >> slot & 1) != 0 &&
           cp_load_relaxed(&m->stats[slot].refused) == 0 && cp__m_has_slept_from_handler(m, slot);
}

bool cp__outside_leave_out(struct cp__m *m, int slot)
{
    if (!claim_for_change(m))
        return false;
    if (!cp__outside_has_slept(m, slot)) {
        cp__m_unclaim_from_handler(m);
        return false;
    }
    cp__configure_without(m, slot);
    return true;
}

/* Brings those of n Ms in line that are behind, not the calling thread's, and not just changing their handles
 * or in their handlers. */
static void bring_in_line_at_once(struct cp__m *const *ms, unsigned n)
{
    struct cp__m *claimed[MS_AT_ONCE];
    unsigned n_claimed = 0;
    bool has_barrier;

    for (unsigned i = 0; i < n; i++) {
        if (ms[i] != cp__m_current && is_to_change(ms[i]) &&
            cp__m_claim_from_handler(ms[i], CP__CLAIM_CHANGING))
            claimed[n_claimed++] = ms[i];
    }
    has_barrier = n_claimed > 0 && cp__os_heavy_barrier();
    for (unsigned i = 0; i < n_claimed; i++) {
        if (may_change(claimed[i], has_barrier))
            cp__configure_outside(claimed[i]);
    }
}

/* Returns how often m was heard of, by records or signals of the events that m has now. *armed_at receives
 * m's CPU clock when the last of these was armed. */
static uint64_t count_heard(const struct cp__m *m, uint64_t *armed_at)
{
    uint64_t interrupts = 0;

    *armed_at = 0;
    /* relaxed, all: what is seen late counts at the next look */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1) {
        const struct cp__m_stats *stats = &m->stats[__builtin_ctz(armed)];
        uint64_t at = cp_load_relaxed(&stats->armed_at);

        if (at == UINT64_MAX)
            continue; /* the event was refused, or the M is just arming it */
        interrupts += cp_load_relaxed(&stats->interrupts);
        *armed_at = at > *armed_at ? at : *armed_at;
    }
    return interrupts;
}

/* Returns whether m has had no record and no signal since the last look, and since its last event was armed,
 * although its thread had the CPU. */
static bool is_unheard(struct cp__m *m)
{
    uint64_t now = cp__os_clock_ns_from_handler(m->cpu_clock);
    uint64_t armed_at;
    uint64_t interrupts = count_heard(m, &armed_at);

    if (interrupts == m->heard.interrupts)
        return now >= (armed_at > m->heard.cpu_ns ? armed_at : m->heard.cpu_ns) + CP__MOMENT_NS;
    m->heard.interrupts = interrupts;
    m->heard.cpu_ns = now;
    return false;
}

void cp__outside_hear(struct cp__m *m)
{
    static const struct cp__registers nowhere;
    struct cp__moment moment;
    uint64_t armed_at;

    if (!is_unheard(m) || !claim_for_change(m))
        return;
    cp__moment_begin_from_handler(&moment, &nowhere, CP__SINCE_OUTSIDE);
    /* relaxed: added under the lock */
    for (uint32_t engines = cp_load_relaxed(&m->engines); engines != 0; engines &= engines - 1) {
        const struct cp__engine *engine = m->own[__builtin_ctz(engines)].engine;

        if (engine->hear != NULL)
            engine->hear(m, &moment);
    }
    cp__moment_end_from_handler(m, &moment);
    m->heard.interrupts = count_heard(m, &armed_at); /* what this pass has read is no news to the next one */
    m->heard.cpu_ns = cp__os_clock_ns_from_handler(m->cpu_clock);
    cp__m_unclaim_from_handler(m);
}

/* ---- All Ms ---------------------------------------------------------------------------------- */

/* Returns whether m should be waited for: it could not be brought in line, or a signal of a handle that was
 * closed from outside comes within the thread's next turn. */
static bool is_waited_for(struct cp__m *m)
{
    bool is_blocked;

    if (cp__m_is_gone(m))
        return false;
    /* relaxed: an M that is leaving has nobody else to wait for it to close its handles */
    if (cp_load_relaxed(&m->life) != CP__M_LIVE)
        return may_hold(m);
    if (!cp__outside_bring_in_line(m))
        return true;
    if (cp__m_is_gone(m))
        return false;
    return cp__disposition_may_come_late(m, &is_blocked) && !is_blocked;
}

/* Counts m in the figures of those slots that m holds or may be opening. Returns whether there are any. Under
 * the runtime lock. */
static bool note_unsettled(const struct cp__m *m, uint32_t slots)
{
    bool holds;

    /* relaxed: is_waited_for() has just loaded them; a change since then may count late */
    if (cp_load_relaxed(&m->claim) == CP__CLAIM_NONE)
        slots &= cp_load_relaxed(&m->armed);
    holds = slots != 0;
    for (; slots != 0; slots &= slots - 1) {
        struct cp_slot_stats *stats = cp__slot_kept_stats(__builtin_ctz(slots));

        stats->ms_unsettled++;
        stats->unsettled_tid = m->tid;
    }
    return holds;
}

/* Returns whether m is still waited for, by who has made that generation. An M that has settled is not waited
 * for again, whatever it does later; nor is an M that is younger than the generation, which cannot hold what
 * was stopped. Else threads that come and go would be waited for one after the other, without end. The
 * caller's own M has looked at the slots itself. It has not settled: another thread may have made the
 * generation since that look, and waits for this M. */
static bool is_unsettled(struct cp__m *m, uint64_t generation)
{
    if (m == cp__m_current || m->settled >= generation)
        return false;
    if (is_waited_for(m))
        return true;
    m->settled = generation;
    return false;
}

/* Collects m and the Ms behind it, and takes a reference to each but m. Returns their number. */
static unsigned collect(struct cp__m *m, struct cp__m **ms)
{
    unsigned n = 1;

    ms[0] = m;
    while (n < MS_AT_ONCE && (m = m->next) != NULL) {
        m->refs++;
        ms[n++] = m;
    }
    return n;
}

/* Returns whether some of the Ms could not be brought in line. If the caller has given some slots up, Ms that
 * hold none of these do not count. */
static bool are_waited_for(struct cp__m *const *ms, unsigned n, uint64_t generation, bool gives_up,
                           uint32_t slots)
{
    bool waited_for = false;

    cp_fence_seq_cst(); /* pairs with the fence in change_from_handler(), configure.c: slots, then look */
    bring_in_line_at_once(ms, n);
    for (unsigned i = 0; i < n; i++)
        waited_for |= is_unsettled(ms[i], generation) && (!gives_up || note_unsettled(ms[i], slots));
    return waited_for;
}

/* Gives the references to all of the n Ms but the last one back. */
static struct cp__m *leave_all_but_last(struct cp__m *const *ms, unsigned n)
{
    for (unsigned i = 0; i + 1 < n; i++) {
        if (--ms[i]->refs == 0)
            cp__m_free_if_done(ms[i]);
    }
    return ms[n - 1];
}

/* Brings all Ms in line, and returns whether some could not be; see are_waited_for(). The lock, and the delay
 * of forks, are taken for a few Ms at once, because there may be thousands of them. */
static bool is_any_waited_for(uint64_t generation, bool gives_up, uint32_t slots)
{
    struct cp__m *ms[MS_AT_ONCE];
    bool waited_for = false;

    for (struct cp__m *m = cp__m_next(NULL); m != NULL; m = cp__m_next(m)) {
        uint64_t mask = cp__os_block_from_handler(); /* see cp__configure_outside() */
        unsigned n;

        cp__fork_delay(); /* because events are opened */
        cp__lock(&cp__runtime_lock);
        n = collect(m, ms);
        waited_for |= are_waited_for(ms, n, generation, gives_up, slots);
        m = leave_all_but_last(ms, n);
        cp__unlock(&cp__runtime_lock);
        cp__fork_allow();
        cp__os_unblock_from_handler(mask);
    }
    return waited_for;
}

bool cp__outside_settle(uint32_t slots, uint64_t longest_ns)
{
    const uint64_t generation =
        cp_load_relaxed(&cp_generation); /* relaxed: the caller has made it, or a later one */
    uint64_t deadline = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + longest_ns;
    uint32_t nobody_wakes = 0;
    bool is_last = false;

    while (is_any_waited_for(generation, is_last, slots)) {
        if (is_last)
            return false;
        cp__os_futex_wait(&nobody_wakes, 0, LOOK_AGAIN_MS);
        is_last = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) >= deadline;
    }
    return true;
}

void cp__outside_look_at_slots(void)
{
    struct cp__m *m = cp__m_current;

    if (m == NULL)
        return;
    cp_execute(&m->head, m->head.g);
    if (cp_load_relaxed(&m->head.generation) == cp_load_relaxed(&cp_generation)) /* relaxed, both: a look */
        return;
    cp__lock(&cp__runtime_lock); /* another thread had the claim; that thread holds this lock */
    cp__unlock(&cp__runtime_lock);
    cp_execute(&m->head, m->head.g);
}
