#include "queue.h"

#include "runtime/base/os.h"
#include "slot.h"

static struct cp__m *queues[CP_EV_MAX]; /* shared by the readers and all Ms */
static uint32_t wake_word;              /* shared, atomic */

void cp__queue_push_from_handler(struct cp__m *m, int slot)
{
    struct cp__m **queue = &queues[slot];
    struct cp__m *first;

    if (cp_exchange_acq_rel(&m->queued[slot].is_in, 1u) !=
        0) /* pairs with the exchange in cp__queue_next() */
        return;
    first = cp_load_relaxed(queue); /* relaxed: the exchange checks it */
    do {
        cp_store_relaxed(&m->queued[slot].next, first); /* relaxed: ordered by the exchange */
    } while (!cp_compare_exchange(queue, &first, m));   /* pairs with the exchange in cp__queue_take() */
}

struct cp__m *cp__queue_take(int slot)
{
    return cp_exchange_acq_rel(&queues[slot], NULL); /* pairs with cp__queue_push_from_handler() */
}

struct cp__m *cp__queue_next(struct cp__m *m, int slot)
{
    struct cp__m *next = cp_load_relaxed(&m->queued[slot].next); /* relaxed: ordered by cp__queue_take() */

    cp_exchange_acq_rel(&m->queued[slot].is_in, 0u); /* pairs with that in cp__queue_push_from_handler() */
    return next;
}

void cp__queues_empty_free(void)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (!cp__slot_is_free(slot))
            continue;
        for (struct cp__m *m = cp__queue_take(slot), *next; m != NULL; m = next) {
            next = cp__queue_next(m, slot);
            cp__m_free_if_done(m);
        }
    }
}

void cp__queues_forget(void)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++)
        cp_store_relaxed(&queues[slot], NULL); /* relaxed: this is the only thread */
}

/* ---- Waking the readers ---------------------------------------------------------------------- */

void cp__slots_wake_from_handler(void)
{
    cp_fetch_add_acq_rel(&wake_word, 1u); /* pairs with the acquire in cp_slots_token() */
    cp__os_futex_wake_from_handler(&wake_word);
}

uint32_t cp_slots_token(void)
{
    return cp_load_acquire(&wake_word); /* pairs with the release in cp__slots_wake_from_handler() */
}

void cp_slots_wake(void)
{
    cp__slots_wake_from_handler();
}

void cp_slots_wait(uint32_t token, int timeout_ms)
{
    cp__os_futex_wait(&wake_word, token, timeout_ms);
}
