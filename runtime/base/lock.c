#include "lock.h"

#ifdef CP_DEBUG
#include <assert.h>

static _Thread_local unsigned held; /* one bit for each rank that the thread holds */
#endif

static _Thread_local unsigned depth; /* the number of locks that the thread holds or waits for */
/* the thread's cancel state before the outermost lock; valid while depth is not 0 */
static _Thread_local int cancel_state;

static void keep_from_cancellation(void)
{
    if (depth++ == 0)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
}

static void allow_cancellation(void)
{
    if (--depth == 0)
        pthread_setcancelstate(cancel_state, NULL);
}

void cp__lock(struct cp__lock *lock)
{
#ifdef CP_DEBUG
    assert(held >> lock->rank == 0 && "a lock of this or a higher rank is held already");
#endif
    keep_from_cancellation();
    pthread_mutex_lock(&lock->mutex);
#ifdef CP_DEBUG
    held |= 1u << lock->rank;
#endif
}

void cp__unlock(struct cp__lock *lock)
{
#ifdef CP_DEBUG
    assert(held & 1u << lock->rank);
    held &= ~(1u << lock->rank);
#endif
    pthread_mutex_unlock(&lock->mutex);
    allow_cancellation();
}

void cp__lock_reset(struct cp__lock *lock)
{
    pthread_mutex_init(&lock->mutex, NULL);
}
