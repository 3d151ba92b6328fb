/*
 * Stacks that a thread of the library's asks an M for, while the M is busy with one G.
 *
 * The asker makes a timer on the CPU clock of the M's thread (runtime/engine/timer_linux.h), whose value is
 * cp__asked_value(). So the signal comes only if the thread computes: it never interrupts a system call that
 * waits. The handler takes the stack of the G if the M is still in the same stint.
 *
 *   state    means                                    next     who changes it
 *   FREE     nobody uses the entry                    CLAIMED  an asker: compare-and-swap
 *   CLAIMED  the asker writes                         ASKED    the asker: store with release
 *   ASKED    the M's handler may take the stack       TAKING   a handler: compare-and-swap
 *                                                     FREE     the asker, which gives up: the same
 *   TAKING   the handler writes                       TAKEN    the handler: store with release
 *   TAKEN    the asker reads                          FREE     the asker
 *
 * A tick may come late, when the entry is about another M or another stint: then the handler leaves it as it
 * is. Several threads may ask, each for itself: an entry is its asker's from CLAIMED to FREE. Entries are
 * never freed, so a late tick always finds them.
 */
#ifndef COUNTERPOINT_RUNTIME_ASKED_H
#define COUNTERPOINT_RUNTIME_ASKED_H

#include <signal.h>

#include "m.h"
#include "moment.h"

enum cp__asked_state {
    CP__ASKED_FREE,
    CP__ASKED_CLAIMED,
    CP__ASKED_ASKED,
    CP__ASKED_TAKING,
    CP__ASKED_TAKEN
};

struct cp__asked {
    uint32_t state; /* shared, atomic */
    /* Written by the asker before ASKED: the stint. */
    const struct cp__account *account;
    uint64_t switches;
    const void *asker; /* shared, atomic: whose the entry is; NULL unless it is somebody's */
    /* The asker's. */
    int timer;
    uint64_t seen; /* the number of the look at which the asker last saw the M that it asks */
    /* Written by the handler before TAKEN. */
    struct cp_labels *labels; /* with a reference, which the asker takes over; NULL: none */
    unsigned depth;
    unsigned flags; /* CP_SAMPLE_ bits */
    uintptr_t frames[CP_MAX_FRAMES];
};

/* How many Ms can be asked at once. */
#define CP__ASKED_MOST 32

/* Returns a free entry for this stint, in ASKED, which is the asker's; NULL: there is none. */
struct cp__asked *cp__asked_begin(const void *asker, const struct cp__account *account, uint64_t switches);
/* Returns the value that the timer's ticks must have. */
uint64_t cp__asked_value(const struct cp__asked *asked);
/* Returns whether the stack was taken. */
bool cp__asked_is_taken(const struct cp__asked *asked);
/* Frees the entry, whether it was taken or not. The labels of one that was taken are the caller's, if it has
 * set them to NULL here before. Waits for a handler that is just taking the stack. */
void cp__asked_end(struct cp__asked *asked);
/* Passes to end() the asker's entries whose M has not been seen at that look: the M is gone. */
void cp__asked_sweep(const void *asker, uint64_t look, void (*end)(struct cp__asked *asked));
/* In the child of a fork: all entries are free. */
void cp__asked_forget(void);

/* Returns the entry whose timer has raised the signal; NULL: none has. */
struct cp__asked *cp__asked_by_from_handler(const siginfo_t *info);
/* If the signal is such a tick, takes the stack of the moment. */
void cp__asked_on_signal_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment);

#endif
