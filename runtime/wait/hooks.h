/*
 * What the core calls at the ends of waits, and how recordings end while Ms are in there.
 *
 * cp__wait_running has what runs. A hook on an M makes the M's `runs` odd, passes a light barrier, loads
 * pointers to recordings from there, uses these, and makes `runs` even again. Whoever ends a recording takes
 * its pointer away, makes all threads pass the heavy barrier, and then waits for each M whose `runs` is odd
 * until it changes: so nobody uses the recording any more. Threads that are no Ms do the same under the lock.
 *
 *   pointer        who writes it, and how           who reads it
 *   recordings[k]  under the lock, with release     hooks, with acquire; all others under the lock
 *   events[e]      under the lock: a bit for each   hooks, to see at once that there is nothing to do
 *                  recording of event e
 */
#ifndef COUNTERPOINT_RUNTIME_WAIT_HOOKS_H
#define COUNTERPOINT_RUNTIME_WAIT_HOOKS_H

#include "recording.h"
#include "runtime/base/lock.h"
#include "runtime/m.h"
#include "sums.h"

#define CP__WAIT_EVENTS 4

struct cp__recording {
    /* Immutable. */
    enum cp__wait_event event;
    uint64_t period;
    uint64_t serial;  /* unique in the process, from 1 */
    uint64_t process; /* cp__wait_running.process at the start */

    /* Under the lock. */
    unsigned slot;
    bool is_running;
    struct cp__recording *next_ended;
    struct cp__wait_sums *outside; /* of threads that are no Ms; also in the list */

    struct cp__wait_sums *sums; /* the list of all; each change is one store, with release, under the lock */
    /* Shared, atomic: what found no memory for sums. */
    uint64_t dropped, dropped_ns;
    bool has_no_stacks; /* shared, atomic: as in struct cp__recording_stats */

    struct cp__wall *wall; /* of the event WALL alone: see wall.h */
};

struct cp__wait_running {
    struct cp__lock lock;
    uint32_t events[CP__WAIT_EVENTS]; /* atomic */
    struct cp__recording *recordings[CP__RECORDINGS];
    uint64_t process; /* how many forks led to this process; changed in the child of a fork */
};
extern struct cp__wait_running cp__wait_running;

/* What an M has. All of it is the M's, but for what is said to be shared. */
struct cp__wait_m {
    uint64_t runs; /* shared, atomic: odd while the M is in a hook; the M writes it */
    uint64_t random;
    struct {
        uint64_t serial; /* of the recording; 0: none */
        struct cp__wait_sums *sums;
    } of[CP__RECORDINGS];
    struct cp__wait_chain chain;
    struct cp__unwind_cache cache;
};

extern const struct cp__wait_calls cp__wait_hooks;

/* Adds what was taken by a thread that is no M. */
void cp__wait_record_outside(struct cp__recording *recording, const struct cp__wait_taken *taken);

/* Waits until no hook uses what has been taken out of cp__wait_running, for some tenths of a second at most.
 * Returns false if it may still be used. Not under the lock. */
bool cp__wait_hooks_are_out(void);

#endif
