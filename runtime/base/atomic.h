/*
 * All atomic operations of this project.
 *
 * The operations work on plain integers and pointers, so public headers that need one compile as C and as
 * C++. Each use of an acquire or a release operation has a comment that names its partner. Each use of a
 * relaxed operation has a comment that says why relaxed is enough.
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

/* Adds v, and returns the value before the addition. */
#define cp_fetch_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define cp_fetch_add_acq_rel(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
/* Subtracts v, and returns the value before the subtraction. */
#define cp_fetch_sub_acq_rel(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_ACQ_REL)

/* Sets the bits of v, or leaves only them. */
#define cp_fetch_or_relaxed(p, v) __atomic_fetch_or((p), (v), __ATOMIC_RELAXED)
#define cp_fetch_and_relaxed(p, v) __atomic_fetch_and((p), (v), __ATOMIC_RELAXED)

/* Adds to a counter that only one thread writes: a load and a store, without the locked instruction of a
 * read-modify-write. */
#define cp_add_single_writer(p, v) cp_store_relaxed((p), cp_load_relaxed(p) + (v))

/* Stores v if *p equals *expected, and returns true. Otherwise the macro copies *p to *expected and returns
 * false. */
#define cp_compare_exchange(p, expected, v)                                                                  \
    __atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#define cp_fence_acquire() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define cp_fence_release() __atomic_thread_fence(__ATOMIC_RELEASE)
#define cp_fence_seq_cst() __atomic_thread_fence(__ATOMIC_SEQ_CST)
/* Orders a thread's accesses against a signal handler on the same thread: a barrier for the compiler. */
#define cp_fence_signal() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#endif
