/* Making samples, on the M itself: in its handler, or with SIGPROF blocked. */
#ifndef COUNTERPOINT_RUNTIME_MOMENT_H
#define COUNTERPOINT_RUNTIME_MOMENT_H

#include "m.h"

/* Where the M was when the events of a moment happened. */
enum cp__since {
    CP__SINCE_HERE,    /* where the M is now: SIGPROF has been blocked for this moment only */
    CP__SINCE_SIGNAL,  /* where the signal found the M; if the signal had to wait, where each record says */
    CP__SINCE_BLOCKED, /* where each record says, because the program has SIGPROF blocked. Without a record
                        * the place is unknown */
};

/* What a signal, or the closing of a handle, has samples for: where the M was, and how many periods of
 * each slot. The stack is walked once, when it is first needed. */
struct cp__moment {
    uint64_t weight[CP_EV_MAX];  /* periods */
    uint64_t stalled[CP_EV_MAX]; /* periods that passed before that place, in a gap too long to be the
                                  * program's */
    bool any;
    uint32_t brought;                 /* a bit for each slot whose statistics have counted this signal
                                       * already */
    const struct cp__registers *regs; /* those of that place */
    enum cp__since since;
    uintptr_t signal_frame; /* where the kernel's signal frame begins on the stack; 0: there is no
                             * handler */

    bool is_unwound; /* whether the fields below are known */
    const struct cp_g *g;
    unsigned chain_flags;
    unsigned depth;
    uintptr_t frames[CP_MAX_FRAMES];
};

/* Where the program was, in user mode, when the kernel wrote a record. */
struct cp__place {
    uintptr_t pc;
    uintptr_t sp;
};

/* What a record says of its own sample. */
struct cp__detail {
    uint64_t ip;           /* as in struct cp_sample */
    uint64_t addr;         /* the same */
    unsigned kernel_depth; /* the same */
    unsigned depth;        /* at most CP_MAX_FRAMES */
    bool has_user_frames;  /* the frames have the program's part after the kernel's; if not, the moment's
                            * stack follows them */
    bool is_late;          /* the moment's stack is not the sample's: where follows the frames instead */
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

/* Appends at once a sample of slot that has a place, an address or frames of its own. */
void cp__moment_detail_from_handler(struct cp__m *m, struct cp__moment *moment, int slot, uint64_t weight,
                                    const struct cp__detail *detail);

/* Appends the samples that were added to moment. */
void cp__moment_end_from_handler(struct cp__m *m, struct cp__moment *moment);

#endif
