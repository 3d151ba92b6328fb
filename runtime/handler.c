#include <errno.h>

#include "configure.h"
#include "slot.h"

/* ---- What a signal stands for ---------------------------------------------------------------- */

/* The count of a timer is the CPU time that it has run over. */
static void note_cpu_time_from_handler(struct cp__m *m, int slot)
{
    uint64_t now = cp__os_clock_ns_from_handler(CLOCK_THREAD_CPUTIME_ID);

    cp_store_relaxed(&m->stats[slot].count, now - m->handles[slot].cpu_ns);
}

/* A timer's signal names its config. One that does not fit any handle comes from a timer that is gone. */
static void timer_from_handler(struct cp__m *m, uint64_t seq, unsigned overrun, struct cp__tally *tally)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        const struct cp__handle *handle = &m->handles[slot];

        if (handle->seq == seq && handle->kind == CP_EVENT_TIMER) {
            cp__tally_add_from_handler(tally, slot, 1 + (uint64_t)overrun);
            cp_add_single_writer(&m->stats[slot].overruns, overrun);
            note_cpu_time_from_handler(m, slot);
            return;
        }
    }
}

bool cp__classify_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__tally *tally)
{
    bool ours = false;
    uint32_t kick;

    if (cp__sigprof_pmu_handler != NULL)
        ours = cp__sigprof_pmu_handler(m, info, tally); /* on every signal: SIGPROF does not queue */
    if (info->si_code == SI_TIMER) {
        uint64_t seq = (uintptr_t)info->si_value.sival_ptr;

        if (cp__slot_is_seq_from_handler(seq)) {
            timer_from_handler(m, seq, (unsigned)info->si_overrun, tally);
            ours = true;
        }
    } else if (cp__os_is_kick_from_handler(info, &kick)) {
        cp_store_release(&m->kick_taken, kick); /* pairs with the acquire in cp__kick_is_under_way() */
        ours = true;
    }
    if (!ours)
        cp_add_single_writer(&m->foreign, 1);
    return ours;
}

/* ---- Recording ------------------------------------------------------------------------------- */

/* Above a G's first frame there may be some words of its entry. */
#define G_SLACK 512

/* The stack that sp is in: the current G's, or the thread's own while the M runs its scheduler or switches.
 * The stack pointer decides, so that a signal in the middle of a switch is never put down to the wrong G. */
static const struct cp_g *running_from_handler(const struct cp__m *m, uintptr_t sp, struct cp__stack *stack)
{
    const struct cp_g *g = cp_load_relaxed(&m->head.g); /* relaxed: stored by this thread */

    if (g != NULL && sp >= g->stack_lo && sp < g->stack_hi) {
        *stack = (struct cp__stack){.lo = g->stack_lo, .hi = g->stack_hi, .slack = G_SLACK};
        return g;
    }
    *stack = m->stack;
    if (cp__stack_holds(stack, sp))
        return &m->self;
    *stack = (struct cp__stack){.lo = 0, .hi = 0};
    return g != NULL ? g : &m->self;
}

static void note_from_handler(struct cp__m_stats *stats, const struct cp_sample *sample)
{
    cp_add_single_writer(&stats->samples, sample->weight);
    if ((sample->flags & CP_SAMPLE_STALLED) != 0) {
        cp_add_single_writer(&stats->stalled, sample->weight);
        return; /* another sample of this signal counts the rest */
    }
    cp_add_single_writer(&stats->signals, 1);
    if ((sample->flags & CP_SAMPLE_TRUNCATED) != 0)
        cp_add_single_writer(&stats->truncated, 1);
    if ((sample->flags & CP_SAMPLE_INCOMPLETE) != 0)
        cp_add_single_writer(&stats->incomplete, 1);
    if ((sample->flags & CP_SAMPLE_UNDELIVERED) != 0)
        cp_add_single_writer(&stats->undelivered, sample->weight);
}

static void append_from_handler(struct cp__m *m, int slot, const struct cp_sample *sample)
{
    struct cp__m_stats *stats = &m->stats[slot];
    bool half;

    if (!cp__samplebuf_append_from_handler(&m->buffers[slot], m->handles[slot].seq, sample, &half)) {
        cp_add_single_writer(&stats->dropped, sample->weight);
        return;
    }
    note_from_handler(stats, sample);
    if (half)
        cp__slots_wake_from_handler();
}

void cp__record_from_handler(struct cp__m *m, const struct cp__registers *regs, const struct cp__tally *tally,
                             unsigned sample_flags)
{
    uintptr_t frames[CP_MAX_FRAMES];
    struct cp__stack stack;
    const struct cp_g *g = running_from_handler(m, regs->sp, &stack);
    struct cp_sample sample = {.g_id = g->id, .labels = g->labels, .flags = sample_flags, .frames = frames};
    unsigned chain_flags;

    sample.depth = cp__unwind_from_handler(regs, &stack, frames, CP_MAX_FRAMES, &chain_flags);
    sample.flags |= chain_flags;
    if (stack.hi == 0)
        sample.flags |= CP_SAMPLE_FOREIGN_SP;
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        sample.weight = tally->weight[slot];
        if (sample.weight != 0)
            append_from_handler(m, slot, &sample);
    }
    sample.flags |= CP_SAMPLE_STALLED;
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        sample.weight = tally->stalled[slot];
        if (sample.weight != 0)
            append_from_handler(m, slot, &sample);
    }
}

/* ---- The handler ----------------------------------------------------------------------------- */

/* Where nothing runs any more, it is left to the M's next scheduling point to see whether SIGPROF can be put
 * back to what it was: that takes a lock. The M goes on as one that has not looked. */
static void reconfigure_from_handler(struct cp__m *m, const struct cp__registers *regs)
{
    cp__configure_from_handler(m, regs, 0);
    if (cp_load_relaxed(&m->armed) == 0)          /* relaxed: stored by this thread */
        cp_store_relaxed(&m->head.generation, 0); /* relaxed: is_behind(), kick.c, may see it late */
}

void cp__on_sigprof_from_handler(int signal, siginfo_t *info, void *ucontext)
{
    int saved_errno = errno;
    struct cp__m *m = cp_load_relaxed(&cp__m_current); /* relaxed: stored by this thread */
    struct cp__tally tally = {.any = false};
    uint32_t kick;
    bool ours;

    if (m != NULL) {
        struct cp__registers regs = cp__registers_from_handler(ucontext);

        ours = cp__classify_from_handler(m, info, &tally);
        if (tally.any)
            cp__record_from_handler(m, &regs, &tally, 0);
        /* acquire: pairs with the release in publish(), slot.c */
        if (cp_load_acquire(&cp_generation) != m->head.generation)
            reconfigure_from_handler(m, &regs);
    } else {
        ours =
            cp__os_is_kick_from_handler(info, &kick) ||
            (info->si_code == SI_TIMER && cp__slot_is_seq_from_handler((uintptr_t)info->si_value.sival_ptr));
    }
    if (!ours)
        cp__os_signal_chain_from_handler(signal, info, ucontext);
    errno = saved_errno;
}
