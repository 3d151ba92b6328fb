/*
 * counterpoint/sched.h: an M:N scheduler for programs that have none.
 *
 *     static void hello(void *name)
 *     {
 *         printf("hello %s\n", (const char *)name);
 *     }
 *     ...
 *     struct cp_sched_options options = {.size = sizeof options, .threads = 4};
 *     if (cp_sched_run(&options, hello, "world", &err) < 0)
 *         fprintf(stderr, "%s\n", err.message);
 *
 * Gs run on Ms, which are threads. A G that waits leaves its M to other Gs, and may continue on another M.
 * Scheduling is cooperative: a G keeps its M until it waits, yields or ends. The profiler core does not know
 * the scheduler; the scheduler attaches every M to the core, and each switch is a scheduling point
 * (cp_execute() in runtime.h).
 *
 * Callers: only Gs may make the calls marked "G", which return -ESRCH elsewhere. Any thread may make the
 * other calls while cp_sched_run() runs. No call may be made in a signal handler.
 *
 * Threads: a G may change its M in every call marked "G". What belongs to a thread does not move with the G,
 * errno above all, and compilers keep the address of errno: so read errno in a function of its own, not in
 * the loop that waits. A G must not hold a mutex of pthreads across a call marked "G".
 *
 * Forks: the child has no scheduler. The G that called fork() continues there as a thread that is no G, and
 * when its function returns, the child exits with status 0. The child may start a scheduler of its own, but
 * must not use channels, mutexes, wait groups and Gs of its parent.
 */
#ifndef COUNTERPOINT_SCHED_H
#define COUNTERPOINT_SCHED_H

#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Running --------------------------------------------------------------------------------- */

/* How a scheduler runs. The caller sets the struct to zero and sets size. */
struct cp_sched_options {
    size_t size;      /* sizeof(struct cp_sched_options) as the caller compiled it */
    unsigned threads; /* number of Ms; 0: one for each CPU that this process may use */
    /* size of each G's stack in bytes, at least CP_SCHED_STACK_MIN; 0: CP_SCHED_STACK_SIZE */
    size_t stack_size;
};
#define CP_SCHED_THREADS_MAX 1024
#define CP_SCHED_STACK_MIN 16384
/* A stack takes memory as it grows, one page at a time. A guard lies below the stack: a G that needs more
 * stack gets SIGSEGV. */
#define CP_SCHED_STACK_SIZE 65536

/*
 * Runs fn(arg) as the first G, with the calling thread as one of the Ms, and returns when all Gs have ended,
 * not only the first one. A G that waits for ever keeps the call from returning. One scheduler runs at a time
 * in a process. options may be NULL. Returns 0; -EBUSY if a scheduler runs already; -EINVAL for bad options;
 * -EAGAIN, -ENOMEM, -EMFILE and others if the system refuses a thread, memory or a descriptor. After an
 * error, fn has not been called.
 */
int cp_sched_run(const struct cp_sched_options *options, void (*fn)(void *), void *arg, struct cp_error *err);

/* Starts a G that runs fn(arg). The new G inherits the labels of the calling G or attached thread. Returns 0;
 * -ENOMEM if there is no memory for a stack; -ESRCH if no scheduler runs. */
int cp_go(void (*fn)(void *), void *arg);

/* G. Lets the other Gs that can run do so first. Elsewhere the call does nothing. */
void cp_yield(void);

/* ---- Looking at all Gs ----------------------------------------------------------------------- */

/* A G as cp_g_each() reports it. Valid only during the call of fn. */
struct cp_g_info {
    size_t size; /* sizeof(struct cp_g_info) as the library was compiled */
    uint64_t id;
    /* the G that called cp_go(); 0: a thread called it, or cp_sched_run() started the G */
    uint64_t parent_id;
    const char *state; /* "running", "runnable", or what the G waits for: "sleep", "park", ... */
    /* An upper bound of the time that the G has waited, in ns; 0 if the G does not wait. The time counts from
     * the moment when the G's M last read the clock, which an M does at least every 24 switches. */
    uint64_t waited_ns;
    struct cp_labels *labels; /* valid during the call; cp_labels_ref() keeps the labels longer */
    uintptr_t created_at;     /* the return address of the cp_go() that started the G; 0 for the first G */
    void (*entry)(void *);    /* the function with which the G was started */
    uint32_t tid;             /* the thread that runs the G; 0: the G does not run */
    /* Where the G will continue: the registers that a function preserves for its caller, the stack pointer,
     * and the program counter, which is a return address. NULL if the G runs, because its stack cannot be
     * read then. */
    const ucontext_t *context;
    uintptr_t stack_lo; /* the G's stack, [stack_lo, stack_hi), which does not change during the call */
    uintptr_t stack_hi;
    /* The G's account (account.h) in all so far; zeros if it has none. */
    uint64_t running_ns;
    uint64_t runnable_ns;
    uint64_t waiting_ns;
    uint64_t switches;
    enum cp_wait_reason reason; /* why the G waits; CP_WAIT_OTHER if it does not */
    /* What the G waits for: the address of the channel, group or mutex, or the number of the descriptor; NULL
     * if it waits for nothing of that kind. */
    const void *object;
};

/* A result other than 0 ends the listing and is returned. The function must not wait, yield or list Gs: the G
 * that it receives, and up to 63 others, do not run meanwhile, and Ms may spin until the function returns. */
typedef int cp_g_each_fn(void *context, const struct cp_g_info *info);

/*
 * Calls fn for every G, as the G is at that moment. The program continues to run. A G that exists from the
 * beginning of the call to its end is reported once; a G that begins or ends meanwhile is reported at most
 * once. Returns 0, also if no scheduler runs; what fn returned; -ENOSYS or -EPERM if the system has no
 * membarrier(2) or forbids it.
 */
int cp_g_each(cp_g_each_fn *fn, void *context, struct cp_error *err);

/* ---- Parking --------------------------------------------------------------------------------- */

/* Returns the calling G, if it is one of the scheduler's; NULL elsewhere. Valid until the G ends. */
struct cp_g *cp_sched_self(void);

/*
 * Wait for a permit, and give one. Each G has one permit, which is absent at first.
 *
 * cp_park() (G) takes the permit if it is present, and otherwise waits until cp_ready() is called.
 *
 * cp_ready() ends the park of a parked G. If the G is not parked, cp_ready() makes the permit present, so
 * that the G's next cp_park() returns at once. A wake-up is never lost. But two wake-ups before a park count
 * as one, and a wake-up that was meant for an earlier park may end a later one: so park in a loop that checks
 * the condition. Sleeping, and waiting for a descriptor, a channel or a group, neither take the permit nor
 * end by it. What was written before cp_ready() is visible after the cp_park() that the call ends.
 */
int cp_park(void);
void cp_ready(struct cp_g *g);

/* ---- Waiting --------------------------------------------------------------------------------- */

/* G. Waits for at least ns nanoseconds. Returns 0. */
int cp_sleep(uint64_t ns);

/*
 * G. Waits until fd has one of events (EPOLLIN, EPOLLOUT, ... of epoll(7)), for at most timeout_ns
 * nanoseconds; a negative timeout_ns means no limit. Several Gs may wait for one fd. Returns the events that
 * came, at least one, with EPOLLERR and EPOLLHUP; -ETIMEDOUT; -EBADF; -ENOMEM or -ENOSPC if the system has no
 * room. For files that are always ready the call returns at once. An event may be gone before the read or
 * write that follows: use O_NONBLOCK. fd must not be closed while a G waits for it.
 */
int cp_wait_fd(int fd, uint32_t events, int64_t timeout_ns);

/* A counter of the work that is still to be done. */
struct cp_wait_group;
/* Returns a group whose counter is 0; NULL: no memory. */
struct cp_wait_group *cp_wait_group_new(void);
/* Adds n to the counter, before the work begins. A negative n counts as -n calls of cp_wait_group_done(). */
void cp_wait_group_add(struct cp_wait_group *group, int64_t n);
/* Subtracts one from the counter. At zero, all Gs that wait continue. */
void cp_wait_group_done(struct cp_wait_group *group);
/* G. Waits until the counter is zero. Returns 0. The first G to return may free the group if no other G
 * waits. */
int cp_wait_group_wait(struct cp_wait_group *group);
void cp_wait_group_free(struct cp_wait_group *group);

/* ---- Mutexes --------------------------------------------------------------------------------- */

/*
 * A lock that one G owns at a time, also while it waits or yields. Gs that wait for it get it in the order in
 * which they came, each from the one before it, so none waits for ever; and a G that unlocks and locks again
 * comes after those that wait. What was written before an unlock is visible after the next lock. Threads that
 * are no Gs may lock and unlock, too, but get -EAGAIN if a G would wait.
 */
struct cp_mutex;
/* Returns a mutex that nobody owns; NULL: no memory. */
struct cp_mutex *cp_mutex_new(void);
/* Makes the calling G the owner, and waits until it is; for ever, if it is the owner already. Returns 0. */
int cp_mutex_lock(struct cp_mutex *mutex);
/* Ends what cp_mutex_lock() began; another G or thread may do so for the owner. A G that has locked the mutex
 * as the last one may free it. */
void cp_mutex_unlock(struct cp_mutex *mutex);
/* Frees the mutex, which nobody owns or waits for. NULL: does nothing. */
void cp_mutex_free(struct cp_mutex *mutex);

/* ---- Channels -------------------------------------------------------------------------------- */

/*
 * A queue of elements of one size between any number of senders and receivers. With capacity 0, a sender
 * waits until a receiver has taken its element; otherwise a sender waits while the queue has capacity
 * elements. Elements arrive in the order in which they were sent, each once. Waiting senders, and waiting
 * receivers, are served in the order in which they came. What was written before a send is visible after the
 * receive of the element. Threads that are no Gs may send and receive too, but get -EAGAIN if a G would wait.
 */
struct cp_chan;

/* Returns an open, empty channel; NULL: no memory. elem_size may be 0; then the pointers to elements may be
 * NULL. */
struct cp_chan *cp_chan_new(size_t elem_size, size_t capacity);
/* Copies *elem into the channel. Returns 0; -EPIPE if the channel is closed, also while the sender waits, and
 * the element was not taken. */
int cp_chan_send(struct cp_chan *chan, const void *elem);
/* Copies the oldest element to *elem. Returns 0; -EPIPE if the channel is closed and empty. */
int cp_chan_recv(struct cp_chan *chan, void *elem);
/* Ends sending. Elements in the queue can still be received. A second close does nothing. */
void cp_chan_close(struct cp_chan *chan);
/* Frees the channel, with the elements in its queue. No G or thread may be using the channel. NULL: does
 * nothing. */
void cp_chan_free(struct cp_chan *chan);

#ifdef __cplusplus
}
#endif
#endif
