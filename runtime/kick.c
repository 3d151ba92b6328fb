#include "kick.h"

#include <time.h>

#include "disposition.h"
#include "outside.h"
#include "overload.h"
#include "runtime/base/os.h"
#include "runtime/base/signals.h"
#include "slot.h"
#include "watch.h"

/* How long a stop waits for an M that runs but gets no CPU, or keeps the signals blocked. */
#define LONGEST_WAIT_NS 2000000000u
#define LOOK_AGAIN_MS 1
/* If a thread has had this much CPU time since a signal was sent, the signal has arrived, or the thread
 * blocks it. */
#define ARRIVED_NS 1000000

/* Returns whether m has handles, or may be opening some. */
static bool may_hold(const struct cp__m *m)
{
    /* acquire: pairs with the release in cp__m_unclaim_from_handler(), m.h */
    return cp_load_acquire(&m->claim) != CP__CLAIM_NONE || cp_load_relaxed(&m->armed) != 0;
}

/* Returns whether m has to open or close handles and has not looked at the slots yet. */
static bool is_behind(const struct cp__m *m)
{
    /* acquire: pairs with the release in cp__configure_from_handler(), configure.c */
    return cp_load_acquire(&m->head.generation) != cp_load_relaxed(&cp_generation) &&
           (cp__slots_running() || may_hold(m));
}

/* Returns whether m's thread runs or waits for a CPU. The system is not asked again if the thread was found
 * asleep and its CPU clock has stood still since. A sleeping thread must not be kicked: the host's system
 * call would fail with EINTR. */
static bool is_awake(struct cp__m *m, uint64_t cpu_ns)
{
    if (m->asleep_ns == cpu_ns)
        return false;
    if (cp__os_thread_is_runnable(m->tid))
        return true;
    m->asleep_ns = cpu_ns;
    return false;
}

/*
 * The signal does not queue: if one is pending, the kernel drops the kick. The pending signal then does
 * the kick's work, but kick.taken does not reach kick.sent, so the kick would seem to be under way for ever.
 * If the M has had the CPU and the last kick has not arrived, another kick is sent.
 */
static void kick(struct cp__m *m, uint64_t cpu_ns)
{
    uint32_t last = m->kick.sent;

    if (m->is_away || !cp__disposition_is_taken() ||
        (cp__m_has_kick(m) && cpu_ns - m->kick.cpu_ns < ARRIVED_NS))
        return;
    m->kick.sent = (last + 1) % CP__SIGNAL_KICKS;
    m->kick.cpu_ns = cpu_ns;
    if (cp__signal_kick(m->tid, m->kick.sent) < 0)
        m->kick.sent = last;
}

/* Returns whether m's thread runs, and is behind or has not taken a kick. */
static bool needs_kick(struct cp__m *m, bool behind, uint64_t *cpu_ns)
{
    if (!behind && !cp__m_has_kick(m))
        return false;
    *cpu_ns = cp__os_clock_ns_from_handler(m->cpu_clock);
    return is_awake(m, *cpu_ns);
}

/* ---- A pass of a reader ---------------------------------------------------------------------- */

/*
 * A look at an M takes about 1 us. A pass may look at one M for each 100 us of CPU time that the process has
 * used since the last pass, and at LEAST_LOOKS Ms in any case; the next pass continues with the next Ms. So
 * looks cost about 1 % of the program's own CPU time, and next to nothing in an idle process with a thousand
 * Ms.
 */
#define LEAST_LOOKS 16
#define NS_A_LOOK 100000

static uint64_t process_ns; /* the process's CPU clock at the last pass; under the runtime lock */

/* Returns how many Ms this pass may look at, and notes the process's CPU time for the next pass. */
static uint64_t count_looks(void)
{
    uint64_t now = cp__os_clock_ns_from_handler(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t looks = LEAST_LOOKS + (now - process_ns) / NS_A_LOOK;

    process_ns = now;
    return looks;
}

/* Kicks m if m is behind, and checks what m's samples cost and whether its events count. */
static void look_at_m(struct cp__m *m)
{
    uint64_t cpu_ns;

    if (cp__m_is_gone(m))
        return;
    if (m != cp__m_current && needs_kick(m, is_behind(m), &cpu_ns))
        kick(m, cpu_ns);
    /* relaxed: an M that has just been armed is checked in a later pass */
    if (cp_load_relaxed(&m->armed) == 0)
        return;
    cpu_ns = cp__os_clock_ns_from_handler(m->cpu_clock);
    if (cpu_ns == 0)
        return; /* the thread has ended without a detach, and its clock with it */
    cp__overload_look(m, cpu_ns);
    cp__watch_look(m, cpu_ns);
}

void cp__kick_pass(void)
{
    struct cp__m *first = cp__ms_cursor != NULL ? cp__ms_cursor : cp__ms;
    struct cp__m *m = first;

    if (m == NULL)
        return;
    for (uint64_t looks = count_looks(); looks > 0; looks--) {
        look_at_m(m);
        m = m->next != NULL ? m->next : cp__ms;
        if (m == first)
            break;
    }
    cp__ms_cursor = m;
}

/* ---- A stop ---------------------------------------------------------------------------------- */

/*
 * Returns whether a stop should wait for m. It waits if m's handles are just being changed, which may take
 * long in the kernel, and if m runs and still has handles or a kick under way. If m runs, its events are
 * disabled first: with a period shorter than a sample's cost, m might have no time to take the kick. The
 * events of a sleeping M stay enabled, because the next sample makes that M release its handles.
 */
static bool is_waited_for(struct cp__m *m)
{
    uint64_t cpu_ns;
    bool behind;

    if (m == cp__m_current || cp__m_is_gone(m))
        return false;
    /* acquire: pairs with the release in cp__m_unclaim_from_handler(), m.h */
    if (cp_load_acquire(&m->claim) != CP__CLAIM_NONE)
        return true;
    behind = is_behind(m);
    if ((behind && !may_hold(m)) || !needs_kick(m, behind, &cpu_ns))
        return false;
    if (cp__outside_disable_unwanted(m))
        kick(m, cpu_ns);
    return true;
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

/* Disables events and kicks as is_waited_for() describes, for all Ms. If the caller has given some slots up,
 * Ms that hold none of these do not count. */
static bool is_any_waited_for(uint32_t given_up)
{
    bool waited_for = false;

    cp__lock(&cp__runtime_lock);
    cp_fence_seq_cst(); /* pairs with the fence in cp__configure_from_handler(): slots empty, then look */
    for (struct cp__m *m = cp__ms; m != NULL; m = m->next)
        waited_for |= is_waited_for(m) && (given_up == 0 || note_unsettled(m, given_up));
    cp__unlock(&cp__runtime_lock);
    return waited_for;
}

bool cp__kick_until_settled(uint32_t slots)
{
    uint64_t deadline = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + LONGEST_WAIT_NS;
    uint32_t nobody_wakes = 0;
    bool is_last = false;

    while (is_any_waited_for(is_last ? slots : 0)) {
        if (is_last)
            return false;
        cp__os_futex_wait(&nobody_wakes, 0, LOOK_AGAIN_MS);
        is_last = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) >= deadline;
    }
    return true;
}
