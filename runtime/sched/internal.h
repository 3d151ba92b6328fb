/*
 * What the scheduler's files share.
 *
 *   sched.c           the life of a G, yielding, parking; what an M does
 *   run.c             starting and stopping it all
 *   queue.c           queues of Gs that can run, and stealing from them
 *   idle.c            Ms that have nothing to run: searching, sleeping, being woken
 *   stack.c           stacks and tasks, and the cache of them
 *   list.c            looking at all Gs
 *   wait.c            sleeping, descriptors: the poller
 *   timer.c           the queue of deadlines that it uses
 *   chan.c, group.c   channels and wait groups
 *
 * A task, from cp_go() on, is in exactly one place: the queue of an M, the global queue, running on an M, or
 * waiting; who takes it out of one owns it until it is in the next. While it waits, cp__task_wake() decides
 * who that is. Whoever lists Gs looks at tasks without owning them; see list.c.
 */
#ifndef COUNTERPOINT_RUNTIME_SCHED_INTERNAL_H
#define COUNTERPOINT_RUNTIME_SCHED_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "context.h"
#include "fiber.h"
#include "runtime.h"
#include "runtime/base/lock.h"
#include "sched.h"

/* ---- Tasks ----------------------------------------------------------------------------------- */

/*
 * What can end a wait: cp_ready(), or whoever the G waits for inside the scheduler. Each is a bit in a task's
 * state: it has come already; the same bit shifted by CP__AWAITS says that the G is off its stack and waits
 * for it.
 */
enum cp__wake {
    CP__WAKE_PERMIT = 1,
    CP__WAKE_EVENT = 2,
};
#define CP__AWAITS 2

struct cp_task {
    struct cp_g g; /* for the profiler */

    /* Owned by whoever owns the task. */
    struct cp__context context;
    struct cp__fiber fiber;
    struct cp_task *next; /* in the one list that it is in */
    void (*fn)(void *);
    void *arg;

    /* Shared, atomic. */
    uint32_t state;   /* enum cp__wake bits */
    uint32_t running; /* the thread that is on its stack, or about to be; 0: none */
    uint32_t watched; /* it must not run: see list.c */
    uint64_t id;      /* the G's; 0: there is none, and what follows is nobody's */
    uint64_t parent_id;
    uintptr_t created_at;  /* what cp_go() returned to */
    void (*entry)(void *); /* fn */
    const char *waits_for;
    uint64_t waits_since; /* its M's seen_ns */

    /* Immutable. */
    char *stack_lo;
    char *stack_hi;
};

/* ---- Ms -------------------------------------------------------------------------------------- */

#define CP__QUEUE_SIZE 256u /* a power of two */

/*
 * The tasks that can run on one M, oldest first, in slots[head % size] to slots[(tail - 1) % size]; both only
 * grow and wrap around at 2^32. The owner alone puts in, at tail; the owner and thieves take out by moving
 * head with a compare-and-exchange after they have read the slots, so a slot is written again only when its
 * reader has won or lost. A thief that sleeps between the two while exactly 2^32 tasks pass is not provided
 * for.
 */
struct cp__queue {
    uint32_t head;
    uint32_t tail;
    struct cp_task *slots[CP__QUEUE_SIZE];
};

/* What becomes of a G that has just left its stack. */
enum cp__after { CP__AFTER_YIELD, CP__AFTER_PARK, CP__AFTER_WAIT, CP__AFTER_END };

/* An M of the scheduler. Gs that run on it act for it. */
struct cp__worker {
    /* Owned by the M. */
    struct cp_m *m;
    struct cp_task *current; /* NULL: the M is on its own stack */
    uint32_t tid;
    struct cp__context context;
    struct cp__fiber fiber;
    enum cp__after after;
    uint64_t seen_ns;    /* the time when it last looked elsewhere, or woke: no G pays for a clock */
    unsigned until_look; /* scheduling points until it looks elsewhere before its own queue */
    unsigned until_give; /* yields until one goes to the global queue */
    uint32_t random;
    struct cp_task *free_tasks; /* see stack.c */
    unsigned free_count;

    /* Guarded by the scheduler's lock. */
    bool searching;
    struct cp__worker *next_idle;
    /* A futex: 1 wakes the M. */
    uint32_t notified;

    /* Immutable while the scheduler runs. */
    pthread_t thread;

    /* Shared; see there. Away from the owner's fields, which are written all the time. */
    struct cp__queue queue __attribute__((aligned(64)));
};

struct cp__sched {
    struct cp__lock lock;

    /* Guarded by the lock. */
    struct cp_task *global_first; /* the global queue, oldest first */
    struct cp_task **global_last;
    struct cp__worker *idle; /* Ms that sleep on their futexes */
    /* The M that sleeps in epoll_wait, the first to be idle. It alone takes interrupts back, so it keeps the
     * place until it is out of there, also after it has been called. */
    struct cp__worker *poller;
    bool poller_is_called; /* it has been made to search */
    uint64_t poller_until; /* when it wakes by itself */
    unsigned searching;    /* Ms that look for work at others, or have been woken to do so */
    bool stopping;
    bool running;

    /* Written under the lock, read without: hints for those who would otherwise take it for nothing. */
    uint32_t global_count;
    uint32_t wake_wanted; /* some M sleeps and none searches */
    uint32_t polling;     /* poller is not NULL */

    /* Shared, atomic. */
    uint64_t live; /* Gs that have not ended */

    /* Immutable while it runs. */
    struct cp__worker *workers;
    unsigned worker_count;
};

extern struct cp__sched cp__sched;

/* The calling thread's worker; NULL where it has none. Never inlined: a G may ask again on another thread. */
struct cp__worker *cp__worker_self(void);

/* A number below n, for decisions that must not fall into step with anything. */
static inline uint32_t cp__worker_random(struct cp__worker *w, uint32_t n)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 17;
    w->random ^= w->random << 5;
    return (uint32_t)((uint64_t)w->random * n >> 32);
}

/* The M's part of it: runs Gs until all have ended. */
void cp__worker_run(struct cp__worker *w);
/* In the child of a fork: the calling thread is no M of the scheduler's. */
void cp__worker_forget(void);
/* cp_go() for the G that is there first. */
int cp__go_first(void (*fn)(void *), void *arg);

/* ---- Listing (list.c) ------------------------------------------------------------------ */

/* Held while somebody looks at tasks, and to end their memory. */
extern struct cp__lock cp__list_lock;
/* The kernel's coarse clock: to some ms. */
uint64_t cp__coarse_ns(void);

/* ---- Waiting and waking (sched.c) ------------------------------------------------------------ */

/* The calling G waits for CP__WAKE_EVENT, which must come exactly once, maybe before this call. */
void cp__task_await(const char *waits_for);
/* It has come. True where the task can run now, and the caller must put it into a queue. */
bool cp__task_wake(struct cp_task *task, enum cp__wake bit);
/* Puts a task that can run into a queue, and sees to it that some M finds it. */
void cp__task_enqueue(struct cp_task *task);
/* "running", "runnable" or what the G waits for; a snapshot. */
const char *cp__task_state_name(const struct cp_task *task);

/* ---- Queues (queue.c) ------------------------------------------------------------------ */

/* Appends to w's own queue; half of a full one goes to the global queue. */
void cp__queue_push(struct cp__worker *w, struct cp_task *task);
struct cp_task *cp__queue_pop(struct cp__worker *w);
/* Whether there is something in w's queue; a snapshot. */
bool cp__queue_is_empty(const struct cp__worker *w);
/* Takes half of what victim has into w's empty queue, and returns the last of it; NULL: nothing to take. */
struct cp_task *cp__queue_steal(struct cp__worker *w, struct cp__worker *victim);
/* Appends n tasks, linked from first to last, to the global queue. */
void cp__global_append(struct cp_task *first, struct cp_task *last, uint32_t n);
/* Takes the oldest of the global queue; NULL: none. */
struct cp_task *cp__global_pop(void);
/* Takes w's share of it: one to return, the others into w's queue. */
struct cp_task *cp__global_grab(struct cp__worker *w);

/* ---- Idle Ms (idle.c) ------------------------------------------------------------------ */

/* Looks for tasks in the queues of others. On NULL w is searching still, and cp__idle_sleep() comes next. */
struct cp_task *cp__idle_search(struct cp__worker *w);
/* An M that was searching has found one. */
void cp__idle_found(struct cp__worker *w);
/* Sleeps until there may be something to run; false: the scheduler stops. */
bool cp__idle_sleep(struct cp__worker *w);
/* Wakes an M if one sleeps and none searches. Comes after a task has been put into a queue. */
void cp__idle_wake(void);
/* Somebody must be in epoll_wait until when at the latest (UINT64_MAX: for descriptors only), if any M is
 * idle. */
void cp__idle_need_poller(uint64_t when);
/* All Gs have ended: wakes all Ms, for the last time. */
void cp__idle_stop(void);

/* ---- Stacks (stack.c) ------------------------------------------------------------------ */

/* Tasks that lie together, at the beginning of a mapping with their stacks. */
#define CP__SLAB_TASKS 64u
struct cp__slab {
    struct cp__slab *next; /* immutable, as the slab's place is while the scheduler runs */
    struct cp_task tasks[CP__SLAB_TASKS];
};

/* All slabs: the newest, which leads to the others. */
struct cp__slab *cp__slabs(void);

int cp__stacks_start(size_t stack_size, struct cp_error *err);
void cp__stacks_stop(void);
/* In the child of a fork: the stacks are the parent's, also the one that the child runs on. */
void cp__stacks_forget(void);
/* A task with a stack, from w's cache (NULL: a thread that has none); NULL: no memory. */
struct cp_task *cp__task_alloc(struct cp__worker *w);
void cp__task_free(struct cp__worker *w, struct cp_task *task);

/* ---- The poller (wait.c) --------------------------------------------------------------- */

int cp__wait_start(struct cp_error *err);
void cp__wait_stop(void);
/* In the child of a fork: what its parent waits for is not taken away. */
void cp__wait_forget(void);
/*
 * Makes Gs runnable whose time or descriptor has come, into w's queue; returns how many. Waits for the first
 * one until that time on the scheduler's clock; not at all for 0. May return before that with none.
 */
unsigned cp__wait_poll(struct cp__worker *w, uint64_t until);
/* The earliest deadline; UINT64_MAX: none. */
uint64_t cp__wait_deadline(void);
/* Whether anybody waits for a deadline or a descriptor. */
bool cp__wait_is_needed(void);
/* Makes the M return that is in cp__wait_poll(), or about to be, and may wait there. Under the scheduler's
 * lock. */
void cp__wait_interrupt(void);

/* ---- Deadlines (timer.c) --------------------------------------------------------------- */

/* Owned by the queue while it is in one. The queue is a pairing heap: a tree in which no node is before its
 * parent. */
struct cp__timer {
    uint64_t when;            /* CLOCK_MONOTONIC, ns */
    uint64_t seq;             /* equal ones in the order in which they were added */
    struct cp__timer *child;  /* the first */
    struct cp__timer *next;   /* the parent's next child */
    struct cp__timer **place; /* what points here; NULL: in no queue */
};

/* Zero is empty. The caller has a lock for it. */
struct cp__timers {
    struct cp__timer *first; /* the earliest */
    uint64_t seq;
};

void cp__timers_add(struct cp__timers *timers, struct cp__timer *timer);
void cp__timers_remove(struct cp__timers *timers, struct cp__timer *timer);

#endif
