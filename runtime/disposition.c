#include "disposition.h"

#include "engine.h"
#include "m.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/base/signals.h"
#include "slot.h"

/* Both are guarded by the runtime lock. */
static bool installed;
static unsigned holds;

static uint32_t is_kept; /* 1: for the life of the process; shared, stored by Ms that hold the claim */

int cp__disposition_take(struct cp_error *err)
{
    int result = 0;

    if (!installed)
        result = cp__signal_install(SIGPROF, err);
    installed = result == 0;
    return result;
}

int cp__disposition_take_traps(struct cp_error *err)
{
    if (cp__signal_was_installed_from_handler(SIGTRAP)) {
        cp__signal_mend(SIGTRAP);
        return 0;
    }
    cp__os_use_traps();
    return cp__signal_install(SIGTRAP, err);
}

int cp__disposition_hold(struct cp_error *err)
{
    int result;

    cp__lock(&cp__runtime_lock);
    result = cp__disposition_take(err);
    holds += result == 0;
    cp__unlock(&cp__runtime_lock);
    return result;
}

void cp__disposition_drop(void)
{
    cp__lock(&cp__runtime_lock);
    holds--;
    cp__disposition_settle();
    cp__unlock(&cp__runtime_lock);
}

int cp__disposition_exchange(int signal, const struct sigaction *action, struct sigaction *old)
{
    int result;

    cp__lock(&cp__runtime_lock);
    result = cp__signal_exchange(signal, action, old);
    cp__unlock(&cp__runtime_lock);
    return result;
}

void cp__disposition_keep_from_handler(void)
{
    cp_store_relaxed(&is_kept, 1u); /* relaxed: ordered by the release of the claim */
}

static bool is_replaced(int signal)
{
    return cp__signal_mend(signal) || !cp__signal_is_ours(signal);
}

void cp__disposition_look(void)
{
    const bool is_sigprof_replaced = installed && is_replaced(SIGPROF); /* or SIGPROF is the program's */
    const bool is_sigtrap_replaced = is_replaced(SIGTRAP);

    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        struct cp_slot_stats *stats = cp__slot_kept_stats(slot);

        if (cp__slot_runs(slot))
            stats->handler_replaced |=
                stats->engine == CP_ENGINE_TRAP ? is_sigtrap_replaced : is_sigprof_replaced;
    }
}

static bool is_late_for_a_moment(const struct cp__m *m)
{
    /* relaxed: written by whoever made `late` pending, which the caller has seen */
    return cp__os_clock_ns_from_handler(m->cpu_clock) - cp_load_relaxed(&m->late_since) < CP__MOMENT_NS;
}

/* Returns whether a SIGPROF that is directed to m's thread is pending, or may be. *is_blocked is whether the
 * thread has SIGPROF blocked, and not only for a moment: a thread that runs in a handler, or waits there for
 * a CPU, takes the signal next. The system is asked by a descriptor, which a child must not inherit. While
 * another thread forks, nothing is known. A tracer stops a thread after the signal was taken off the queue,
 * and the kernel looks for the handler when the tracer lets the thread go on: SIGPROF is kept for good. */
static bool has_pending(const struct cp__m *m, bool *is_blocked)
{
    struct cp__os_pending pending;

    *is_blocked = true;
    if (!cp__fork_delay_from_handler())
        return true;
    pending = cp__os_thread_pending(m->tid, SIGPROF);
    cp__fork_allow_from_handler();
    if (pending.is_traced)
        cp__disposition_keep_from_handler();
    *is_blocked = pending.is_blocked && !(pending.runs && is_late_for_a_moment(m));
    return pending.is_pending;
}

/* If the signal has been taken off the queue, and the handler has not begun, then the handler that begins
 * is the library's, also if SIGPROF is given back now, unless the thread is traced. */
bool cp__disposition_may_come_late(struct cp__m *m, bool *is_blocked)
{
    /* relaxed: ordered by the acquire of the claim, or set by this thread */
    if (cp_load_relaxed(&m->late) != CP__LATE_PENDING)
        return false;
    if (has_pending(m, is_blocked))
        return true;
    cp_store_relaxed(&m->late, CP__LATE_BEGINNING); /* relaxed: whoever sees it late asks again */
    return false;
}

/* Returns whether no SIGPROF of the library's can reach m any more: m has no handle, is not about to open one
 * after it saw the slots before they were emptied, and has no late signal pending. */
static bool is_settled(struct cp__m *m)
{
    bool is_blocked;

    if (cp__m_is_gone(m))
        return true;
    /* acquire: pairs with the release in cp__m_unclaim_from_handler() */
    return cp_load_acquire(&m->claim) == CP__CLAIM_NONE &&
           cp_load_relaxed(&m->armed) == 0 && /* relaxed: ordered by the acquire of the claim */
           !cp__disposition_may_come_late(m, &is_blocked);
}

void cp__disposition_settle(void)
{
    if (!installed || holds != 0 || cp__slots_running())
        return;
    /* pairs with the fence in change_from_handler(), configure.c: the slots are empty, then look */
    cp_fence_seq_cst();
    for (struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (!is_settled(m))
            return;
    }
    if (cp_load_relaxed(&is_kept) != 0) /* relaxed: ordered by the acquires of the claims */
        return;
    cp__signal_restore(SIGPROF);
    installed = false;
}

void cp__disposition_forget(void)
{
    holds = 0; /* the thread that measures exists in the parent only */
    cp__signal_restore(SIGPROF);
    cp__signal_restore(SIGTRAP);
    installed = false;
    /* A child has none of its parent's timers. relaxed: this is the only thread */
    cp_store_relaxed(&is_kept, 0u);
}
