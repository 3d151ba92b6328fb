/* The program's calls that wait for other threads and for processes. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>

#include "waiters.h"

/* ---- Conditions, barriers -------------------------------------------------------------------- */

/* Whom the caller has made wait for the mutex is told before: the wait for the condition may have no end. */
#define CONDITION(name, parameters, arguments)                                                               \
    int name parameters                                                                                      \
    {                                                                                                        \
        struct cp__made_wait found;                                                                          \
                                                                                                             \
        found.n = 0;                                                                                         \
        if (cp__waits_are_wanted(__builtin_return_address(0)))                                               \
            cp__waiters_find(mutex, &found);                                                                 \
        CP__WAITERS_CREDIT(CP_WAIT_LOCK, mutex, &found);                                                     \
        TELL_WAITER(CP_WAIT_CONDITION, condition, 0);                                                        \
        return NEXT(name) arguments;                                                                         \
    }

CONDITION(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex), (condition, mutex))
CONDITION(pthread_cond_timedwait,
          (pthread_cond_t * condition, pthread_mutex_t *mutex, const struct timespec *limit),
          (condition, mutex, limit))
CONDITION(pthread_cond_clockwait,
          (pthread_cond_t * condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *limit),
          (condition, mutex, clock, limit))
CONDITION(cnd_wait, (cnd_t * condition, mtx_t *mutex), (condition, mutex))
CONDITION(cnd_timedwait, (cnd_t * condition, mtx_t *mutex, const struct timespec *limit),
          (condition, mutex, limit))

RELEASE(pthread_cond_signal, pthread_cond_t, CP_WAIT_CONDITION)
RELEASE(pthread_cond_broadcast, pthread_cond_t, CP_WAIT_CONDITION)
RELEASE(cnd_signal, cnd_t, CP_WAIT_CONDITION)
RELEASE(cnd_broadcast, cnd_t, CP_WAIT_CONDITION)

/* Whoever comes has made those wait that are there. */
int pthread_barrier_wait(pthread_barrier_t *barrier)
{
    struct cp__made_wait found;
    int result;

    found.n = 0;
    if (cp__waits_are_wanted(__builtin_return_address(0)))
        cp__waiters_find(barrier, &found);
    {
        TELL_WAITER(CP_WAIT_GROUP, barrier, 0);
        result = NEXT(pthread_barrier_wait)(barrier);
    }
    CP__WAITERS_CREDIT(CP_WAIT_GROUP, barrier, &found);
    return result;
}

/* ---- Semaphores ------------------------------------------------------------------------------ */

/* Does what the C library does, which looks for a cancellation before it takes what is there. */
int sem_wait(sem_t *semaphore)
{
    const int saved_errno = errno;

    if (!cp__waits_are_wanted(__builtin_return_address(0)))
        return NEXT(sem_wait)(semaphore);
    pthread_testcancel();
    if (sem_trywait(semaphore) == 0)
        return 0;
    errno = saved_errno;
    TELL_WAITER(CP_WAIT_SEMAPHORE, semaphore, 0);
    return NEXT(sem_wait)(semaphore);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *limit)
{
    TELL_WAITER(CP_WAIT_SEMAPHORE, semaphore, CP__LOCK_NS);
    return NEXT(sem_timedwait)(semaphore, limit);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *limit)
{
    TELL_WAITER(CP_WAIT_SEMAPHORE, semaphore, CP__LOCK_NS);
    return NEXT(sem_clockwait)(semaphore, clock, limit);
}

RELEASE(sem_post, sem_t, CP_WAIT_SEMAPHORE)

/* ---- The end of threads and processes -------------------------------------------------------- */

#define JOIN(name, parameters, arguments, thread)                                                            \
    CALL(int, name, parameters, arguments, true, CP_WAIT_JOIN, (const void *)(thread), CP__CALL_NS)

JOIN(pthread_join, (pthread_t thread, void **result), (thread, result), thread)
JOIN(pthread_timedjoin_np, (pthread_t thread, void **result, const struct timespec *limit),
     (thread, result, limit), thread)
JOIN(pthread_clockjoin_np, (pthread_t thread, void **result, clockid_t clock, const struct timespec *limit),
     (thread, result, clock, limit), thread)
JOIN(thrd_join, (thrd_t thread, int *result), (thread, result), thread)

#define CHILD(type, name, parameters, arguments, options, child)                                             \
    CALL(type, name, parameters, arguments, ((options)&WNOHANG) == 0, CP_WAIT_JOIN, cp__object_of(child),    \
         CP__CALL_NS)

CHILD(pid_t, wait, (int *status), (status), 0, 0)
CHILD(pid_t, waitpid, (pid_t child, int *status, int options), (child, status, options), options,
      child > 0 ? child : 0)
CHILD(pid_t, wait3, (int *status, int options, struct rusage *usage), (status, options, usage), options, 0)
CHILD(pid_t, wait4, (pid_t child, int *status, int options, struct rusage *usage),
      (child, status, options, usage), options, child > 0 ? child : 0)
CHILD(int, waitid, (idtype_t kind, id_t child, siginfo_t *info, int options), (kind, child, info, options),
      options, kind == P_PID ? (long)child : 0)
