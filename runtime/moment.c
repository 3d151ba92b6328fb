#include "moment.h"

#include <string.h>

#include "engine.h"
#include "queue.h"
#include "runtime/base/loads.h"
#include "slot.h"

void cp__moment_begin_from_handler(struct cp__moment *moment, const struct cp__registers *regs,
                                   enum cp__since since)
{
    memset(moment, 0, offsetof(struct cp__moment, is_unwound));
    moment->regs = regs;
    moment->since = since;
    moment->loads = cp__loads_from_handler();
    moment->signal_frame = 0;
    moment->is_unwound = false;
}

/* ---- The stack ------------------------------------------------------------------------------- */

_Static_assert(CP__CHAIN_TRUNCATED == CP_SAMPLE_TRUNCATED && CP__CHAIN_INCOMPLETE == CP_SAMPLE_INCOMPLETE &&
                   CP__CHAIN_NEW_CODE == CP_SAMPLE_NEW_CODE && CP__CHAIN_FOREIGN == CP_SAMPLE_FOREIGN_SP,
               "a chain's flags are the sample's");

/* Unwinds, and finds the G, and the rounds that are open in the G. The G is the current one, or the one that
 * stands for the thread while the M runs its scheduler or switches. The stack to which the frames lead
 * decides, so that a signal in the middle of a switch never counts for the wrong G. If the stack is
 * neither's, the current G counts. */
void cp__moment_unwind_from_handler(struct cp__m *m, struct cp__moment *moment)
{
    const struct cp_g *g = cp_load_relaxed(&m->head.g); /* relaxed: stored by this thread */
    struct cp__stack of_g = {.next = &m->stack};
    const struct cp__stack *reached;

    if (moment->is_unwound)
        return;
    if (g != NULL) {
        of_g.lo = g->stack_lo;
        of_g.hi = g->stack_hi;
        of_g.slack = CP__G_SLACK;
    }
    moment->depth = cp__unwind_from_handler(moment->regs, &of_g, &m->cache, moment->frames, CP_MAX_FRAMES,
                                            &moment->chain_flags, &reached);
    moment->g = reached == &m->stack || g == NULL ? &m->self : g;
    moment->n_rounds = cp__rounds_open_from_handler(moment->g, moment->rounds);
    moment->is_unwound = true;
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* Counts the signal once for each slot. One signal has several samples of a slot if records have waited, or
 * if records have details of their own. */
static void note_signal_from_handler(struct cp__m_stats *stats, struct cp__moment *moment, int slot)
{
    uint32_t bit = 1u << slot;

    if ((moment->brought & bit) == 0)
        cp_add_single_writer(&stats->signals, 1);
    moment->brought |= bit;
}

/* Counts the periods of an appended sample, and what its flags say. For the time of a stall, the stack does
 * not matter. */
static void note_from_handler(struct cp__m_stats *stats, const struct cp_sample *sample)
{
    cp_add_single_writer(&stats->samples, sample->weight);
    if ((sample->flags & CP_SAMPLE_STALLED) != 0) {
        cp_add_single_writer(&stats->stalled, sample->weight);
        return;
    }
    if ((sample->flags & CP_SAMPLE_TRUNCATED) != 0)
        cp_add_single_writer(&stats->truncated, 1);
    if ((sample->flags & CP_SAMPLE_INCOMPLETE) != 0)
        cp_add_single_writer(&stats->incomplete, 1);
    if ((sample->flags & CP_SAMPLE_NEW_CODE) != 0)
        cp_add_single_writer(&stats->new_code, 1);
    if ((sample->flags & CP_SAMPLE_FOREIGN_SP) != 0)
        cp_add_single_writer(&stats->unknown_stacks, 1);
    if ((sample->flags & CP_SAMPLE_LATE) != 0)
        cp_add_single_writer(&stats->late, sample->weight);
}

/* Appends a sample to slot's buffer, or counts it as dropped; wakes the reader if the buffer is half full,
 * or the pool half empty, or objects were loaded, whose mappings are to be noted. */
static void append_from_handler(struct cp__m *m, struct cp__moment *moment, int slot,
                                struct cp_sample *sample)
{
    struct cp__m_stats *stats = &m->stats[slot];
    bool wake;

    /* a late sample was taken before the moment */
    sample->loads = (sample->flags & CP_SAMPLE_LATE) != 0 ? 0 : moment->loads;
    if (!cp__samplebuf_append_from_handler(&m->buffers[slot], m->handles[slot].seq, sample, &wake)) {
        cp_add_single_writer(&stats->dropped, sample->weight);
        return;
    }
    note_signal_from_handler(stats, moment, slot);
    note_from_handler(stats, sample);
    cp__queue_push_from_handler(m, slot);
    if (wake || cp__loads_are_news_from_handler(moment->loads))
        cp__slots_wake_from_handler();
}

/* Makes a sample without frames. */
static struct cp_sample new_sample_from_handler(const struct cp_g *g, unsigned flags)
{
    return (struct cp_sample){.g_id = g->id, .labels = g->labels, .flags = flags};
}

/* Makes a sample with what is known of the moment's place, the frames excepted. */
static struct cp_sample here_from_handler(struct cp__m *m, struct cp__moment *moment)
{
    struct cp_sample sample;

    cp__moment_unwind_from_handler(m, moment);
    sample = new_sample_from_handler(moment->g, moment->chain_flags);
    sample.n_rounds = moment->n_rounds;
    sample.rounds = moment->rounds;
    return sample;
}

/* Makes a late sample without frames. The program has gone on since, so its callers are unknown, and its G
 * is known only if the record's stack is that of the G that runs now. A thread that closes the handle from
 * outside may not look at Gs: they may be gone by now, and so may the labels of the M's own. */
static struct cp_sample late_from_handler(const struct cp__m *m, const struct cp__moment *moment,
                                          const struct cp__detail *detail)
{
    const struct cp_g nobody = {.id = m->self.id};
    const struct cp_g *g = cp_load_relaxed(&m->head.g); /* relaxed: stored by this thread */
    const uintptr_t sp = detail != NULL ? detail->where.sp : 0;

    if (moment->since == CP__SINCE_OUTSIDE)
        return new_sample_from_handler(&nobody, CP_SAMPLE_LATE);
    if (detail == NULL || g == NULL || sp < g->stack_lo || sp >= g->stack_hi)
        g = &m->self;
    return new_sample_from_handler(g, CP_SAMPLE_LATE);
}

/* Appends n callers to the sample's frames, as far as there is room. */
static void add_callers_from_handler(struct cp_sample *sample, uintptr_t *frames, const uintptr_t *callers,
                                     unsigned n)
{
    unsigned room = CP_MAX_FRAMES - sample->depth;

    if (n > room) {
        n = room;
        sample->flags = (sample->flags & ~(CP_SAMPLE_INCOMPLETE | CP_SAMPLE_NEW_CODE)) | CP_SAMPLE_TRUNCATED;
    }
    memcpy(frames + sample->depth, callers, n * sizeof *frames);
    sample->depth += n;
}

void cp__moment_detail_from_handler(struct cp__m *m, struct cp__moment *moment, int slot, uint64_t weight,
                                    const struct cp__detail *detail)
{
    uintptr_t frames[CP_MAX_FRAMES];
    struct cp_sample sample;
    const uintptr_t *callers = NULL;
    unsigned n = 0;

    if (detail->is_late || moment->since == CP__SINCE_OUTSIDE) {
        sample = late_from_handler(m, moment, detail);
        callers = &detail->where.pc;
        n = detail->is_late;
    } else {
        sample = here_from_handler(m, moment);
        callers = moment->frames;
        n = moment->depth;
    }
    sample.weight = weight;
    sample.ip = detail->ip;
    sample.addr = detail->addr;
    sample.kernel_depth = detail->kernel_depth;
    sample.frames = frames;
    sample.depth = detail->depth;
    memcpy(frames, detail->frames, detail->depth * sizeof *frames);
    /* If the record has the whole stack, it does not matter what the moment's stack lacks. */
    if (detail->has_user_frames)
        sample.flags = 0;
    else
        add_callers_from_handler(&sample, frames, callers, n);
    append_from_handler(m, moment, slot, &sample);
}

/* Appends a sample of slot that has the moment's stack. If the signal was blocked, the place of a timer's
 * ticks and of an M without a ring is unknown. */
static void add_sample_from_handler(struct cp__m *m, struct cp__moment *moment, int slot, uint64_t weight,
                                    unsigned flags)
{
    struct cp_sample sample;

    if (weight == 0)
        return;
    if (moment->since == CP__SINCE_BLOCKED || moment->since == CP__SINCE_OUTSIDE ||
        (moment->since == CP__SINCE_TICKS_BLOCKED && !m->handles[slot].engine->tells_places)) {
        sample = late_from_handler(m, moment, NULL);
        sample.flags |= flags;
    } else {
        sample = here_from_handler(m, moment);
        sample.flags |= flags;
        sample.depth = moment->depth;
        sample.frames = moment->frames;
    }
    if ((flags & CP_SAMPLE_STALLED) != 0)
        sample.n_rounds = 0; /* the program had no such time, so no round had it */
    sample.weight = weight;
    append_from_handler(m, moment, slot, &sample);
}

void cp__moment_end_from_handler(struct cp__m *m, struct cp__moment *moment)
{
    for (int slot = 0; slot < CP_EV_MAX && moment->any; slot++)
        add_sample_from_handler(m, moment, slot, moment->weight[slot], 0);
    for (int slot = 0; slot < CP_EV_MAX && moment->any; slot++)
        add_sample_from_handler(m, moment, slot, moment->stalled[slot], CP_SAMPLE_STALLED);
}
