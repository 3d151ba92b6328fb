/*
 * Mutexes with ranks. A thread takes locks only in the order of the list below; a debug build (CP_DEBUG)
 * asserts the order. No signal handler takes a lock. The ranks are one order for the whole process, so the
 * rooms above the runtime use this header too.
 *
 * A thread that holds one of these locks cannot be cancelled: the outermost cp__lock() disables cancellation,
 * and the cp__unlock() of the last lock restores the previous state. So a cancellation point under a lock
 * (libpfm4 and the C library's file functions have many) never ends a thread that would leave the lock
 * locked.
 */
#ifndef COUNTERPOINT_RUNTIME_BASE_LOCK_H
#define COUNTERPOINT_RUNTIME_BASE_LOCK_H

#include <pthread.h>

enum cp__lock_rank {
    CP__RANK_DEFAULT_SESSION, /* pprof: which session is the default one */
    CP__RANK_SESSION,         /* pprof: one session's state */
    CP__RANK_CONTENTIONS,     /* pprof: the recordings of the block and mutex profiles */
    CP__RANK_CONFIGS,         /* runtime: which slot each event of cp_set_cpu_profile_config() has */
    CP__RANK_SCHED_LIST,      /* sched: the list of all Gs, and the end of a stack that a lister reads */
    CP__RANK_SCHED,           /* sched: each lock of the scheduler; no thread takes two of them */
    CP__RANK_STALL_SEARCH,    /* stall: who has stalls looked for */
    CP__RANK_STALLS,          /* stall: the places of stalls */
    CP__RANK_WATCHES,         /* watch: the list of watches */
    CP__RANK_WATCH,           /* watch: one watch's labels and Ms */
    CP__RANK_RUNTIME,         /* runtime: the slots, the registry of Ms, the signal's disposition */
    CP__RANK_METERS,          /* watch: the list of meters */
    CP__RANK_PFM,             /* runtime: libpfm4 */
    CP__RANK_LABELS,          /* runtime: who reads the labels of a running G */
    CP__RANK_CHUNKS,          /* runtime: the pool of the sample buffers' chunks */
    CP__RANK_OWN_THREADS,     /* runtime: the list of the library's own threads */
    CP__RANK_SAMPLED,         /* watch: how long the rounds took in which samples were taken */
    CP__RANK_WATCH_KEYS,      /* watch: a shard of open keys; no thread takes two of them */
    CP__RANK_LABEL_SUMS_READ, /* runtime: who reads the sums of accounts */
    CP__RANK_LABEL_SUMS,      /* runtime: which label sets have sums */
    CP__RANK_ACCOUNTS,        /* runtime: the free accounts of Gs */
    CP__RANK_RECORDINGS,      /* wait: which recordings of waits run, and what plain threads have ended */
    CP__RANK_HEAP,            /* preload: the memory of what is recorded at the ends of waits */
    CP__RANK_ACCOUNTING,      /* runtime: whether there are accounts */
};

struct cp__lock {
    pthread_mutex_t mutex;
    enum cp__lock_rank rank;
};
#define CP__LOCK_INIT(r)                                                                                     \
    {                                                                                                        \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (r)                                                      \
    }

void cp__lock(struct cp__lock *lock);
void cp__unlock(struct cp__lock *lock);
/* Makes a lock free in the child of a fork, even if a thread held the lock in the parent. See fork.c. */
void cp__lock_reset(struct cp__lock *lock);

#endif
