/* Reading and stopping slots. engine/start.c starts them. */
#include <errno.h>

#include "chunk.h"
#include "coverage.h"
#include "disposition.h"
#include "m.h"
#include "outside.h"
#include "pass.h"
#include "queue.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/unwind/code.h"
#include "slot.h"
#include "stats.h"

/* ---- Read ------------------------------------------------------------------------------------ */

/* Passes the samples of m's buffer to fn, and releases the reference to m. If no more samples can come from
 * m, keeps m's statistics and lets m be freed. */
static int read_m(struct cp__m *m, int slot, uint64_t run, cp_sample_fn *fn, void *context)
{
    bool last; /* whether no sample can come after those that are read now */
    int n;

    cp__lock(&cp__runtime_lock);
    last = cp__m_is_gone(m) && (m->undrained >> slot & 1) != 0;
    cp__unlock(&cp__runtime_lock);
    n = cp__samplebuf_read(&m->buffers[slot], run, fn, context);
    cp__lock(&cp__runtime_lock);
    if (last) {
        cp__slot_keep_stats(slot, m);
        m->undrained &= ~(1u << slot);
    }
    m->refs--;
    cp__m_free_if_done(m);
    cp__unlock(&cp__runtime_lock);
    return n;
}

/* Returns whether all n numbers are numbers of slots. */
static bool are_slots(const int *slots, size_t n)
{
    while (n > 0 && slots[n - 1] >= 0 && slots[n - 1] < CP_EV_MAX)
        n--;
    return n == 0;
}

/* All Ms of the queue have a reference until each has been read, because fn may fork, and the child frees the
 * Ms without a reference. */
int cp_slots_read(int slot, cp_sample_fn *fn, void *context)
{
    struct cp__m *queue;
    uint64_t run, mask;
    int n = 0;

    if (!are_slots(&slot, 1))
        return -EINVAL;
    cp__code_look();
    cp__outside_look_at_slots();
    mask = cp__os_block_from_handler(); /* see cp__configure_outside() */
    cp__lock(&cp__runtime_lock);
    run = cp__slot_run(slot);
    if (cp__slot_runs(slot)) {
        cp__disposition_look();
        cp__pass();
        cp__pool_fill();
    }
    queue = cp__queue_take(slot);
    for (struct cp__m *m = queue; m != NULL; m = m->queued[slot].next)
        m->refs++;
    cp__unlock(&cp__runtime_lock);
    cp__os_unblock_from_handler(mask);
    for (struct cp__m *m = queue, *next; m != NULL; m = next) {
        next = cp__queue_next(m, slot);
        n += read_m(m, slot, run, fn, context);
    }
    return n;
}

/* ---- Stop ------------------------------------------------------------------------------------ */

int cp_slots_stop(const int *stopped, size_t n)
{
    uint32_t slots;
    bool has_settled;

    if (!are_slots(stopped, n))
        return -EINVAL;
    slots = cp__slots_mask(stopped, n);
    cp__lock(&cp__runtime_lock);
    cp__coverage_end(slots);
    cp__disposition_look();
    for (size_t i = 0; i < n; i++)
        cp__slot_stop(stopped[i]);
    cp__slots_next_generation();
    cp__unlock(&cp__runtime_lock);
    cp__outside_look_at_slots();
    has_settled = cp__outside_settle(slots, cp__settle_ms * UINT64_C(1000000));
    cp__fork_delay(); /* because files of threads are read */
    cp__lock(&cp__runtime_lock);
    cp__coverage_settle(slots);
    cp__disposition_settle();
    cp__unlock(&cp__runtime_lock);
    cp__fork_allow();
    return has_settled ? 0 : -ETIMEDOUT;
}

/* Gives the memory of m's buffers for free slots back, if m cannot append to these buffers: m has no handle
 * for the slot and is not about to open one. Under the runtime lock, so that no slot starts. */
static void give_buffers_back(struct cp__m *m)
{
    cp_fence_seq_cst(); /* pairs with the one in change_from_handler(), configure.c */
    /* acquire: pairs with the release in cp__m_unclaim_from_handler() */
    if (cp__m_is_gone(m) || cp_load_acquire(&m->claim) != CP__CLAIM_NONE)
        return;
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        /* relaxed: ordered by the acquire of the claim */
        if (cp__slot_is_free(slot) && (cp_load_relaxed(&m->armed) >> slot & 1) == 0)
            cp__samplebuf_free(&m->buffers[slot]);
    }
}

/* Takes the lock for each M separately, because giving memory back takes the kernel long. If an M still has a
 * handle, a later release gives its memory back. */
static void give_all_buffers_back(void)
{
    for (struct cp__m *m = cp__m_next(NULL); m != NULL; m = cp__m_next(m)) {
        uint64_t mask = cp__os_block_from_handler(); /* see cp__configure_outside() */

        cp__lock(&cp__runtime_lock);
        if (m != cp__m_current && !cp__slots_running()) /* a stop that gave up may have left handles open */
            cp__outside_bring_in_line(m);
        give_buffers_back(m);
        cp__unlock(&cp__runtime_lock);
        cp__os_unblock_from_handler(mask);
    }
}

int cp_slots_release(const int *released, size_t n)
{
    if (!are_slots(released, n))
        return -EINVAL;
    cp__lock(&cp__runtime_lock);
    for (size_t i = 0; i < n; i++) {
        cp__slot_release_stats(released[i]);
        cp__slot_free(released[i]);
        cp__queues_empty_free();
        cp__m_drop_samples(released[i]);
    }
    cp__disposition_settle();
    cp__pool_resize(cp__slots_in_use());
    cp__unlock(&cp__runtime_lock);
    give_all_buffers_back();
    return 0;
}
