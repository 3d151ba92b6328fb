/* Starting, reading and stopping slots. */
#include <errno.h>
#include <string.h>

#include "chunk.h"
#include "configure.h"
#include "cost.h"
#include "coverage.h"
#include "disposition.h"
#include "engine.h"
#include "kick.h"
#include "m.h"
#include "prepare.h"
#include "queue.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/event/rows.h"
#include "runtime/unwind/code.h"
#include "slot.h"
#include "stats.h"

/* If the calling thread is an M, makes the M look at the slots now, so that no other thread needs to kick
 * it. */
static void look_at_slots(void)
{
    if (cp__m_current != NULL)
        cp_execute(&cp__m_current->head, cp__m_current->head.g);
}

/* ---- Start ----------------------------------------------------------------------------------- */

static int find_free(size_t n, int *found, struct cp_error *err)
{
    size_t i = 0;

    for (int slot = 0; slot < CP_EV_MAX && i < n; slot++) {
        if (cp__slot_is_free(slot))
            found[i++] = slot;
    }
    if (i == n)
        return 0;
    return cp__error(
        err, -EBUSY,
        "%zu event%s cannot start: %zu of the %d that this process can sample at once are free. Stop another "
        "session first, or wait for its end.",
        n, n == 1 ? "" : "s", i, CP_EV_MAX);
}

/* Copies the requests, and checks them. */
static int take_requests(struct cp_slot_request *to, const struct cp_slot_request *from, size_t n,
                         struct cp_error *err)
{
    int result;

    if (n == 0 || n > CP_EV_MAX)
        return cp__error(err, -EINVAL, "%zu events were given: a start takes 1 to %d.", n, CP_EV_MAX);
    result = cp__requests_take(to, from, n, err);
    for (size_t i = 0; i < n && result == 0; i++)
        result = cp__request_check(&to[i], err);
    return result;
}

/* Returns a bit for each of the n slots. */
static uint32_t bits_of(const int *slots, size_t n)
{
    uint32_t mask = 0;

    while (n-- > 0)
        mask |= 1u << slots[n];
    return mask;
}

static int make_buffers(size_t n, const int *found, struct cp_error *err)
{
    int result = cp__pool_resize(cp__slots_in_use() + (unsigned)n);
    uint32_t mask = bits_of(found, n);

    for (struct cp__m *m = cp__ms; m != NULL && result == 0; m = m->next)
        result = cp__m_make_buffers(m, mask);
    if (result < 0)
        return cp__error(err, result,
                         "There is no memory for the sample buffers: %zu KiB for each event and CPU, and a "
                         "page for each event and M. Free some, or sample fewer events.",
                         CP__POOL_BYTES / 1024);
    return 0;
}

/* Decides by which engine each event is sampled, and why. */
static int choose_engines(struct cp_slot_request *requests, size_t n, const char **why, struct cp_error *err)
{
    int result = 0;

    for (size_t i = 0; i < n && result == 0; i++)
        result = cp__engine.choose(&requests[i], &why[i], err);
    return result;
}

/* Puts the handlers in place that the events need. */
static int take_signals(const struct cp_slot_request *requests, size_t n, struct cp_error *err)
{
    int result = cp__disposition_take(err);

    for (size_t i = 0; i < n && result == 0; i++) {
        if (requests[i].config.engine == CP_ENGINE_TRAP)
            result = cp__engine.install_traps(err);
    }
    return result;
}

/* Starts the slots. Everything that may fail comes before the first config is published. */
static int start_slots(struct cp_slot_request *requests, size_t n, int *found, struct cp_error *err)
{
    const char *why[CP_EV_MAX];
    uint32_t percent;
    int result = find_free(n, found, err);

    if (result == 0)
        result = choose_engines(requests, n, why, err);
    if (result == 0)
        result = cp__engine.probe(requests, n, err);
    if (result == 0)
        result = cp__cost_check(requests, n, cp__slots_rate(), err);
    if (result == 0)
        result = make_buffers(n, found, err);
    if (result == 0)
        result = take_signals(requests, n, err);
    if (result < 0) {
        cp__pool_resize(cp__slots_in_use());
        return result;
    }
    percent = (uint32_t)(100 * cp__cost_share(requests, n, cp__slots_rate()));
    for (size_t i = 0; i < n; i++) {
        cp__slot_publish(found[i], &requests[i], cp__cost_rate(requests[i].event, &requests[i].config));
        cp__slot_kept_stats(found[i])->engine_reason = why[i];
        cp__slot_kept_stats(found[i])->cost_percent = percent;
    }
    cp__coverage_begin(bits_of(found, n));
    cp__slots_next_generation();
    return 0;
}

static double running_rate(void)
{
    double rate;

    cp__lock(&cp__runtime_lock);
    rate = cp__slots_rate();
    cp__unlock(&cp__runtime_lock);
    return rate;
}

int cp_slots_start(const struct cp_slot_request *requests, size_t n, int *found, struct cp_error *err)
{
    struct cp_slot_request reached[CP_EV_MAX];
    int result = take_requests(reached, requests, n, err);

    if (result < 0)
        return result;
    for (size_t i = 0; i < n; i++)
        cp__request_encode(&reached[i]);
    cp__prepare();
    cp__code_update();
    if (cp__cost_matters(reached, n))
        cp__cost_make_sure(reached, n, running_rate());
    cp__fork_delay(); /* because events are opened and closed again */
    cp__lock(&cp__runtime_lock);
    cp__ms_free_forgotten();
    result = start_slots(reached, n, found, err);
    cp__disposition_settle();
    cp__unlock(&cp__runtime_lock);
    cp__fork_allow();
    look_at_slots();
    return result;
}

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
    uint64_t run;
    int n = 0;

    if (!are_slots(&slot, 1))
        return -EINVAL;
    cp__code_look();
    look_at_slots();
    cp__lock(&cp__runtime_lock);
    run = cp__slot_run(slot);
    if (cp__slot_runs(slot)) {
        cp__kick_pass();
        cp__pool_fill();
    }
    queue = cp__queue_take(slot);
    for (struct cp__m *m = queue; m != NULL; m = m->queued[slot].next)
        m->refs++;
    cp__unlock(&cp__runtime_lock);
    for (struct cp__m *m = queue, *next; m != NULL; m = next) {
        next = cp__queue_next(m, slot);
        n += read_m(m, slot, run, fn, context);
    }
    return n;
}

/* ---- Stop ------------------------------------------------------------------------------------ */

/* Notes whether another handler has replaced one that the slot's samples need: traps need SIGPROF too, for
 * kicks. */
static void note_handlers(struct cp_slot_stats *stats)
{
    stats->handler_replaced =
        !cp__engine.is_installed() || (stats->engine == CP_ENGINE_TRAP && !cp__engine.are_traps_installed());
}

int cp_slots_stop(const int *stopped, size_t n)
{
    uint32_t slots;
    bool has_settled;

    if (!are_slots(stopped, n))
        return -EINVAL;
    slots = bits_of(stopped, n);
    cp__lock(&cp__runtime_lock);
    cp__coverage_end(slots);
    for (size_t i = 0; i < n; i++) {
        note_handlers(cp__slot_kept_stats(stopped[i]));
        cp__slot_stop(stopped[i]);
    }
    cp__slots_next_generation();
    cp__unlock(&cp__runtime_lock);
    look_at_slots();
    has_settled = cp__kick_until_settled(slots);
    cp__lock(&cp__runtime_lock);
    cp__slots_end_stats(slots);
    cp__disposition_settle();
    cp__unlock(&cp__runtime_lock);
    return has_settled ? 0 : -ETIMEDOUT;
}

/* Gives the memory of m's buffers for free slots back, if m cannot append to these buffers: m has no handle
 * for the slot and is not about to open one. Under the runtime lock, so that no slot starts. */
static void give_buffers_back(struct cp__m *m)
{
    cp_fence_seq_cst(); /* pairs with the one in cp__configure_from_handler() */
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
        cp__lock(&cp__runtime_lock);
        give_buffers_back(m);
        cp__unlock(&cp__runtime_lock);
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
