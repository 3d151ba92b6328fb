/* Making samples, on the M itself: in its handler, or with the library's signals blocked. A thread that has
 * the claim CHANGING makes samples for the M, too. */
#ifndef COUNTERPOINT_RUNTIME_MOMENT_H
#define COUNTERPOINT_RUNTIME_MOMENT_H

#include "m.h"
#include "rounds.h"

/* How many bytes the words of a G's entry may take above its first frame. They do not say that a chain is
 * whole: the first function must be told to have no caller there (unwind.h). */
#define CP__G_SLACK 512

/* Where the M was when the events of a moment happened. */
enum cp__since {
    CP__SINCE_HERE,   /* where the M is now: the signals have been blocked for this moment only */
    CP__SINCE_SIGNAL, /* where the signal found the M. If the signal had to wait: where each record says */
    /* where each record says, because the program has the signal blocked. Without a record the place is
     * unknown */
    CP__SINCE_BLOCKED,
    /* where the M is now; but the program has SIGPROF blocked, and the place of a timer's ticks is unknown */
    CP__SINCE_TICKS_BLOCKED,
    /* where each record says, because another thread closes the M's handle, and the M goes on meanwhile.
     * Without a record the place is unknown, and in any case the G is */
    CP__SINCE_OUTSIDE,
};

/* A signal, or the closing of a handle, makes samples: at this place, and for so many periods of each slot.
 * The stack is unwound when the first sample needs it, and only once. */
struct cp__moment {
    uint64_t weight[CP_EV_MAX]; /* how many periods a sample of the slot stands for */
    /* the same, of a gap before the moment that is too long to be the program's time */
    uint64_t stalled[CP_EV_MAX];
    bool any;
    uint32_t brought;                 /* a bit for each slot that has counted this signal */
    const struct cp__registers *regs; /* the registers at that place */
    enum cp__since since;
    uint64_t loads;         /* as in struct cp_sample */
    uintptr_t signal_frame; /* where the kernel's signal frame begins on the stack; 0: not in a handler */

    bool is_unwound; /* whether the fields below are known */
    const struct cp_g *g;
    unsigned chain_flags;
    unsigned depth;
    unsigned n_rounds; /* as in struct cp_sample */
    uint64_t rounds[CP__ROUNDS];
    uintptr_t frames[CP_MAX_FRAMES];
};

/* Where the program was in user mode when the kernel wrote a record. */
struct cp__place {
    uintptr_t pc;
    uintptr_t sp;
};

/* The fields that a record has for its own sample alone. */
struct cp__detail {
    uint64_t ip;           /* as in struct cp_sample */
    uint64_t addr;         /* the same */
    unsigned kernel_depth; /* the same */
    unsigned depth;        /* at most CP_MAX_FRAMES */
    bool has_user_frames;  /* the frames include the program's; if not, the moment's stack follows them */
    bool is_late; /* the sample was not taken at the moment's place: where follows the frames instead */
    struct cp__place where;
    uintptr_t frames[CP_MAX_FRAMES];
};

void cp__moment_begin_from_handler(struct cp__moment *moment, const struct cp__registers *regs,
                                   enum cp__since since);

static inline void cp__moment_add_from_handler(struct cp__moment *moment, int slot, uint64_t weight)
{
    moment->weight[slot] += weight;
    moment->any = true;
}

/* Appends a sample of slot with an address, a place or frames of its own. */
void cp__moment_detail_from_handler(struct cp__m *m, struct cp__moment *moment, int slot, uint64_t weight,
                                    const struct cp__detail *detail);

/* Finds the moment's stack and G, unless they are known. Not if another thread closes the M's handle. */
void cp__moment_unwind_from_handler(struct cp__m *m, struct cp__moment *moment);

/* Appends the samples that moment has collected. */
void cp__moment_end_from_handler(struct cp__m *m, struct cp__moment *moment);

#endif
