/*
 * The atomic operations of this project, all of them.
 *
 * They work on plain integers and pointers, so that the public headers that need one compile as C and as C++.
 * A use of an acquire or a release operation names its partner where it stands; a relaxed one says why it may
 * be.
 */
#ifndef COUNTERPOINT_ATOMIC_H
#define COUNTERPOINT_ATOMIC_H

#define cp_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define cp_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define cp_load_seq_cst(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define cp_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define cp_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define cp_store_seq_cst(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define cp_exchange_acq_rel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)

/* Adds, and returns what was there before. */
#define cp_fetch_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define cp_fetch_add_acq_rel(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
/* Subtracts, and returns what was there before. */
#define cp_fetch_sub_acq_rel(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_ACQ_REL)

/* A counter with one writer: a load and a store, without the locked instruction of a read-modify-write. */
#define cp_add_single_writer(p, v) cp_store_relaxed((p), cp_load_relaxed(p) + (v))

/* Stores v where *p still is *expected; true where it was. On failure *expected is what stood there. */
#define cp_compare_exchange(p, expected, v)                                                                  \
    __atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#define cp_fence_acquire() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define cp_fence_release() __atomic_thread_fence(__ATOMIC_RELEASE)
#define cp_fence_seq_cst() __atomic_thread_fence(__ATOMIC_SEQ_CST)
/* Orders a thread's accesses against a signal handler on that same thread: a compiler barrier. */
#define cp_fence_signal() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#endif
