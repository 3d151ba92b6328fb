/* The queues of tasks that can run: one for each M, and a global one for what comes from elsewhere or
 * overflows. */
#include "internal.h"

/* ---- The queue of an M ----------------------------------------------------------------------- */

static struct cp_task *slot_load(const struct cp__queue *q, uint32_t i)
{
    return cp_load_relaxed(&q->slots[i % CP__QUEUE_SIZE]); /* relaxed: head or tail orders it */
}

static void slot_store(struct cp__queue *q, uint32_t i, struct cp_task *task)
{
    cp_store_relaxed(&q->slots[i % CP__QUEUE_SIZE], task); /* relaxed: the release of tail comes after it */
}

/* Moves the older half of w's full queue, and task, to the global one; false where thieves have made room. */
static bool overflow(struct cp__worker *w, uint32_t head, struct cp_task *task)
{
    const uint32_t n = CP__QUEUE_SIZE / 2;
    struct cp_task *first = NULL, **link = &first;

    if (!cp_compare_exchange(&w->queue.head, &head, head + n))
        return false;
    for (uint32_t i = 0; i < n; i++) { /* the slots stay as they are: only this thread writes them */
        *link = slot_load(&w->queue, head + i);
        link = &(*link)->next;
    }
    *link = task;
    cp__global_append(first, task, n + 1);
    cp__idle_wake(); /* an M that went to sleep meanwhile has not seen them */
    return true;
}

void cp__queue_push(struct cp__worker *w, struct cp_task *task)
{
    struct cp__queue *q = &w->queue;
    uint32_t tail = cp_load_relaxed(&q->tail); /* relaxed: its own */

    for (;;) {
        /* acquire: pairs with the compare-and-exchanges of those who take, who have read the slots before it
         */
        uint32_t head = cp_load_acquire(&q->head);

        if (tail - head < CP__QUEUE_SIZE)
            break;
        if (overflow(w, head, task))
            return;
    }
    slot_store(q, tail, task);
    cp_store_release(&q->tail, tail + 1); /* pairs with the acquire of tail in cp__queue_steal() */
}

struct cp_task *cp__queue_pop(struct cp__worker *w)
{
    struct cp__queue *q = &w->queue;
    uint32_t tail = cp_load_relaxed(&q->tail); /* relaxed: its own */
    uint32_t head = cp_load_relaxed(&q->head); /* relaxed: checked by the exchange; the slots are its own */

    while (head != tail) {
        struct cp_task *task = slot_load(q, head);

        if (cp_compare_exchange(&q->head, &head, head + 1))
            return task;
    }
    return NULL;
}

bool cp__queue_is_empty(const struct cp__worker *w)
{
    /* acquire, both: a hint; who acts on it looks again */
    uint32_t head = cp_load_acquire(&w->queue.head);

    return cp_load_acquire(&w->queue.tail) == head;
}

struct cp_task *cp__queue_steal(struct cp__worker *w, struct cp__worker *victim)
{
    struct cp__queue *from = &victim->queue;
    struct cp__queue *to = &w->queue;
    uint32_t to_tail = cp_load_relaxed(&to->tail); /* relaxed: its own */
    uint32_t head =
        cp_load_acquire(&from->head); /* pairs with the exchange of others: tail is read after it */

    for (;;) {
        /* acquire: pairs with the release in cp__queue_push(); the slots and the tasks are visible after it
         */
        uint32_t n = cp_load_acquire(&from->tail) - head;

        n -= n / 2;
        if (n == 0)
            return NULL;
        if (n <= CP__QUEUE_SIZE / 2) { /* else head has moved in between */
            for (uint32_t i = 0; i < n; i++)
                slot_store(to, to_tail + i, slot_load(from, head + i));
            if (cp_compare_exchange(&from->head, &head, head + n)) {
                cp_store_release(&to->tail, to_tail + n - 1); /* pairs as the one in cp__queue_push() */
                return slot_load(to, to_tail + n - 1);
            }
        }
        head = cp_load_acquire(&from->head); /* as above */
    }
}

/* ---- The global queue ------------------------------------------------------------------------ */

void cp__global_append(struct cp_task *first, struct cp_task *last, uint32_t n)
{
    last->next = NULL;
    cp__lock(&cp__sched.lock);
    *cp__sched.global_last = first;
    cp__sched.global_last = &last->next;
    cp_store_relaxed(&cp__sched.global_count, cp__sched.global_count + n); /* relaxed: a hint */
    cp__unlock(&cp__sched.lock);
}

/* Takes up to n, linked; under the lock. *taken is how many. */
static struct cp_task *take(uint32_t n, uint32_t *taken)
{
    struct cp_task *first = cp__sched.global_first;
    struct cp_task **link = &cp__sched.global_first;

    for (*taken = 0; *taken < n && *link != NULL; ++*taken)
        link = &(*link)->next;
    cp__sched.global_first = *link;
    if (*link == NULL)
        cp__sched.global_last = &cp__sched.global_first;
    *link = NULL;
    cp_store_relaxed(&cp__sched.global_count, cp__sched.global_count - *taken); /* relaxed: a hint */
    return first;
}

struct cp_task *cp__global_pop(void)
{
    struct cp_task *task;
    uint32_t taken;

    if (cp_load_relaxed(&cp__sched.global_count) ==
        0) /* relaxed: the last look, before sleeping, is another */
        return NULL;
    cp__lock(&cp__sched.lock);
    task = take(1, &taken);
    cp__unlock(&cp__sched.lock);
    return taken > 0 ? task : NULL;
}

struct cp_task *cp__global_grab(struct cp__worker *w)
{
    struct cp_task *first, *task, *next;
    uint32_t share, taken;

    if (cp_load_relaxed(&cp__sched.global_count) == 0) /* relaxed: as in cp__global_pop() */
        return NULL;
    cp__lock(&cp__sched.lock);
    share = cp__sched.global_count / cp__sched.worker_count + 1;
    first = take(share < CP__QUEUE_SIZE / 2 ? share : CP__QUEUE_SIZE / 2, &taken);
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
