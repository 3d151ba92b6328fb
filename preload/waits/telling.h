/*
 * How the program's calls that wait are told: the function that takes the place of one has
 *
 *     TELL(may_wait, reason, object, least_ns);
 *     return NEXT(name)(arguments);
 *
 * The wait ends when the block does, also if the thread is cancelled in it: that unwinds the stack. On one
 * thread, waits do not nest: what a handler of the program's does during a wait is part of that wait, and
 * what interrupts the telling is not told.
 *
 *     state       what it means                                      next      and when
 *     NONE        the thread does not wait                           TELLING   TELL(), if waits are recorded
 *     TELLING     it is in the core, which must not be entered       WAITING   the core has been told
 *                 again                                              NONE      the same at the end
 *     WAITING     it is in the call                                  TELLING   the call has returned
 *
 * A handler may jump out of both, to where the thread neither waits nor tells: then the state becomes NONE.
 */
#ifndef COUNTERPOINT_PRELOAD_WAITS_TELLING_H
#define COUNTERPOINT_PRELOAD_WAITS_TELLING_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"
#include "next.h"
#include "preload/waits.h"
#include "runtime/g_account.h"

enum cp__telling_state { CP__TELLING_NONE, CP__TELLING, CP__TELLING_WAITING };

/* Of the thread, and the handlers on it. */
struct cp__teller {
    uint32_t state; /* enum cp__telling_state */
    uintptr_t at;   /* the frame of the function that tells of the wait */
};
extern _Thread_local struct cp__teller cp__teller __attribute__((tls_model("initial-exec")));

/* Immutable once the constructor has run, and before that 0: nothing is told. */
extern const struct cp__wait_tellers *cp__tellers;

/* A system call that lasts less has most likely not waited. */
#define CP__CALL_NS 5000
/* The same of a lock with a time limit, which need not be tried first. */
#define CP__LOCK_NS 1000

/* What is to be ended. */
struct cp__telling {
    uint32_t least_ns;
    bool is_told;
};

/* Forgets a wait whose function has been left by a jump out of a handler. Returns whether the thread waits or
 * tells all the same: then a handler is running, on the same stack or on one of its own. */
bool cp__telling_goes_on(uintptr_t at);
void cp__telling_end(struct cp__telling *telling);
/* Before a jump: ends the wait of the calling thread, if it waits. */
void cp__telling_leave(void);

/* Returns whether waits are recorded, or looked at, and the caller is the program. */
static inline bool cp__waits_are_wanted(const void *caller)
{
    const uint32_t wanted = CP__ACCOUNTING_EVENTS | CP__ACCOUNTING_WALL;
    const struct cp__wait_tellers *tellers = cp__tellers;

    /* relaxed: a recording that has just begun may be seen late */
    return tellers != NULL && (cp_load_relaxed(tellers->accounting) & wanted) != 0 &&
           (uintptr_t)caller - tellers->code >= tellers->code_end - tellers->code;
}

/* Returns whether the caller tells that a wait begins: its own caller is the program, and waits. */
static inline __attribute__((always_inline)) bool cp__telling_begins(bool may_wait)
{
    const uintptr_t at = (uintptr_t)__builtin_frame_address(0);

    if (!may_wait || !cp__waits_are_wanted(__builtin_return_address(0)))
        return false;
    if (__builtin_expect(cp__teller.state != CP__TELLING_NONE, 0) && cp__telling_goes_on(at))
        return false;
    cp__teller.at = at;
    cp_fence_signal();
    cp__teller.state = CP__TELLING;
    cp_fence_signal();
    cp__teller.at = at; /* a handler that has told of a wait of its own in between has left its frame there */
    cp_fence_signal();
    return true;
}

/* The thread does not wait: it has told whom it has made wait. */
static inline void cp__telling_has_credited(void)
{
    cp_fence_signal();
    cp__teller.state = CP__TELLING_NONE;
}

static inline void cp__telling_has_begun(struct cp__telling *telling)
{
    cp_fence_signal();
    cp__teller.state = CP__TELLING_WAITING;
    telling->is_told = true;
}

/* Tells of a wait until the end of the block. The core is called by the function itself, and not by one
 * that is inline there, because the stack of the wait begins with whoever calls it. */
#define TELL(may_wait, reason, object, least)                                                                \
    struct cp__telling telling_ __attribute__((cleanup(cp__telling_end))) = {.least_ns = (least)};           \
                                                                                                             \
    if (cp__telling_begins(may_wait)) {                                                                      \
        cp__tellers->begin(reason, object);                                                                  \
        cp__telling_has_begun(&telling_);                                                                    \
    }

/* Defines the function of that name: the next one, told of. may_wait, reason and object are expressions
 * of the parameters. */
#define CALL(type, name, parameters, arguments, may_wait, reason, object, least_ns)                          \
    type name parameters                                                                                     \
    {                                                                                                        \
        TELL(may_wait, reason, object, least_ns);                                                            \
        return NEXT(name) arguments;                                                                         \
    }

/* An object that is a number. */
static inline const void *cp__object_of(long number)
{
    return (const void *)(intptr_t)number;
}

#endif
