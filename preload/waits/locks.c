/*
 * The program's calls that take locks and give them back. A lock that is free is taken by the call that only
 * tries: that does what the other would do, for all kinds of locks, and what it costs is the call. If the C
 * library looks at a time limit first, nothing is tried.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>
#include <time.h>

#include "waiters.h"

/* Defines a function that returns what the other one does, unless that is `busy`. */
#define LOCK(name, trying, type, busy)                                                                       \
    int name(type *lock)                                                                                     \
    {                                                                                                        \
        int result;                                                                                          \
                                                                                                             \
        if (!cp__waits_are_wanted(__builtin_return_address(0)))                                              \
            return NEXT(name)(lock);                                                                         \
        result = trying(lock);                                                                               \
        if (result == (busy)) {                                                                              \
            TELL_WAITER(CP_WAIT_LOCK, lock, 0);                                                              \
            result = NEXT(name)(lock);                                                                       \
        }                                                                                                    \
        return result;                                                                                       \
    }

LOCK(pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_t, EBUSY)
LOCK(pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, pthread_rwlock_t, EBUSY)
LOCK(pthread_rwlock_wrlock, pthread_rwlock_trywrlock, pthread_rwlock_t, EBUSY)
LOCK(mtx_lock, mtx_trylock, mtx_t, thrd_busy)

#define TIMED_LOCK(name, type, parameters, arguments)                                                        \
    int name(type *lock, parameters)                                                                         \
    {                                                                                                        \
        TELL_WAITER(CP_WAIT_LOCK, lock, CP__LOCK_NS);                                                        \
        return NEXT(name)(lock, arguments);                                                                  \
    }
#define COMMA ,

TIMED_LOCK(pthread_mutex_timedlock, pthread_mutex_t, const struct timespec *limit, limit)
TIMED_LOCK(pthread_mutex_clocklock, pthread_mutex_t, clockid_t clock COMMA const struct timespec *limit,
           clock COMMA limit)
TIMED_LOCK(pthread_rwlock_timedrdlock, pthread_rwlock_t, const struct timespec *limit, limit)
TIMED_LOCK(pthread_rwlock_timedwrlock, pthread_rwlock_t, const struct timespec *limit, limit)
TIMED_LOCK(pthread_rwlock_clockrdlock, pthread_rwlock_t, clockid_t clock COMMA const struct timespec *limit,
           clock COMMA limit)
TIMED_LOCK(pthread_rwlock_clockwrlock, pthread_rwlock_t, clockid_t clock COMMA const struct timespec *limit,
           clock COMMA limit)
TIMED_LOCK(mtx_timedlock, mtx_t, const struct timespec *limit, limit)

/* ---- Giving back ----------------------------------------------------------------------------- */

#define UNLOCK(name, type) RELEASE(name, type, CP_WAIT_LOCK)

UNLOCK(pthread_mutex_unlock, pthread_mutex_t)
UNLOCK(pthread_rwlock_unlock, pthread_rwlock_t)
UNLOCK(mtx_unlock, mtx_t)
