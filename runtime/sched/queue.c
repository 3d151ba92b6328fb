/* The queues of tasks that can run: one for each M, and a global one for tasks that come from elsewhere or
 * overflow. */
#include "internal.h"

/* ---- The queue of an M ----------------------------------------------------------------------- */

static struct cp__task *slot_load(const struct cp__queue *q, uint32_t i)
{
    /* relaxed: the accesses to head and tail order the load */
    return cp_load_relaxed(&q->slots[i % CP__QUEUE_SIZE]);
}

static void slot_store(struct cp__queue *q, uint32_t i, struct cp__task *task)
{
    cp_store_relaxed(&q->slots[i % CP__QUEUE_SIZE], task); /* relaxed: the release store of tail follows */
}

/* Moves the older half of w's full queue, and task, to the global queue. Returns false if thieves have made
 * room meanwhile. */
static bool overflow(struct cp__worker *w, uint32_t head, struct cp__task *task)
{
    const uint32_t n = CP__QUEUE_SIZE / 2;
    struct cp__task *first = NULL, **link = &first;

    if (!cp_compare_exchange(&w->queue.head, &head, head + n))
        return false;
    for (uint32_t i = 0; i < n; i++) { /* the slots do not change: only this thread writes them */
        *link = slot_load(&w->queue, head + i);
        link = &(*link)->next;
    }
    *link = task;
    cp__global_append(first, task, n + 1);
    cp__idle_wake(); /* an M that went to sleep meanwhile has not seen the tasks */
    return true;
}

void cp__queue_push(struct cp__worker *w, struct cp__task *task)
{
    struct cp__queue *q = &w->queue;
    uint32_t tail = cp_load_relaxed(&q->tail); /* relaxed: only this thread writes tail */

    for (;;) {
        /* acquire: pairs with the compare-and-exchanges of those who take tasks. They have read the slots
         * before. */
        uint32_t head = cp_load_acquire(&q->head);

        if (tail - head < CP__QUEUE_SIZE)
            break;
        if (overflow(w, head, task))
            return;
    }
    slot_store(q, tail, task);
    cp_store_release(&q->tail, tail + 1); /* pairs with the acquire of tail in cp__queue_steal() */
}

struct cp__task *cp__queue_pop(struct cp__worker *w)
{
    struct cp__queue *q = &w->queue;
    uint32_t tail = cp_load_relaxed(&q->tail); /* relaxed: only this thread writes tail */
    /* relaxed: the exchange checks head, and only this thread writes the slots */
    uint32_t head = cp_load_relaxed(&q->head);

    while (head != tail) {
        struct cp__task *task = slot_load(q, head);

        if (cp_compare_exchange(&q->head, &head, head + 1))
            return task;
    }
    return NULL;
}

bool cp__queue_is_empty(const struct cp__worker *w)
{
    /* acquire, both: a hint; a caller that acts on the result looks again */
    uint32_t head = cp_load_acquire(&w->queue.head);

    return cp_load_acquire(&w->queue.tail) == head;
}

struct cp__task *cp__queue_steal(struct cp__worker *w, struct cp__worker *victim)
{
    struct cp__queue *from = &victim->queue;
    struct cp__queue *to = &w->queue;
    uint32_t to_tail = cp_load_relaxed(&to->tail); /* relaxed: only this thread writes tail */
    uint32_t head =
        cp_load_acquire(&from->head); /* pairs with the exchanges of others; tail is loaded after head */

    for (;;) {
        /* acquire: pairs with the release in cp__queue_push(). The slots and the tasks are visible after this
         * load. */
        uint32_t n = cp_load_acquire(&from->tail) - head;

        n -= n / 2;
        if (n == 0)
            return NULL;
        if (n <= CP__QUEUE_SIZE / 2) { /* else head has moved between the two loads */
            for (uint32_t i = 0; i < n; i++)
                slot_store(to, to_tail + i, slot_load(from, head + i));
            if (cp_compare_exchange(&from->head, &head, head + n)) {
                /* pairs with the same load as the release in cp__queue_push() */
                cp_store_release(&to->tail, to_tail + n - 1);
                return slot_load(to, to_tail + n - 1);
            }
        }
        head = cp_load_acquire(&from->head); /* as above */
    }
}

/* ---- The global queue ------------------------------------------------------------------------ */

void cp__global_append(struct cp__task *first, struct cp__task *last, uint32_t n)
{
    last->next = NULL;
    cp__lock(&cp__sched.lock);
    *cp__sched.global_last = first;
    cp__sched.global_last = &last->next;
    cp_store_relaxed(&cp__sched.global_count, cp__sched.global_count + n); /* relaxed: a hint */
    cp__unlock(&cp__sched.lock);
}

/* Takes up to n tasks, linked; *taken is their number. Under the lock. */
static struct cp__task *take_tasks(uint32_t n, uint32_t *taken)
{
    struct cp__task *first = cp__sched.global_first;
    struct cp__task **link = &cp__sched.global_first;

    for (*taken = 0; *taken < n && *link != NULL; ++*taken)
        link = &(*link)->next;
    cp__sched.global_first = *link;
    if (*link == NULL)
        cp__sched.global_last = &cp__sched.global_first;
    *link = NULL;
    cp_store_relaxed(&cp__sched.global_count, cp__sched.global_count - *taken); /* relaxed: a hint */
    return first;
}

struct cp__task *cp__global_pop(void)
{
    struct cp__task *task;
    uint32_t taken;

    if (cp_load_relaxed(&cp__sched.global_count) ==
        0) /* relaxed: the last look before an M sleeps is another one */
        return NULL;
    cp__lock(&cp__sched.lock);
    task = take_tasks(1, &taken);
    cp__unlock(&cp__sched.lock);
    return taken > 0 ? task : NULL;
}

struct cp__task *cp__global_grab(struct cp__worker *w)
{
    struct cp__task *first, *task, *next;
    uint32_t share, taken;

    if (cp_load_relaxed(&cp__sched.global_count) == 0) /* relaxed: as in cp__global_pop() */
        return NULL;
    cp__lock(&cp__sched.lock);
    share = cp__sched.global_count / cp__sched.worker_count + 1;
    first = take_tasks(share < CP__QUEUE_SIZE / 2 ? share : CP__QUEUE_SIZE / 2, &taken);
    cp__unlock(&cp__sched.lock);
    if (taken == 0)
        return NULL;
    for (task = first->next; task != NULL; task = next) {
        next = task->next;
        cp__queue_push(w, task);
    }
    if (taken > 1)
        cp__idle_wake(); /* as in overflow() */
    return first;
}
