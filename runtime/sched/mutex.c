/*
 * Mutexes. An unlock while Gs wait makes the one that came first the owner, before that G runs. So each G
 * waits once for a lock, and for as many owners as were before it; the price is that an owner may still be
 * waiting for an M. If an unlock only woke the G and left the mutex free, the G that unlocked could have it
 * again before the other one ran: one that unlocks, locks and then yields, on one M, would keep all others
 * out for ever.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* On the stack of a G that waits, until the G owns the mutex. */
struct waiter {
    struct waiter *next;
    struct cp__task *task;
};

struct cp_mutex {
    struct cp__lock lock;
    /* The lock guards these. If the mutex is free, no G waits. `last` points at the link that is NULL. */
    bool is_owned;
    struct waiter *first;
    struct waiter **last;
};

struct cp_mutex *cp_mutex_new(void)
{
    struct cp_mutex *mutex = malloc(sizeof *mutex);

    if (mutex == NULL)
        return NULL;
    *mutex = (struct cp_mutex){.lock = CP__LOCK_INIT(CP__RANK_SCHED)};
    mutex->last = &mutex->first;
    return mutex;
}

/* Under the lock. */
static void append_owner_to_be(struct cp_mutex *mutex, struct waiter *w)
{
    *mutex->last = w;
    mutex->last = &w->next;
}

/* Gives the mutex to the G that waits first, or to nobody; under the lock. Returns the G's task, if any. */
static struct cp__task *hand_over(struct cp_mutex *mutex)
{
    struct waiter *w = mutex->first;

    if (w == NULL) {
        mutex->is_owned = false;
        return NULL;
    }
    mutex->first = w->next;
    if (w->next == NULL)
        mutex->last = &mutex->first;
    return w->task;
}

int cp_mutex_lock(struct cp_mutex *mutex)
{
    struct waiter self = {.task = cp__task_self()};
    const bool is_g = self.task != NULL;
    bool was_owned;

    cp__lock(&mutex->lock);
    was_owned = mutex->is_owned;
    mutex->is_owned = true;
    if (was_owned && is_g)
        append_owner_to_be(mutex, &self);
    cp__unlock(&mutex->lock);
    if (!was_owned)
        return 0;
    if (!is_g)
        return -EAGAIN;
    cp__task_await(CP_WAIT_LOCK, mutex);
    return 0;
}

void cp_mutex_unlock(struct cp_mutex *mutex)
{
    struct cp__task *next;

    cp__lock(&mutex->lock);
    next = hand_over(mutex);
    cp__unlock(&mutex->lock);
    /* From now on, the next owner may free the mutex. */
    if (next != NULL && cp__task_wake(next, CP__WAKE_EVENT))
        cp__task_enqueue(next);
}

void cp_mutex_free(struct cp_mutex *mutex)
{
    if (mutex == NULL)
        return;
    pthread_mutex_destroy(&mutex->lock.mutex);
    free(mutex);
}
