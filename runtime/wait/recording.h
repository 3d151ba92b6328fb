/*
 * Recordings of waits: what the events wait, runnable and lock count, by stack.
 *
 * A recording takes each wait that is as long as its period, and a shorter one with the probability of its
 * length in periods. A wait of d ns that was taken stands for max(1, period / d) waits and max(d, period) ns,
 * so that sums are right in the mean whatever the lengths are, as in the block profile of Go.
 *
 *     event      what is measured                      whose stack
 *     WAIT       from cp_g_park() to cp_g_ready(),     of the G that waited: the caller of cp_g_park()
 *                or cp_wait_begin() to cp_wait_end()
 *     RUNNABLE   from cp_g_ready(), or the yield,      of the G: where it parked
 *                to cp_execute()
 *     LOCK       as WAIT                               of whoever called cp_g_ready(), with the labels of its
 *                                                      G; not of waits that a clock or a descriptor has ended
 *
 *     WALL       what a G does, whatever it is         of the G: see wall.h
 *
 * WALL takes other samples: at looks a period apart, and each stands for a time in which a G is in a state.
 *
 * Each M has a table of its own for each recording, which only its thread changes and others read. What a
 * thread that is no M has ended is under a lock.
 */
#ifndef COUNTERPOINT_RUNTIME_WAIT_RECORDING_H
#define COUNTERPOINT_RUNTIME_WAIT_RECORDING_H

#include "runtime.h"

enum cp__wait_event {
    CP__WAIT_EVENT_WAIT,
    CP__WAIT_EVENT_RUNNABLE,
    CP__WAIT_EVENT_LOCK,
    CP__WAIT_EVENT_WALL
};

/* How a G stood at a sample of the event WALL. */
enum cp__wall_state { CP__WALL_NONE, CP__WALL_RUNNING, CP__WALL_RUNNABLE, CP__WALL_WAITING };

/* How many recordings there can be at once. */
#define CP__RECORDINGS 8

struct cp__recording;

/* Begins a recording with that period in ns, at least 1. Waits that have begun before and end after this call
 * are taken, too. Returns 0; -ENOMEM; -EBUSY: there are CP__RECORDINGS already; -EINVAL if the program has
 * switched accounts off, with a sentence. */
int cp__recording_start(enum cp__wait_event event, uint64_t period, struct cp__recording **recording,
                        struct cp_error *err);

/* The shortest period of WALL, in ns. */
#define CP__WALL_PERIOD_MIN 1000000u

/* What the waits of one stack, one label set, one reason and one object add up to, since the start. Valid
 * during the call only. */
struct cp__waits {
    const uintptr_t *frames; /* innermost first: an address in the call, then return addresses */
    unsigned depth;
    unsigned flags;            /* CP_SAMPLE_ bits of the walk */
    struct cp_labels *labels;  /* the G's at the wait; NULL: none */
    uint64_t loads;            /* as in struct cp_sample */
    enum cp__wall_state state; /* CP__WALL_NONE if the event is another one */
    enum cp_wait_reason reason;
    const void *object; /* NULL: unknown, or one of many: a table tells at most so many apart */
    uint64_t sampled;   /* how many waits were taken */
    double waits;       /* how many they stand for */
    uint64_t delay;     /* ns that they stand for */
};
typedef int cp__waits_fn(void *context, const struct cp__waits *waits);

/* What was lost. */
struct cp__recording_stats {
    uint64_t sampled;    /* waits that were taken */
    uint64_t delay;      /* ns that they stand for */
    uint64_t dropped;    /* waits that found no memory or no room, and are not in sampled */
    uint64_t dropped_ns; /* what they would have stood for */
    bool has_no_stacks;  /* the system does not let the process copy stacks of Gs that stand still */
};

/* Passes to fn what has been added up since the start, and fills *stats. Two calls of fn may be about the
 * same stack, of two Ms. A result of fn other than 0 ends the list and is returned. fn must not use the
 * recording. Any thread, while the recording runs or after its stop. */
int cp__recording_each(struct cp__recording *recording, struct cp__recording_stats *stats, cp__waits_fn *fn,
                       void *context);

/* Ends the recording: waits that end from now on are not taken. What was recorded can still be read. */
void cp__recording_stop(struct cp__recording *recording);
/* Frees it. NULL: does nothing. Ms may still be about to leave its table: their memory goes later. */
void cp__recording_free(struct cp__recording *recording);

#endif
