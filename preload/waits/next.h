/* The next functions of the names that the library of waits takes the place of: the C library's own, or
 * those of another library that is preloaded. */
#ifndef COUNTERPOINT_PRELOAD_WAITS_NEXT_H
#define COUNTERPOINT_PRELOAD_WAITS_NEXT_H

#include <stddef.h>

#include "atomic.h"

/* Locks stand first: an allocator may use them while the others are looked for. */
#define CP__NEXT_NAMES(x)                                                                                    \
    x(pthread_mutex_lock) x(pthread_mutex_timedlock) x(pthread_mutex_clocklock) x(pthread_mutex_unlock)      \
        x(pthread_rwlock_unlock) x(mtx_unlock) x(pthread_rwlock_rdlock) x(pthread_rwlock_timedrdlock)        \
            x(pthread_rwlock_clockrdlock) x(pthread_rwlock_wrlock) x(pthread_rwlock_timedwrlock)             \
                x(pthread_rwlock_clockwrlock) x(mtx_lock) x(mtx_timedlock) x(pthread_cond_wait)              \
                    x(pthread_cond_signal) x(pthread_cond_broadcast) x(cnd_signal) x(cnd_broadcast)          \
                        x(sem_post) x(pthread_cond_timedwait) x(pthread_cond_clockwait) x(cnd_wait)          \
                            x(cnd_timedwait) x(sem_wait) x(sem_timedwait) x(sem_clockwait)                   \
                                x(pthread_barrier_wait) x(pthread_join) x(pthread_timedjoin_np)              \
                                    x(pthread_clockjoin_np) x(thrd_join) x(poll) x(ppoll) x(__poll_chk)      \
                                        x(__ppoll_chk) x(select) x(pselect) x(epoll_wait) x(epoll_pwait)     \
                                            x(epoll_pwait2) x(accept) x(accept4) x(connect) x(nanosleep)     \
                                                x(clock_nanosleep) x(sleep) x(usleep) x(thrd_sleep) x(wait)  \
                                                    x(waitpid) x(waitid) x(wait3) x(wait4) x(read)           \
                                                        x(__read_chk) x(readv) x(write) x(writev) x(recv)    \
                                                            x(__recv_chk) x(recvfrom) x(__recvfrom_chk)      \
                                                                x(recvmsg) x(recvmmsg) x(send) x(sendto)     \
                                                                    x(sendmsg) x(sendmmsg) x(siglongjmp)     \
                                                                        x(longjmp) x(_longjmp)               \
                                                                            x(__longjmp_chk)

#define CP__NEXT_NUMBER(name) CP__NEXT_##name,
enum cp__next_name { CP__NEXT_NAMES(CP__NEXT_NUMBER) CP__NEXT_COUNT };
extern void *cp__next_functions[CP__NEXT_COUNT];

/* Asks the dynamic linker. The constructor does so for all names, but other libraries' constructors may
 * call some before. If there is no such function, the result is one that fails with ENOSYS. */
void *cp__next_find(enum cp__next_name number);

static inline void *cp__next(enum cp__next_name number)
{
    void *function = cp_load_relaxed(&cp__next_functions[number]); /* relaxed: all threads find the same */

    return __builtin_expect(function != NULL, 1) ? function : cp__next_find(number);
}

/* Calls the next function of that name: NEXT(poll)(fds, n, timeout). */
#define NEXT(name) ((__typeof__(&name))cp__next(CP__NEXT_##name))

#endif
