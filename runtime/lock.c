#include "lock.h"

#ifdef CP_DEBUG
#include <assert.h>

static _Thread_local unsigned held; /* a bit for each rank */
#endif

void cp__lock(struct cp__lock *lock)
{
#ifdef CP_DEBUG
    assert(held >> lock->rank == 0 && "a lock of this or a higher rank is held already");
#endif
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
}
