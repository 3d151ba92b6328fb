/* The scheduler: its Ms, the life of a G, yielding and parking. */
#include "sched.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "internal.h"
#include "runtime/base/os.h"

/*
 * Now and then an M looks at the global queue and the poller before its own queue, and now and then a
 * yielding G goes to the global queue. So Gs move between Ms that are all busy, and a G on a longer queue, or
 * on an M that gets less CPU time, does not progress less for ever. The interval varies, so that it does not
 * hit the same G each time.
 */
#define INTERVAL_MIN 8u
#define INTERVAL_SPREAD 16u

struct cp__sched cp__sched = {.lock = CP__LOCK_INIT(CP__RANK_SCHED)};

static _Thread_local struct cp__worker *self;

__attribute__((noinline)) struct cp__worker *cp__worker_self(void)
{
    __asm__ volatile(""); /* the compiler must not see that two calls often have the same result */
    return self;
}

void cp__worker_forget(void)
{
    self = NULL;
}

struct cp__task *cp__task_self(void)
{
    struct cp__worker *w = cp__worker_self();

    return w == NULL ? NULL : w->current;
}

struct cp_g *cp_sched_self(void)
{
    struct cp__task *task = cp__task_self();

    return task == NULL ? NULL : &task->g;
}

/* ---- Waiting and waking ---------------------------------------------------------------------- */

/* Takes the permit of cp_ready(). Returns false if there is none. */
static bool take_permit(struct cp__task *task)
{
    uint32_t old = cp_load_relaxed(&task->state), new; /* relaxed: the exchange checks the value */

    /* The exchange pairs with the exchange in cp__task_wake(). */
    do {
        if ((old & CP__WAKE_PERMIT) == 0)
            return false;
        new = old & ~(uint32_t)CP__WAKE_PERMIT;
    } while (!cp_compare_exchange(&task->state, &old, new));
    return true;
}

/* Makes task wait for the bit, on the M's stack. Returns false if the wake-up has come while the G was
 * leaving its stack. */
static bool suspend(struct cp__worker *w, struct cp__task *task, enum cp__wake bit)
{
    uint32_t old = cp_load_relaxed(&task->state), new; /* relaxed: the exchange checks the value */

    cp_store_relaxed(&task->waits_since, w->seen_ns); /* relaxed: the exchange follows */

    /* After the exchange, another M may run the task; the task's context was stored before. Pairs with the
     * exchange in cp__task_wake(). */
    do {
        new = (old & bit) != 0 ? old & ~(uint32_t)bit : old | (uint32_t)bit << CP__AWAITS;
    } while (!cp_compare_exchange(&task->state, &old, new));
    if ((old & bit) == 0)
        return true;
    cp_g_ready(&task->g);
    return false;
}

void cp__task_enqueue(struct cp__task *task)
{
    struct cp__worker *w = cp__worker_self();

    if (w == NULL)
        cp__global_append(task, task, 1);
    else
        cp__queue_push(w, task);
    cp__idle_wake();
}

/* ---- On a G's stack -------------------------------------------------------------------------- */

void cp__task_leave(struct cp__task *task, enum cp__after after)
{
    struct cp__worker *w = cp__worker_self();

    w->after = after;
    cp__fiber_leave(&task->fiber, &w->fiber, after == CP__AFTER_END);
    cp__context_switch(&task->context, &w->context);
    cp__fiber_arrive(&task->fiber, &cp__worker_self()->fiber);
}

/* The outermost function of every G, apart from the trampoline that calls it. */
static void cp__task_entry(void *arg)
{
    struct cp__task *task = arg;

    cp__fiber_arrive(&task->fiber, &cp__worker_self()->fiber);
    task->fn(task->arg);
    if (cp__worker_self() == NULL)
        exit(EXIT_SUCCESS); /* the child of a fork, whose thread ends here like any other thread; see run.c */
    /* From here on the task is no G, but still counts as running: pairs with the acquire in
     * show_task(), list.c. */
    cp_store_release(&task->id, 0u);
    cp__task_leave(task, CP__AFTER_END);
    abort();
}

void cp_yield(void)
{
    struct cp__task *task = cp__task_self();

    if (task == NULL)
        return;
    cp_g_yield(&task->g);
    cp__task_leave(task, CP__AFTER_YIELD);
    __asm__ volatile(""); /* as in cp__task_wait() */
}

int cp_park(void)
{
    struct cp__task *task = cp__task_self();

    if (task == NULL)
        return -ESRCH;
    if (take_permit(task))
        return 0;
    cp__task_wait(task, CP__AFTER_PARK, CP_WAIT_PARK, NULL);
    return 0;
}

void cp_ready(struct cp_g *g)
{
    struct cp__task *task = (struct cp__task *)(void *)g; /* its first member */

    if (cp__task_wake(task, CP__WAKE_PERMIT))
        cp__task_enqueue(task);
}

/* ---- Birth and death ------------------------------------------------------------------------- */

/* Makes the task visible as a G to a thread that lists Gs. */
static void publish_task(struct cp__task *task, uintptr_t created_at)
{
    /* pairs with the fence in describe_task(), list.c: a thread that sees the stores below also sees that id
     * was 0 */
    cp_fence_release();
    /* relaxed, all stores: readers load id before and after them */
    cp_store_relaxed(&task->parent_id, task->g.parent_id);
    cp_store_relaxed(&task->created_at, created_at);
    cp_store_relaxed(&task->entry, task->fn);
    cp_store_release(&task->id, task->g.id); /* pairs with the acquire loads of id in list.c */
}

/* Returns a new G; NULL: no memory. */
static struct cp__task *new_task(struct cp__worker *w, void (*fn)(void *), void *arg, uintptr_t created_at)
{
    struct cp__task *task = cp__task_alloc(w);

    if (task == NULL)
        return NULL;
    task->fn = fn;
    task->arg = arg;
    cp_store_relaxed(&task->state, 0u); /* relaxed: no other thread knows the task yet */
    cp_g_init(&task->g, task->stack_lo, task->stack_hi, cp_g_self());
    cp__fiber_init(&task->fiber, task->stack_lo, (size_t)(task->stack_hi - task->stack_lo));
    cp__context_init(&task->context, task->stack_lo, task->stack_hi, cp__task_entry, task);
    publish_task(task, created_at);
    return task;
}

/* Counts one more G. Returns false if there is no G, because the scheduler has not begun or is about to
 * end. */
static bool count_live(void)
{
    uint64_t live = cp_load_relaxed(&cp__sched.live); /* relaxed: the exchange checks the value */

    do {
        if (live == 0)
            return false;
    } while (!cp_compare_exchange(&cp__sched.live, &live, live + 1));
    return true;
}

static void uncount_live(void)
{
    /* pairs with itself: the last G to end sees what all Gs have done */
    if (cp_fetch_sub_acq_rel(&cp__sched.live, 1) == 1)
        cp__idle_stop();
}

static int start_task(void (*fn)(void *), void *arg, uintptr_t created_at)
{
    struct cp__task *task = new_task(cp__worker_self(), fn, arg, created_at);

    if (task == NULL) {
        uncount_live();
        return -ENOMEM;
    }
    cp__task_enqueue(task);
    return 0;
}

__attribute__((noinline)) int cp_go(void (*fn)(void *), void *arg)
{
    return count_live() ? start_task(fn, arg, (uintptr_t)__builtin_return_address(0)) : -ESRCH;
}

int cp__go_first(void (*fn)(void *), void *arg)
{
    cp_store_relaxed(&cp__sched.live, 1u); /* relaxed: the queue orders the store */
    return start_task(fn, arg, 0);
}

static void end_task(struct cp__worker *w, struct cp__task *task)
{
    cp__fiber_fini(&task->fiber);
    cp_g_fini(&task->g);
    cp__task_free(w, task);
    uncount_live();
}

/* ---- On an M's stack ------------------------------------------------------------------------- */

/* Returns a random interval: INTERVAL_MIN or more, less than INTERVAL_MIN + INTERVAL_SPREAD. */
static unsigned interval(struct cp__worker *w)
{
    return INTERVAL_MIN + cp__worker_random(w, INTERVAL_SPREAD);
}

/* Returns whether a yielding task goes to the global queue. With one M, it does so only while other tasks
 * wait there. */
static bool must_give(struct cp__worker *w)
{
    if (w->until_give-- > 0)
        return false;
    w->until_give = interval(w);
    return cp__sched.worker_count > 1 || cp_load_relaxed(&cp__sched.global_count) > 0; /* relaxed: a hint */
}

static void requeue(struct cp__worker *w, struct cp__task *task)
{
    if (must_give(w))
        cp__global_append(task, task, 1);
    else
        cp__queue_push(w, task);
}

/* Does what the G that has just left its stack has asked for. */
static void after_task(struct cp__worker *w, struct cp__task *task)
{
    switch (w->after) {
    case CP__AFTER_YIELD:
        requeue(w, task);
        break;
    case CP__AFTER_PARK:
        if (!suspend(w, task, CP__WAKE_PERMIT))
            cp__queue_push(w, task);
        break;
    case CP__AFTER_WAIT:
        if (!suspend(w, task, CP__WAKE_EVENT))
            cp__queue_push(w, task);
        break;
    case CP__AFTER_END:
        end_task(w, task);
        break;
    }
}

/*
 * Announces that task is about to run. Returns false if the task must not run, because a lister looks at it
 * (see list.c). The lister stores `watched`, makes every running thread of the process pass a barrier, and
 * then loads `running`. The lister's barrier replaces a fence between the store of `running` and the second
 * load of `watched` here: at least one of the two threads sees the other's store.
 */
static bool claim_task(struct cp__worker *w, struct cp__task *task)
{
    /* acquire, both loads: pairs with the release in unmark(), list.c, which follows the lister's last look
     * at the stack */
    if (cp_load_acquire(&task->watched) != 0)
        return false;
    cp_store_relaxed(&task->running, w->tid); /* relaxed: see above */
    cp_fence_signal();
    if (__builtin_expect(cp_load_acquire(&task->watched) == 0, 1))
        return true;
    cp_store_release(&task->running, 0u); /* pairs with the same load as the release in run_task() */
    return false;
}

/* Puts a task that a lister looks at behind all others. */
static __attribute__((noinline)) void put_back(struct cp__task *task)
{
    cp__global_append(task, task, 1);
    sched_yield(); /* the task may be the only one, and the lister may need the CPU */
}

/* Runs task until the task gives the M back. The signal handler tells from the stack pointer whether it has
 * interrupted the G or the M. m->g names the G, from before the first instruction on the G's stack until
 * after the last one. */
static void run_task(struct cp__worker *w, struct cp__task *task)
{
    if (!claim_task(w, task)) {
        put_back(task);
        w->goes_on = false;
        return;
    }
    w->current = task;
    if (w->goes_on)
        cp_execute_next(w->m, &task->g);
    else
        cp_execute(w->m, &task->g);
    cp__fiber_leave(&w->fiber, &task->fiber, false);
    cp__context_switch(&w->context, &task->context);
    cp__fiber_arrive(&w->fiber, NULL);
    cp_execute(w->m, NULL);
    w->goes_on = true;
    /* pairs with the acquire in show_task(), list.c: the context is stored */
    cp_store_release(&task->running, 0u);
    w->current = NULL;
    after_task(w, task);
}

/* Makes Gs runnable whose time or descriptor has come, without waiting. Returns their number. */
static unsigned poll_in_passing(struct cp__worker *w)
{
    /* relaxed: a hint; while an M sleeps in the poller, no other M has to look */
    if (cp_load_relaxed(&cp__sched.polling) != 0 || !cp__wait_is_needed())
        return 0;
    w->goes_on = false;
    return cp__wait_poll(w, 0);
}

/* Looks at the poller and the global queue, which happens now and then before w looks at its own queue. */
static struct cp__task *look_around(struct cp__worker *w)
{
    unsigned polled = poll_in_passing(w);
    struct cp__task *task = cp__global_pop();

    w->until_look = interval(w);
    w->seen_ns = cp__coarse_ns();
    if (polled > 0)
        cp__idle_wake();
    return task;
}

/* Looks for a task without searching other Ms' queues. */
static struct cp__task *look(struct cp__worker *w)
{
    struct cp__task *task = NULL;

    if (w->until_look-- == 0)
        task = look_around(w);
    if (task == NULL)
        task = cp__queue_pop(w);
    if (task == NULL)
        task = cp__global_grab(w);
    if (task == NULL && poll_in_passing(w) > 0) {
        task = cp__queue_pop(w);
        cp__idle_wake();
    }
    return task;
}

static bool sleep_idle(struct cp__worker *w)
{
    bool goes_on = cp__idle_sleep(w);

    w->seen_ns = cp__coarse_ns();
    return goes_on;
}

/* Returns the next task; NULL: all Gs have ended. */
static struct cp__task *next_task(struct cp__worker *w)
{
    do {
        struct cp__task *task = look(w);

        if (task == NULL) {
            w->goes_on = false;
            task = cp__idle_search(w);
        }
        if (task != NULL) {
            if (w->searching)
                cp__idle_found(w);
            return task;
        }
    } while (sleep_idle(w));
    return NULL;
}

void cp__worker_run(struct cp__worker *w)
{
    struct cp__task *task;

    self = w;
    w->tid = (uint32_t)cp__os_tid();
    cp__fiber_init_thread(&w->fiber);
    while ((task = next_task(w)) != NULL)
        run_task(w, task);
    self = NULL;
}
