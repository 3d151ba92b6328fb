/*
 * What the scheduler's files share.
 *
 *     sched.c           the life of a G, yielding, parking; what an M does
 *     run.c             starting and stopping the scheduler
 *     queue.c           the queues of Gs that can run, and stealing from them
 *     idle.c            Ms that have nothing to run: searching, sleeping, waking
 *     stack.c           stacks and tasks, and the cache of them
 *     list.c            looking at all Gs
 *     wait.c            sleeping, and waiting for descriptors: the poller
 *     timer.c           the queue of deadlines
 *     chan.c, group.c   channels and wait groups
 *     mutex.c           mutexes
 *
 * From cp_go() on, a task is in exactly one place: in the queue of an M, in the global queue, running on an
 * M, or waiting. A thread that takes the task out of one place owns the task until it is in the next place.
 * While the task waits, cp__task_wake() decides which thread takes it. A thread that lists Gs looks at tasks
 * without owning them: see list.c.
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
 * What can end a wait: cp_ready(), or the event inside the scheduler for which the G waits. Each is a bit in
 * a task's state. The bit says that the wake-up has come already; the same bit shifted by CP__AWAITS says
 * that the G has left its stack and waits for the wake-up.
 */
enum cp__wake {
    CP__WAKE_PERMIT = 1,
    CP__WAKE_EVENT = 2,
};
#define CP__AWAITS 2

struct cp__task {
    struct cp_g g; /* the profiler's view of the G, and what programs hold; first, see cp_ready() */

    /* The owner of the task owns these. */
    struct cp__context context;
    struct cp__fiber fiber;
    struct cp__task *next; /* the next task in the list that contains this one */
    void (*fn)(void *);
    void *arg;

    /* Shared, atomic. */
    uint32_t state;   /* a set of enum cp__wake bits */
    uint32_t running; /* the id of the thread that runs on the stack, or is about to; 0: none */
    uint32_t watched; /* 1: the task must not run, see list.c */
    uint64_t id;      /* the G's id; 0: no G, and the fields below mean nothing */
    uint64_t parent_id;
    uintptr_t created_at;  /* the return address of cp_go() */
    void (*entry)(void *); /* fn */
    uint32_t waits_for;    /* enum cp_wait_reason */
    const void *waits_on;  /* the object of the wait, as in cp_g_park() */
    uint64_t waits_since;  /* the M's seen_ns when the G began to wait */

    /* Immutable. */
    char *stack_lo;
    char *stack_hi;
};

/* ---- Ms -------------------------------------------------------------------------------------- */

#define CP__QUEUE_SIZE 256u /* a power of two */

/*
 * The tasks that can run on one M, oldest first, in slots[head % size] to slots[(tail - 1) % size]. Both
 * numbers only grow, and wrap around at 2^32. Only the owner adds tasks, at tail. The owner and thieves take
 * tasks: they read the slots, then move head with a compare-and-exchange. So a slot is written again only
 * after its reader has won or lost. A thief that sleeps between the two steps while exactly 2^32 tasks pass
 * would take wrong tasks; nothing prevents that.
 */
struct cp__queue {
    uint32_t head;
    uint32_t tail;
    struct cp__task *slots[CP__QUEUE_SIZE];
};

/* What happens to a G that has just left its stack. */
enum cp__after { CP__AFTER_YIELD, CP__AFTER_PARK, CP__AFTER_WAIT, CP__AFTER_END };

/* An M of the scheduler. A G that runs on the M uses the M's struct. */
struct cp__worker {
    /* The M owns these. */
    struct cp_m *m;
    struct cp__task *current; /* NULL: the M is on its own stack */
    uint32_t tid;
    struct cp__context context;
    struct cp__fiber fiber;
    enum cp__after after;
    /* the time when the M last looked at the poller, or woke: so no G pays for reading a clock */
    uint64_t seen_ns;
    bool goes_on;        /* since the last G left, the M has only looked for the next one */
    unsigned until_look; /* scheduling points until the M looks at the global queue before its own */
    unsigned until_give; /* yields until a G goes to the global queue */
    uint32_t random;
    struct cp__task *free_tasks; /* the M's cache of tasks, see stack.c */
    unsigned free_count;

    /* The scheduler's lock guards these. */
    bool searching;
    struct cp__worker *next_idle;
    /* A futex: 1 wakes the M. */
    uint32_t notified;

    /* Immutable while the scheduler runs. */
    pthread_t thread;

    /* Shared; see struct cp__queue. The alignment keeps the queue away from the owner's fields, which change
     * all the time. */
    struct cp__queue queue __attribute__((aligned(64)));
};

struct cp__sched {
    struct cp__lock lock;

    /* The lock guards these. */
    struct cp__task *global_first; /* the global queue, oldest first */
    struct cp__task **global_last;
    struct cp__worker *idle; /* the Ms that sleep on their futexes */
    /* The M that sleeps in epoll_wait(), which was the first to be idle. Only this M takes interrupts back,
     * so it stays the poller until it has left epoll_wait(), even after it was called. */
    struct cp__worker *poller;
    bool poller_is_called; /* the poller was called to search */
    uint64_t poller_until; /* when the poller wakes by itself */
    unsigned searching;    /* the number of Ms that search other Ms' queues, or were woken to search */
    bool stopping;
    bool running;

    /* Written under the lock and read without it: hints that save taking the lock in vain. */
    uint32_t global_count;
    uint32_t wake_wanted; /* an M sleeps and none searches */
    uint32_t polling;     /* poller is not NULL */

    /* Shared, atomic. */
    uint64_t live; /* the number of Gs that have not ended */

    /* Immutable while the scheduler runs. */
    struct cp__worker *workers;
    unsigned worker_count;
};

extern struct cp__sched cp__sched;

/* Returns the calling thread's worker; NULL if the thread has none. Never inlined: a G may call the function
 * again on another thread. */
struct cp__worker *cp__worker_self(void);

/* Returns a random number below n, for decisions that must not follow a pattern. */
static inline uint32_t cp__worker_random(struct cp__worker *w, uint32_t n)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 17;
    w->random ^= w->random << 5;
    return (uint32_t)((uint64_t)w->random * n >> 32);
}

/* Runs Gs on the calling M until all Gs have ended. */
void cp__worker_run(struct cp__worker *w);
/* In the child of a fork: the calling thread is no longer an M of the scheduler. */
void cp__worker_forget(void);
/* cp_go() for the first G. */
int cp__go_first(void (*fn)(void *), void *arg);

/* ---- Listing (list.c) ------------------------------------------------------------------ */

/* Held while a thread looks at tasks, and while the memory of tasks is unmapped. */
extern struct cp__lock cp__list_lock;
/* Returns the time of the kernel's coarse clock, which is exact to some ms. */
uint64_t cp__coarse_ns(void);

/* ---- Waiting and waking (sched.c) ------------------------------------------------------------ */

/* Returns the task of the calling G; NULL on a thread that runs no G. */
struct cp__task *cp__task_self(void);
/* Gives the M back. The call returns when the G continues, possibly on another M; it never returns if the G
 * ends. */
void cp__task_leave(struct cp__task *task, enum cp__after after);

/* What is inlined so is in no stack: those of waits, and of who ends them, begin with what the program has
 * called. */
#define CP__IN_ITS_CALLER static inline __attribute__((always_inline, artificial))

/* Gives the M back until the G is woken. Other threads see the reason after the exchange in suspend(),
 * sched.c. */
CP__IN_ITS_CALLER void cp__task_wait(struct cp__task *task, enum cp__after after, enum cp_wait_reason reason,
                                     const void *object)
{
    cp_store_relaxed(&task->waits_for, (uint32_t)reason); /* relaxed, both: see above */
    cp_store_relaxed(&task->waits_on, object);
    cp_g_park(&task->g, reason, object);
    cp__task_leave(task, after);
    __asm__ volatile(""); /* this frame stands while the G waits: no jump may replace the call */
}

/* Makes the calling G wait for CP__WAKE_EVENT, which must come exactly once and may come before this call.
 * The reason and the object are those of cp_g_park(). */
CP__IN_ITS_CALLER void cp__task_await(enum cp_wait_reason reason, const void *object)
{
    cp__task_wait(cp__task_self(), CP__AFTER_WAIT, reason, object);
}

/* Delivers a wake-up. Returns true if the task can run now; then the caller must put the task into a
 * queue. */
CP__IN_ITS_CALLER bool cp__task_wake(struct cp__task *task, enum cp__wake bit)
{
    const uint32_t awaits = (uint32_t)bit << CP__AWAITS;
    uint32_t old = cp_load_relaxed(&task->state), new; /* relaxed: the exchange checks the value */

    /* The exchange pairs with the exchanges in suspend() and take_permit(), sched.c. */
    do {
        new = (old & awaits) != 0 ? old & ~awaits : old | bit;
    } while (!cp_compare_exchange(&task->state, &old, new));
    if ((old & awaits) == 0)
        return false;
    cp_g_ready(&task->g); /* the task is the caller's now */
    return true;
}

/* Puts a task that can run into a queue, and makes sure that an M finds the task. */
void cp__task_enqueue(struct cp__task *task);

/* ---- Queues (queue.c) ------------------------------------------------------------------ */

/* Appends a task to w's own queue. If the queue is full, half of its tasks go to the global queue. */
void cp__queue_push(struct cp__worker *w, struct cp__task *task);
/* Takes the oldest task of w's own queue; returns NULL if there is none. */
struct cp__task *cp__queue_pop(struct cp__worker *w);
/* Returns whether w's queue is empty; a snapshot. */
bool cp__queue_is_empty(const struct cp__worker *w);
/* Takes half of victim's tasks into w's empty queue, and returns the last of these; NULL: there was nothing
 * to take. */
struct cp__task *cp__queue_steal(struct cp__worker *w, struct cp__worker *victim);
/* Appends n tasks, linked from first to last, to the global queue. */
void cp__global_append(struct cp__task *first, struct cp__task *last, uint32_t n);
/* Takes the oldest task of the global queue; returns NULL if there is none. */
struct cp__task *cp__global_pop(void);
/* Takes w's share of the global queue: returns one task and puts the others into w's queue. */
struct cp__task *cp__global_grab(struct cp__worker *w);

/* ---- Idle Ms (idle.c) ------------------------------------------------------------------ */

/* Looks for tasks in the queues of others. If the result is NULL, w is still searching, and the caller calls
 * cp__idle_sleep() next. */
struct cp__task *cp__idle_search(struct cp__worker *w);
/* Ends the search of an M that has found a task. */
void cp__idle_found(struct cp__worker *w);
/* Sleeps until there may be something to run. Returns false if the scheduler stops. */
bool cp__idle_sleep(struct cp__worker *w);
/* Wakes an M if an M sleeps and none searches. The caller has put a task into a queue before. */
void cp__idle_wake(void);
/* Makes sure that, if any M is idle, some M is in epoll_wait() until `when` at the latest. UINT64_MAX: for
 * descriptors only. */
void cp__idle_need_poller(uint64_t when);
/* Wakes all Ms for the last time: all Gs have ended. */
void cp__idle_stop(void);

/* ---- Stacks (stack.c) ------------------------------------------------------------------ */

/* Tasks that lie together, at the beginning of a mapping that also contains their stacks. */
#define CP__SLAB_TASKS 64u
struct cp__slab {
    struct cp__slab *next; /* immutable; a slab stays mapped while the scheduler runs */
    struct cp__task tasks[CP__SLAB_TASKS];
};

/* Returns the newest slab, which links to the others. */
struct cp__slab *cp__slabs(void);

int cp__stacks_start(size_t stack_size, struct cp_error *err);
void cp__stacks_stop(void);
/* In the child of a fork: the stacks belong to the parent, also the one on which the child runs. */
void cp__stacks_forget(void);
/* Returns a task with a stack, from w's cache; w is NULL for a thread that has no worker. NULL: no memory. */
struct cp__task *cp__task_alloc(struct cp__worker *w);
void cp__task_free(struct cp__worker *w, struct cp__task *task);

/* ---- The poller (wait.c) --------------------------------------------------------------- */

int cp__wait_start(struct cp_error *err);
void cp__wait_stop(void);
/* In the child of a fork: forgets what the parent waits for, without changing the parent's epoll set. */
void cp__wait_forget(void);
/* Makes the Gs runnable whose time or descriptor has come, puts them into w's queue, and returns their
 * number. Waits for the first of them until `until` on the scheduler's clock, or not at all if until is 0.
 * May return earlier with 0. */
unsigned cp__wait_poll(struct cp__worker *w, uint64_t until);
/* Returns the earliest deadline; UINT64_MAX: none. */
uint64_t cp__wait_deadline(void);
/* Returns whether a G waits for a deadline or a descriptor. */
bool cp__wait_is_needed(void);
/* Interrupts the M that waits in cp__wait_poll(), or is about to wait there. The caller holds the scheduler's
 * lock. */
void cp__wait_interrupt(void);

/* ---- Deadlines (timer.c) --------------------------------------------------------------- */

/* A deadline. The queue owns the timer while the timer is in the queue. The queue is a pairing heap: a tree
 * in which no node is earlier than its parent. */
struct cp__timer {
    uint64_t when; /* in ns of CLOCK_MONOTONIC */
    /* timers with equal times are sorted by this number, the order in which they were added */
    uint64_t seq;
    struct cp__timer *child;  /* the first child */
    struct cp__timer *next;   /* the parent's next child */
    struct cp__timer **place; /* the link that points to this timer; NULL: in no queue */
};

/* A queue of deadlines. All zeros means empty. The caller's lock guards the queue. */
struct cp__timers {
    struct cp__timer *first; /* the earliest timer */
    uint64_t seq;
};

void cp__timers_add(struct cp__timers *timers, struct cp__timer *timer);
void cp__timers_remove(struct cp__timers *timers, struct cp__timer *timer);

#endif
