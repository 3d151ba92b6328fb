/*
 * What the preloaded library has for the second one, the library of waits (preload/waits/), which tells where
 * the program's threads wait. `counterpoint run` preloads both if waits are to be profiled, and the first one
 * alone otherwise: then the program's calls that wait come to no function of ours.
 */
#ifndef COUNTERPOINT_PRELOAD_WAITS_H
#define COUNTERPOINT_PRELOAD_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime.h"

/* Immutable. */
struct cp__wait_tellers {
    const uint32_t *accounting; /* cp_accounting of this copy of the core */
    void (*begin)(enum cp_wait_reason reason, const void *object); /* cp_wait_begin_accounted() */
    void (*end)(uint64_t least_ns);                                /* cp__wait_end_if() */
    void (*forget)(void);                                          /* cp__wait_abandon() */
    bool (*is_known)(void);      /* whether the calling thread's waits are recorded: whether it is an M */
    uint64_t (*now)(void);       /* cp__account_now() */
    const uint32_t *lock_events; /* not 0: somebody records who makes others wait */
    /* The caller has made n other threads wait for the object, each for so many stamps. The stack begins with
     * the caller of this function. */
    void (*made_wait)(enum cp_wait_reason reason, const void *object, const uint64_t *lasted, unsigned n);
    uintptr_t code, code_end; /* the library's own: its calls are not the program's */
};
/* In the library of waits a weak one: without the first library, nothing is told. */
extern const struct cp__wait_tellers cp__preload_wait_tellers;

/* Gives the calling thread, which is an M, what it needs to tell that a wait begins: the program may
 * wait in its allocator, and heap.h is for the ends of waits. */
void cp__waits_prepare_thread(void);

#endif
