/*
 * Who waits for which lock, so that whoever gives it back is credited with having made others wait. What is
 * said of locks here holds for semaphores, conditions and barriers, too: whoever posts, signals or comes to
 * the barrier gives it back.
 *
 * A thread that waits for a lock has an entry: the lock, and the moment from which on nobody has been
 * credited yet. Whoever gives the lock back takes what has passed since from all entries of the lock, and is
 * credited with that. So each holder answers for the part of a wait in which it had the lock, and all of them
 * together for the whole wait. Entries lie in fixed groups, because a jump out of a handler may leave one
 * behind: the thread itself frees it when it tells next. The lock's address chooses the group. If the group
 * is full, the wait is credited to nobody.
 *
 *   lock        what it means                    next       who changes it
 *   0           the entry is free                CLAIMED    a thread that begins to wait: exchange
 *   CLAIMED     since is being written           address    the same: store with release
 *   an address  a thread waits for that lock     0          the same, when the wait is over
 */
#ifndef COUNTERPOINT_PRELOAD_WAITS_WAITERS_H
#define COUNTERPOINT_PRELOAD_WAITS_WAITERS_H

#include <stdbool.h>
#include <stdint.h>

#include "telling.h"

/* How many waiters of one lock can be told. */
#define CP__WAITERS_OF_LOCK 64

/* The calling thread waits for the lock from now on, if anybody records who makes others wait. */
void cp__waiter_begin(const void *lock);
/* It waits no longer, if it did. */
void cp__waiter_end(void);
/* In the child of a fork: those who waited are the parent's threads. */
void cp__waiters_forget(void);

/* How long others have waited, in stamps. */
struct cp__made_wait {
    unsigned n;
    uint64_t lasted[CP__WAITERS_OF_LOCK];
};
/* Before the calling thread gives the lock back: finds whom it has made wait. */
void cp__waiters_find(const void *lock, struct cp__made_wait *found);
/* In the function that the program has called, with which the stack begins; if it can be, when others have
 * the lock. */
#define CP__WAITERS_CREDIT(reason, lock, found)                                                              \
    do {                                                                                                     \
        if (__builtin_expect((found)->n > 0, 0) && cp__telling_begins(true)) {                               \
            cp__tellers->made_wait(reason, lock, (found)->lasted, (found)->n);                               \
            cp__telling_has_credited();                                                                      \
        }                                                                                                    \
    } while (0)

/* Tells of a wait until the end of the block, for which whoever ends it is credited. */
#define TELL_WAITER(reason, object, least_ns)                                                                \
    TELL(true, reason, object, least_ns);                                                                    \
    if (telling_.is_told)                                                                                    \
    cp__waiter_begin(object)

/* Defines a function that ends such waits. */
#define RELEASE(name, type, reason)                                                                          \
    int name(type *object)                                                                                   \
    {                                                                                                        \
        struct cp__made_wait found;                                                                          \
        int result;                                                                                          \
                                                                                                             \
        if (!cp__waits_are_wanted(__builtin_return_address(0)))                                              \
            return NEXT(name)(object);                                                                       \
        cp__waiters_find(object, &found);                                                                    \
        result = NEXT(name)(object);                                                                         \
        CP__WAITERS_CREDIT(reason, object, &found);                                                          \
        return result;                                                                                       \
    }

#endif
