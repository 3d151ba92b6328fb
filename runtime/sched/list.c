/*
 * Looking at all Gs while they run.
 *
 * The slabs are the registry of Gs: every task is in a slab, and no slab is unmapped while the scheduler
 * runs. So a G is found as long as its task's id is not 0, and no G has to register or unregister.
 *
 * A G's stack can be read while no M runs on it. To keep Ms away from the stack would cost an exchange, or a
 * barrier, at each switch; so this file pays the whole cost instead. It marks the tasks of a slab
 * (`watched`), then makes every running thread of the process pass a barrier, then reads `running`. An M
 * stores `running` before it loads `watched`. If the M's store came before the barrier, this file sees the
 * store; if not, the M's load comes after the barrier and sees the mark. An M that sees the mark puts the
 * task back into the global queue and takes another task.
 *
 * A running G continues, and may end, and its task may become another G. So this file reads what it reports
 * of a running G between two loads of the id, and ids are never used again.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "runtime/base/clock.h"
#include "runtime/base/fail.h"
#include "runtime/base/os.h"

struct cp__lock cp__list_lock = CP__LOCK_INIT(CP__RANK_SCHED_LIST);

uint64_t cp__coarse_ns(void)
{
    return (uint64_t)cp__clock_ns(CLOCK_MONOTONIC_COARSE);
}

/* Marks the tasks of a slab that are Gs. Returns false if there are none. */
static bool mark_slab(struct cp__slab *slab)
{
    bool any = false;

    for (unsigned i = 0; i < CP__SLAB_TASKS; i++) {
        /* acquire: pairs with the release in publish_task(), sched.c */
        if (cp_load_acquire(&slab->tasks[i].id) != 0) {
            cp_store_relaxed(&slab->tasks[i].watched, 1u); /* relaxed: the barrier comes after the store */
            any = true;
        }
    }
    return any;
}

static void unmark(struct cp__task *task)
{
    cp_store_release(&task->watched, 0u); /* pairs with the acquires in claim_task(), sched.c */
}

/* Fills in what a suspended G waits for, and for how long. */
static void describe_wait(const struct cp__task *task, struct cp_g_info *g)
{
    const uint32_t awaits = (uint32_t)(CP__WAKE_PERMIT | CP__WAKE_EVENT) << CP__AWAITS;
    uint64_t now, since;

    g->state = "runnable";
    /* acquire: pairs with the exchange in suspend(), sched.c */
    if ((cp_load_acquire(&task->state) & awaits) == 0)
        return;
    now = cp__coarse_ns();
    since = cp_load_relaxed(&task->waits_since); /* relaxed, all loads: the G does not run */
    g->reason = (enum cp_wait_reason)cp_load_relaxed(&task->waits_for);
    g->object = cp_load_relaxed(&task->waits_on);
    g->state = cp_wait_reason_name(g->reason);
    g->waited_ns = now > since ? now - since : 0;
}

/* Fills in what can be told of any G. Returns false if the G has ended. */
static bool describe_task(const struct cp__task *task, uint64_t id, struct cp_g_info *g)
{
    /* relaxed, all loads: id is read before and after them */
    *g = (struct cp_g_info){.size = sizeof *g,
                            .id = id,
                            .parent_id = cp_load_relaxed(&task->parent_id),
                            .created_at = cp_load_relaxed(&task->created_at),
                            .entry = cp_load_relaxed(&task->entry),
                            .stack_lo = (uintptr_t)task->stack_lo,
                            .stack_hi = (uintptr_t)task->stack_hi};
    cp_fence_acquire(); /* pairs with the fence in publish_task(), sched.c */
    return cp_load_relaxed(&task->id) == id;
}

/* Fills in the G's times. If it runs it may end meanwhile: then they are not shown. */
static void describe_account(const struct cp__task *task, struct cp_g_info *g)
{
    struct cp_account account = {.size = sizeof account};

    if (cp_g_stats(&task->g, &account) < 0)
        return;
    g->running_ns = account.running_ns;
    g->runnable_ns = account.runnable_ns;
    g->waiting_ns = account.waiting_ns;
    g->switches = account.switches;
}

static int show_running(struct cp__task *task, struct cp_g_info *g, cp_g_each_fn *fn, void *context)
{
    int result = 0;

    g->state = "running";
    describe_account(task, g);
    g->labels = cp_g_labels(&task->g);
    if (cp_load_acquire(&task->id) == g->id) /* acquire: as in describe_task(), for the labels */
        result = fn(context, g);
    cp_labels_unref(g->labels);
    return result;
}

static int show_suspended(const struct cp__task *task, struct cp_g_info *g, cp_g_each_fn *fn, void *context)
{
    ucontext_t registers;

    memset(&registers, 0, sizeof registers);
    cp__context_save(&task->context, &registers);
    g->context = &registers;
    g->labels = task->g.labels;
    describe_wait(task, g);
    describe_account(task, g);
    return fn(context, g);
}

/* Reports a marked task, after the barrier. */
static int show_task(struct cp__task *task, cp_g_each_fn *fn, void *context)
{
    struct cp_g_info g;
    /* acquire, both: pairs with the releases in run_task() and cp__task_entry(), sched.c. If the G does not
     * run, everything is visible that the G did while it ran, also its end. */
    uint32_t tid = cp_load_acquire(&task->running);
    uint64_t id = cp_load_acquire(&task->id);

    if (id == 0 || !describe_task(task, id, &g))
        return 0;
    g.tid = tid;
    return tid != 0 ? show_running(task, &g, fn, context) : show_suspended(task, &g, fn, context);
}

/* Reports the marked tasks of a slab, and removes all marks. */
static int show_slab(struct cp__slab *slab, cp_g_each_fn *fn, void *context, int result)
{
    for (unsigned i = 0; i < CP__SLAB_TASKS; i++) {
        struct cp__task *task = &slab->tasks[i];

        if (cp_load_relaxed(&task->watched) == 0) /* relaxed: this thread has written the mark */
            continue;
        if (result == 0)
            result = show_task(task, fn, context);
        unmark(task);
    }
    return result;
}

static int show_all(cp_g_each_fn *fn, void *context)
{
    int result = 0;

    for (struct cp__slab *slab = cp__slabs(); slab != NULL && result == 0; slab = slab->next)
        if (mark_slab(slab))
            result = show_slab(slab, fn, context, cp__os_barrier());
    return result;
}

int cp_g_each(cp_g_each_fn *fn, void *context, struct cp_error *err)
{
    int result = cp__os_barrier();

    if (result < 0)
        return cp__error(
            err, result,
            "Gs cannot be listed: the system refuses membarrier (%s), without which their stacks cannot be "
            "read safely. The call needs Linux 4.14, and a container that allows the call.",
            strerror(-result));
    cp__lock(&cp__list_lock);
    result = show_all(fn, context);
    cp__unlock(&cp__list_lock);
    return result;
}
