/* Recording samples: on the M itself, in its handler or with SIGPROF blocked. */
#ifndef COUNTERPOINT_RUNTIME_MOMENT_H
#define COUNTERPOINT_RUNTIME_MOMENT_H

#include "m.h"

/* Where the M was at what a moment brings to light. */
enum cp__since {
    CP__SINCE_HERE,    /* where it is: SIGPROF has been blocked for this moment only */
    CP__SINCE_SIGNAL,  /* a signal came: there, or if it had to wait, where each record says */
    CP__SINCE_BLOCKED, /* where each record says: the program has SIGPROF blocked. Without a record nobody
                        * knows */
};

/* What a signal, or a stop, brings to light: where the M was, and how much of each slot is to be recorded
 * there. The stack is walked once, when it is first needed. */
struct cp__moment {
    uint64_t weight[CP_EV_MAX];  /* periods */
    uint64_t stalled[CP_EV_MAX]; /* periods that passed before, in a gap too long to be the program's */
    bool any;
    uint32_t brought;                 /* a bit for each slot that has counted this signal */
    const struct cp__registers *regs; /* where the M is */
    enum cp__since since;
    uintptr_t signal_frame; /* the stack pointer that the handler returns with; 0: there is no handler */

    bool is_unwound; /* what follows is known */
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

/* What a record of the kernel's says of its own sample. */
struct cp__detail {
    uint64_t ip;           /* as in struct cp_sample */
    uint64_t addr;         /* the same */
    unsigned kernel_depth; /* the same */
    unsigned depth;        /* at most CP_MAX_FRAMES */
    bool has_user_frames;  /* after the kernel's; else the moment's stack follows them */
    bool is_late;          /* the moment's stack is not its own: where follows instead */
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

/* Records at once a sample of slot that has something of its own. */
void cp__moment_detail_from_handler(struct cp__m *m, struct cp__moment *moment, int slot, uint64_t weight,
                                    const struct cp__detail *detail);

/* Records what has been added. */
void cp__moment_end_from_handler(struct cp__m *m, struct cp__moment *moment);

#endif
