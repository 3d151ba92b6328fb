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
 * Gs run on Ms, which are threads; a G that waits leaves its M to others, and may go on with another M.
 * Scheduling is cooperative: a G keeps its M until it waits, yields or ends. The profiler core does not know
 * of any of this; every M is attached to it, and each switch is a scheduling point (cp_execute() in
 * runtime.h).
 *
 * Where: calls marked "G" may be made by Gs only and return -ESRCH elsewhere; the others by any thread, while
 * cp_sched_run() runs. None may be made in a signal handler.
 * Threads: a G may change its M in every call marked "G". What belongs to a thread does not come along, errno
 * above all, and compilers keep its address: look at errno in a function of its own, not in the loop that
 * waits. A mutex of pthreads must not be held across such a call.
 * Forks: the child has no scheduler. The G that called fork() goes on there as a thread that is no G, and
 * when its function returns the child exits with status 0. The child may start a scheduler of its own;
 * channels, wait groups and Gs of its parent's it must not use.
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

struct cp_sched_options {
    size_t size;       /* sizeof(struct cp_sched_options) as the caller compiled it */
    unsigned threads;  /* Ms; 0: one for each CPU that this process may use */
    size_t stack_size; /* bytes of each G's stack, at least CP_SCHED_STACK_MIN; 0: CP_SCHED_STACK_SIZE */
};
#define CP_SCHED_THREADS_MAX 1024
#define CP_SCHED_STACK_MIN 16384
/* Memory is taken as a stack grows, a page at a time. Below it lies a guard: a G that needs more gets
 * SIGSEGV. */
#define CP_SCHED_STACK_SIZE 65536

/*
 * Runs fn(arg) as the first G, with the calling thread as one of the Ms, and returns when all Gs have ended,
 * not only the first one. Gs that wait for what never comes keep it from returning. One at a time in a
 * process. options may be NULL. -EBUSY one runs already; -EINVAL bad options; -EAGAIN, -ENOMEM, -EMFILE and
 * others where the system refuses a thread, memory or a descriptor; then fn has not been called.
 */
int cp_sched_run(const struct cp_sched_options *options, void (*fn)(void *), void *arg, struct cp_error *err);

/* Starts a G that runs fn(arg). It inherits the labels of the G (or attached thread) that calls.
 * -ENOMEM no stack; -ESRCH no scheduler runs. */
int cp_go(void (*fn)(void *), void *arg);

/* G. Lets the other Gs that can run do so first. Does nothing elsewhere. */
void cp_yield(void);

/* ---- Looking at all Gs ----------------------------------------------------------------------- */

/* A G, as somebody looks at it; valid during the call only. */
struct cp_sched_g {
    uint64_t id;
    uint64_t parent_id; /* the G that called cp_go(); 0: a thread did, or cp_sched_run() */
    const char *state;  /* "running", "runnable", or what it waits for: "sleep", "park", ... */
    uint64_t waited_ns; /* for at most so long: since its M last looked at the clock, which it does every
                         * 24 switches or earlier; 0 where it does not wait */
    struct cp_labels *labels; /* cp_labels_ref() keeps them longer */
    uintptr_t created_at;     /* the return address of its cp_go(); 0 for the first G */
    void (*entry)(void *);    /* what it was started with */
    uint32_t tid;             /* the thread that it runs on; 0 where it does not run */
    /* Where it goes on: the registers that a function keeps for its caller, the stack pointer, and the
     * program counter, which is a return address. NULL where it runs: its stack cannot be read. */
    const ucontext_t *context;
    uintptr_t stack_lo; /* its stack, which stays as it is during the call */
    uintptr_t stack_hi;
};

/* A negative result ends the listing. It must not wait, yield or list Gs: the G that it looks at, and up to
 * 63 others, do not run meanwhile, and Ms may spin for that. */
typedef int cp_sched_g_fn(void *context, const struct cp_sched_g *g);

/*
 * Calls fn for every G, each as it is at that moment; the program runs on. A G that is there from the
 * beginning of the call to its end comes once; one that begins or ends meanwhile at most once. 0, also where
 * no scheduler runs; what fn returned; -ENOSYS, -EPERM the system has no membarrier(2), or does not allow it.
 */
int cp_sched_each_g(cp_sched_g_fn *fn, void *context, struct cp_error *err);

/* ---- Parking --------------------------------------------------------------------------------- */

/* A G, as the scheduler sees it. Valid until it ends. */
struct cp_task;

/* The calling G; NULL elsewhere. */
struct cp_task *cp_task_self(void);

/*
 * Each G has one permit, which it does not have at first.
 * cp_park (G) takes the permit where it is there, and otherwise waits until cp_ready() comes.
 * cp_ready ends the park of a parked G; where the G is not parked it gives it the permit, so that its next
 * park returns at once. A wake-up is never lost, but two of them before a park are one, and one that was
 * meant for an earlier park may end a later one: park in a loop that looks at what is waited for. Sleeping,
 * waiting for a descriptor, a channel or a group neither takes the permit nor ends by it. What was written
 * before cp_ready() is visible after the cp_park() that it ends.
 */
int cp_park(void);
void cp_ready(struct cp_task *task);

/* ---- Waiting --------------------------------------------------------------------------------- */

/* G. Waits for at least ns nanoseconds. */
int cp_sleep(uint64_t ns);

/*
 * G. Waits until one of events (EPOLLIN, EPOLLOUT, ... of epoll(7)) can be had from fd, for at most
 * timeout_ns nanoseconds; without limit where that is negative. Several Gs may wait for one fd. Returns those
 * of the events that came, with EPOLLERR and EPOLLHUP (at least one); -ETIMEDOUT; -EBADF; -ENOMEM, -ENOSPC
 * where the system has no room. Files that are always ready return at once. An event may be gone by the time
 * of a read or write: use O_NONBLOCK. fd must not be closed while a G waits for it.
 */
int cp_wait_fd(int fd, uint32_t events, int64_t timeout_ns);

/* A counter of what is still to be done. */
struct cp_wait_group;
/* NULL: no memory. */
struct cp_wait_group *cp_wait_group_new(void);
/* Adds n to the counter, before the work begins; n < 0 as n calls of done. */
void cp_wait_group_add(struct cp_wait_group *group, int64_t n);
/* Takes one away; at zero all that wait go on. */
void cp_wait_group_done(struct cp_wait_group *group);
/* G. Waits until the counter is zero. The first to return may free the group if nobody else waits. */
int cp_wait_group_wait(struct cp_wait_group *group);
void cp_wait_group_free(struct cp_wait_group *group);

/* ---- Channels -------------------------------------------------------------------------------- */

/*
 * A queue of elements of one size between any number of senders and receivers. With capacity 0 a sender waits
 * until a receiver has taken its element; otherwise while capacity elements are in the queue. Elements arrive
 * in the order in which they were sent, each once; waiting senders, and waiting receivers, are served in the
 * order in which they came. What was written before a send is visible after the receive of its element.
 * Threads that are no Gs may send and receive too, but get -EAGAIN where a G would wait.
 */
struct cp_chan;

/* NULL: no memory. elem_size may be 0; then elements may be NULL. */
struct cp_chan *cp_chan_new(size_t elem_size, size_t capacity);
/* Copies *elem into the channel. -EPIPE: it is closed, also while waiting; the element was not taken. */
int cp_chan_send(struct cp_chan *chan, const void *elem);
/* Copies the oldest element to *elem. -EPIPE: the channel is closed and empty. */
int cp_chan_recv(struct cp_chan *chan, void *elem);
/* No more elements come; what is queued can still be received. A second close does nothing. */
void cp_chan_close(struct cp_chan *chan);
/* Nobody may be using it. What is still queued is dropped. */
void cp_chan_free(struct cp_chan *chan);

#ifdef __cplusplus
}
#endif
#endif
