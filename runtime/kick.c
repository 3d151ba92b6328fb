#include "kick.h"

#include <time.h>

#include "disposition.h"
#include "engine.h"
#include "outside.h"
#include "overload.h"
#include "runtime/base/os.h"
#include "slot.h"

/* How long a stop waits for an M that has work to do and gets no CPU, or keeps SIGPROF blocked. */
#define LONGEST_WAIT_NS 2000000000u
#define LOOK_AGAIN_MS 1
/* When the thread has had the CPU for so long, a signal has arrived, unless the thread blocks it. */
#define ARRIVED_NS 1000000

/* Whether m holds handles, or is just opening some. */
static bool may_hold(const struct cp__m *m)
{
    /* acquire: pairs with the release in cp__m_unclaim_from_handler(), m.h */
    return cp_load_acquire(&m->claim) != CP__CLAIM_NONE || cp_load_relaxed(&m->armed) != 0;
}

/* Whether m has not seen yet that it is to open or close handles. */
static bool is_behind(const struct cp__m *m)
{
    /* acquire: pairs with the release in cp__configure_from_handler(), configure.c */
    return cp_load_acquire(&m->head.generation) != cp_load_relaxed(&cp_generation) &&
           (cp__slots_running() || may_hold(m));
}

/* Whether m's thread runs or waits for a CPU. If a thread was found asleep, and its CPU clock has stood
 * still since, the system is not asked again. A kick would end the sleep: a host's system call would fail
 * with EINTR. */
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
 * SIGPROF does not queue: if one is pending, a kick is dropped, and the pending one does the kick's work.
 * But then kick.taken does not reach kick.sent, and the kick seems to be under way for ever. So if the last
 * kick has not arrived although the M has run, one more is sent.
 */
static void kick(struct cp__m *m, uint64_t cpu_ns)
{
    uint32_t last = m->kick.sent;

    if (!cp__disposition_is_taken() || (cp__m_has_kick(m) && cpu_ns - m->kick.cpu_ns < ARRIVED_NS))
        return;
    m->kick.sent = (last + 1) % CP__ENGINE_KICKS;
    m->kick.cpu_ns = cpu_ns;
    if (cp__engine.kick(m->tid, m->kick.sent) < 0)
        m->kick.sent = last;
}

/* Whether m's thread runs, and has a change of the slots to see or misses a kick. */
static bool needs_kick(struct cp__m *m, bool behind, uint64_t *cpu_ns)
{
    if (!behind && !cp__m_has_kick(m))
        return false;
    *cpu_ns = cp__os_clock_ns_from_handler(m->cpu_clock);
    return is_awake(m, *cpu_ns);
}

/* ---- A pass of a reader ---------------------------------------------------------------------- */

/*
 * A pass looks at Ms in proportion to the CPU time that the process has had since the last one, in turns: a
 * look takes about 1 us, so that looks cost 1 % of what the program itself does, and an idle process with a
 * thousand Ms next to nothing. As many as LEAST_LOOKS are looked at in each pass.
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

/* Kicks m if m is behind, and looks at what its samples cost. */
static void look_at_m(struct cp__m *m)
{
    uint64_t cpu_ns;

    if (cp__m_is_gone(m))
        return;
    if (m != cp__m_current && needs_kick(m, is_behind(m), &cpu_ns))
        kick(m, cpu_ns);
    if (cp_load_relaxed(&m->armed) != 0) /* relaxed: it may be late */
        cp__overload_look(m);
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
 * Whether a stop should wait for m: m is just letting go, though it may have to wait for the kernel there,
 * or runs with what it holds, or misses a kick. If it runs, its events are disabled first: with a period
 * shorter than what a sample costs it might have no time to take the kick. An M that sleeps is left as it
 * is: it lets go at its next sample or scheduling point, and it would never be interrupted for that if its
 * events were disabled.
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

/* Counts m in the figures of those of the slots that m holds, or may be opening. Returns whether there are
 * any. Under the runtime lock. */
static bool note_unsettled(const struct cp__m *m, uint32_t slots)
{
    bool holds;

    /* relaxed: is_waited_for() has looked, and figures may be late */
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

/* Disables events and kicks as is_waited_for() says, for all Ms. With slots that are given up, the Ms that
 * hold none of them do not count. */
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
