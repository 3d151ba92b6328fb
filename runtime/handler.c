#include "handler.h"

#include <errno.h>
#include <string.h>
#include <ucontext.h>

#include "asked.h"
#include "engine.h"
#include "m.h"
#include "moment.h"
#include "receive.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/base/signals.h"
#include "runtime/unwind/code.h"

/* ---- The handler ----------------------------------------------------------------------------- */

/* How many runs of the handler there are for each one that is timed, on average. */
#define RUNS_A_TIMED_ONE 16
/* In a longer run the thread had no CPU for a while: that is not the handler's time. */
#define LONGEST_RUN_NS 200000

/*
 * Reading the clock twice takes as long as walking a short stack does. So few runs are timed, and a timed
 * run stands for those before it that were not. How many these are is random: if it were fixed, and two
 * events interrupted the thread in turn, always the same event's runs would be timed. The first run of an M
 * stands for itself, so that an M that has run its handler has a time.
 */
static bool is_timed_from_handler(struct cp__m *m)
{
    if (m->timing.left == 0)
        return true;
    m->timing.left--;
    return false;
}

/* Adds a timed run, which took ns, and the runs before it to m's time. Rare calls are not inlined into the
 * handler, because is_here(), ring_linux.c, relies on the handler's size. */
__attribute__((noinline)) static void note_run_from_handler(struct cp__m *m, uint64_t ns)
{
    uint64_t each = ns < LONGEST_RUN_NS ? ns : LONGEST_RUN_NS;

    cp_add_single_writer(&m->handler_ns, (1 + m->timing.stood) * each);
    m->timing.stood = (uint32_t)(cp__m_random_from_handler(m) % (2 * RUNS_A_TIMED_ONE - 1));
    m->timing.left = m->timing.stood;
}

/* acquire, in both: pairs with the release in cp__m_make_own() */
static void begin_from_handler(struct cp__m *m)
{
    for (uint32_t engines = cp_load_acquire(&m->engines); engines != 0; engines &= engines - 1) {
        const struct cp__engine *engine = m->own[__builtin_ctz(engines)].engine;

        if (engine->begin_from_handler != NULL)
            engine->begin_from_handler(m);
    }
}

static void end_from_handler(struct cp__m *m)
{
    for (uint32_t engines = cp_load_acquire(&m->engines); engines != 0; engines &= engines - 1) {
        const struct cp__engine *engine = m->own[__builtin_ctz(engines)].engine;

        if (engine->end_from_handler != NULL)
            engine->end_from_handler(m);
    }
}

/* Whether the program would have SIGTRAP blocked where the signal has come. If the program has unblocked its
 * signals since the library unblocked SIGTRAP, SIGTRAP is the program's own from then on. */
static bool is_opened_from_handler(struct cp__m *m, const void *ucontext)
{
    uint64_t mask;

    memcpy(&mask, &((const ucontext_t *)ucontext)->uc_sigmask, sizeof mask);
    if (!cp__os_would_block_traps_from_handler(m->blocked_traps_with, mask))
        m->blocked_traps_with = 0;
    return m->blocked_traps_with != 0;
}

/* Whether a signal that is not the profiler's would not have come to this thread without the library: the
 * thread is the library's own, or has SIGTRAP unblocked only for the library's traps. A program cannot block
 * what an instruction of its own raises. A thread that is no M may have been created by an M that has SIGTRAP
 * unblocked: what was sent to the process would end the process here, and another thread may wait for it. */
static bool is_for_others_from_handler(struct cp__m *m, const siginfo_t *info, const void *ucontext)
{
    const bool is_sent_trap = info->si_signo == SIGTRAP && info->si_code <= 0;

    if (m == NULL)
        return is_sent_trap && info->si_code != SI_TKILL && cp__os_has_opened_traps_from_handler() &&
               cp__signal_is_deadly_from_handler(info);
    return m->is_of_library || (is_sent_trap && is_opened_from_handler(m, ucontext));
}

static bool is_for_thread(const struct cp__m *m, const siginfo_t *info)
{
    return (m == NULL || !m->is_of_library) && info->si_code == SI_TKILL;
}

/* Returns the lower of the two structures that the kernel has put onto the stack: its signal frame begins
 * there. On x86-64 the return address, one word, is below them. */
static uintptr_t signal_frame(const siginfo_t *info, const void *ucontext)
{
    return (uintptr_t)info < (uintptr_t)ucontext ? (uintptr_t)info : (uintptr_t)ucontext;
}

/* Makes samples of the signal. Returns whether the signal is the profiler's. */
__attribute__((section(CP__HANDLER_SECTION))) static bool
run_from_handler(struct cp__m *m, int signal, const siginfo_t *info, void *ucontext)
{
    struct cp__registers regs = cp__registers_from_handler(ucontext);
    struct cp__moment moment;
    bool is_timed = is_timed_from_handler(m);
    uint64_t start = 0;
    bool ours;

    begin_from_handler(m);
    if (is_timed)
        start = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    cp__moment_begin_from_handler(&moment, &regs, CP__SINCE_SIGNAL);
    moment.signal_frame = signal_frame(info, ucontext);
    ours = cp__receive_from_handler(m, info, &moment);
    cp__asked_on_signal_from_handler(m, info, &moment);
    cp__moment_end_from_handler(m, &moment);
    /* relaxed, both: a thread that changes it meanwhile has found that a signal is pending, or closes a
     * handle, and this handler does not keep off then */
    if (signal == SIGPROF && cp_load_relaxed(&m->late) == CP__LATE_BEGINNING)
        cp_store_relaxed(&m->late, CP__LATE_NO);
    if (is_timed)
        note_run_from_handler(m, cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) - start);
    end_from_handler(m);
    return ours;
}

/*
 * Handles SIGPROF and SIGTRAP, in this order:
 *
 *     rights, errno      are kept for the end: the handler reads code and stacks that the interrupted code
 *                        may not read, and its system calls change errno
 *     runs               becomes odd until the end, by which others notice that the handler uses the handles,
 *                        and cp__overload_look() that it has no end
 *     claim              if another thread changes the M's handles, this run does nothing but tell whose the
 *                        signal is
 *     begin              the engines stop the M's events that must not count the handler
 *     samples            are appended for the periods of the signal and of the ring
 *     end                the engines let the paused events count again
 *     foreign signals    are passed on, to the host's handler
 *
 * If the thread is no M, or the process is a child whose fork handlers have not run, the handler only finds
 * out whether the signal is the profiler's: a late tick or trap must not reach the host's handler.
 */
__attribute__((section(CP__HANDLER_SECTION))) void cp__on_signal_from_handler(int signal, siginfo_t *info,
                                                                              void *ucontext)
{
    uint32_t rights = cp__code_open_from_handler();
    int saved_errno = errno;
    struct cp__m *m = cp_load_relaxed(&cp__m_current); /* relaxed: stored by this thread */
    bool ours;

    if (m != NULL && !cp__is_raw_child_from_handler()) {
        cp_add_single_writer(&m->runs, 1);
        /* runs, then look at the claim: pairs with cp__os_heavy_barrier() in claim_for_change(), outside.c */
        cp__os_light_barrier_from_handler();
        /* acquire: pairs with the release in cp__m_unclaim_from_handler(): the handles are as they were
         * left */
        if (cp_load_acquire(&m->claim) == CP__CLAIM_CHANGING)
            ours = cp__receive_keep_from_handler(m, info);
        else
            ours = run_from_handler(m, signal, info, ucontext);
        /* release: pairs with the acquire in may_change(), outside.c */
        cp_store_release(&m->runs, cp_load_relaxed(&m->runs) + 1); /* relaxed: stored by this thread */
    } else {
        ours = cp__receive_is_of_event_from_handler(info);
    }
    cp__code_keep_from_handler(rights);
    errno = saved_errno;
    if (!ours) { /* the host's handler may never return, so this comes last */
        if (is_for_others_from_handler(m, info, ucontext))
            cp__signal_give_back_from_handler(info, ucontext, is_for_thread(m, info));
        else
            cp__signal_chain_from_handler(signal, info, ucontext);
        errno = saved_errno;
    }
}
