#include "slot.h"

#include <errno.h>
#include <string.h>

#include "configure.h"
#include "cost.h"
#include "engine.h"
#include "kick.h"
#include "m.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/event/rows.h"
#include "runtime/unwind/code.h"

#define WORDS (sizeof(struct cp__slot_config) / sizeof(uint64_t))
_Static_assert(sizeof(struct cp__slot_config) % sizeof(uint64_t) == 0, "a config is copied in words");

enum state {
    FREE,
    RUNNING,
    STOPPED, /* its reader may still come */
};

static struct slot {
    /* Shared: written under the runtime lock, read by Ms; see slot.h. */
    uint64_t seq;
    uint64_t words[WORDS];
    struct cp__m *queue; /* shared by the reader and all Ms */

    /* Under the runtime lock. */
    enum state state;
    uint64_t run;              /* the config that was started last */
    double rate;               /* what it can come to in samples a second; 0: unknown */
    struct cp_slot_stats kept; /* of Ms that are gone */
} slots[CP_EV_MAX];

uint64_t cp_generation;    /* shared; written under the runtime lock */
static uint64_t last_seq;  /* under the runtime lock */
static uint64_t seq_tag;   /* set under the runtime lock before the first config is published */
static bool installed;     /* the handler; under the runtime lock */
static unsigned holds;     /* of the handler, beside slots; under the runtime lock */
static uint32_t wake_word; /* shared, atomic */

/* ---- What Ms read ---------------------------------------------------------------------------- */

uint64_t cp__slot_seq_from_handler(int slot)
{
    return cp_load_acquire(&slots[slot].seq); /* pairs with the release in publish() */
}

bool cp__slot_config_from_handler(int slot, struct cp__slot_config *config)
{
    uint64_t seq = cp__slot_seq_from_handler(slot);
    uint64_t words[WORDS];

    if (seq == 0)
        return false;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = cp_load_relaxed(&slots[slot].words[i]); /* relaxed: validated below */
    cp_fence_acquire();                                    /* pairs with the release fence in publish() */
    memcpy(config, words, sizeof *config);
    return cp_load_relaxed(&slots[slot].seq) == seq;
}

bool cp__slot_is_seq_from_handler(uint64_t seq)
{
    uint64_t tag = cp_load_relaxed(&seq_tag); /* relaxed: set before any signal of ours was possible */

    return tag != 0 && seq >> CP__SEQ_BITS == tag >> CP__SEQ_BITS;
}

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

/* ---- Publishing ------------------------------------------------------------------------------ */

/* The upper bits come from the clock, so that they are no value a program's own timers carry. */
static uint64_t new_seq(void)
{
    if (seq_tag == 0)
        cp_store_relaxed(&seq_tag, (cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) | 1) << CP__SEQ_BITS);
    return seq_tag | ++last_seq;
}

static void publish(struct slot *slot, const struct cp_slot_request *request)
{
    struct cp__slot_config config = {.seq = new_seq(), .event = request->event, .config = request->config};
    uint64_t words[WORDS];

    memcpy(words, &config, sizeof config);
    cp_fence_release(); /* pairs with the acquire fence in cp__slot_config_from_handler(): seq has been 0
                           since */
    for (size_t i = 0; i < WORDS; i++)
        cp_store_relaxed(&slot->words[i], words[i]); /* relaxed: ordered by the release below */
    slot->state = RUNNING;
    slot->run = config.seq;
    slot->rate = cp__cost_rate(request->event, &request->config);
    slot->kept = (struct cp_slot_stats){.precise_ip = request->config.precise_ip};
    cp_store_release(&slot->seq, config.seq); /* pairs with the acquire in cp__slot_seq_from_handler() */
}

/* What changed in the slots is seen by whoever sees the new number. */
static void next_generation(void)
{
    cp_store_release(&cp_generation,
                     cp_generation + 1); /* pairs with the acquires in cp_execute() and on Ms */
}

/* Where the calling thread is an M, it is one that nobody else needs to kick. */
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
        if (slots[slot].state == FREE)
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

static int check(const struct cp_slot_request *requests, size_t n, struct cp_error *err)
{
    if (n == 0 || n > CP_EV_MAX)
        return cp__error(err, -EINVAL, "%zu events were given: a start takes 1 to %d.", n, CP_EV_MAX);
    for (size_t i = 0; i < n; i++) {
        int result = cp__request_check(&requests[i], err);

        if (result < 0)
            return result;
    }
    return 0;
}

static int make_buffers(size_t n, const int *found, struct cp_error *err)
{
    uint32_t mask = 0;

    for (size_t i = 0; i < n; i++)
        mask |= 1u << found[i];
    for (struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (cp__m_make_buffers(m, mask) < 0)
            return cp__error(
                err, -ENOMEM,
                "There is no memory for the sample buffers, %zu KiB for an event and M. Free some, or sample "
                "fewer events.",
                (size_t)CP__SAMPLEBUF_WORDS * sizeof(uint64_t) / 1024);
    }
    return 0;
}

static int install_handler(struct cp_error *err)
{
    int result = 0;

    if (!installed)
        result = cp__engine.install(err);
    installed = result == 0;
    return result;
}

int cp__slots_hold_handler(struct cp_error *err)
{
    int result;

    cp__lock(&cp__runtime_lock);
    result = install_handler(err);
    holds += result == 0;
    cp__unlock(&cp__runtime_lock);
    return result;
}

void cp__slots_drop_handler(void)
{
    cp__lock(&cp__runtime_lock);
    holds--;
    cp__slots_settle();
    cp__unlock(&cp__runtime_lock);
}

/* What the running events can come to in samples a second. */
static double rate_running(void)
{
    double sum = 0;

    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (slots[slot].state == RUNNING)
            sum += slots[slot].rate;
    }
    return sum;
}

/* Everything that can fail comes before the first config is published. */
static int start(struct cp_slot_request *requests, size_t n, int *found, struct cp_error *err)
{
    int result = find_free(n, found, err);

    if (result == 0)
        result = cp__engine.probe(requests, n, err);
    if (result == 0)
        result = cp__cost_check(requests, n, rate_running(), err);
    if (result == 0)
        result = make_buffers(n, found, err);
    if (result == 0)
        result = install_handler(err);
    if (result < 0)
        return result;
    for (size_t i = 0; i < n; i++)
        publish(&slots[found[i]], &requests[i]);
    next_generation();
    return 0;
}

int cp_slots_start(const struct cp_slot_request *requests, size_t n, int *found, struct cp_error *err)
{
    struct cp_slot_request reached[CP_EV_MAX];
    int result = check(requests, n, err);

    if (result < 0)
        return result;
    memcpy(reached, requests, n * sizeof *reached);
    cp__m_prepare();
    cp__code_update();
    if (cp__cost_matters(reached, n))
        cp_sample_cost_ns(NULL); /* without it nothing is refused */
    cp__fork_delay();            /* events are opened, and closed again */
    cp__lock(&cp__runtime_lock);
    cp__ms_free_forgotten();
    result = start(reached, n, found, err);
    cp__slots_settle();
    cp__unlock(&cp__runtime_lock);
    cp__fork_allow();
    look_at_slots();
    return result;
}

/* ---- Read ------------------------------------------------------------------------------------ */

void cp__slot_queue_from_handler(struct cp__m *m, int slot)
{
    struct cp__m **queue = &slots[slot].queue;
    struct cp__m *first;

    if (cp_exchange_acq_rel(&m->queued[slot].is_in, 1u) != 0) /* pairs with the exchange in take_m() */
        return;
    first = cp_load_relaxed(queue); /* relaxed: the exchange checks it */
    do {
        cp_store_relaxed(&m->queued[slot].next, first); /* relaxed: ordered by the exchange */
    } while (!cp_compare_exchange(queue, &first, m));   /* pairs with the exchange in take_queue() */
}

static struct cp__m *take_queue(int slot)
{
    return cp_exchange_acq_rel(&slots[slot].queue, NULL); /* pairs with cp__slot_queue_from_handler() */
}

/* m may be pushed again from here on; what it has appended before it is can be read. */
static struct cp__m *take_m(struct cp__m *m, int slot)
{
    struct cp__m *next = cp_load_relaxed(&m->queued[slot].next); /* relaxed: ordered by take_queue() */

    cp_exchange_acq_rel(&m->queued[slot].is_in, 0u); /* pairs with that in cp__slot_queue_from_handler() */
    return next;
}

void cp__slots_empty_free_queues(void)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (slots[slot].state != FREE)
            continue;
        for (struct cp__m *m = take_queue(slot), *next; m != NULL; m = next) {
            next = take_m(m, slot);
            cp__m_free_if_done(m);
        }
    }
}

static int read_m(struct cp__m *m, int slot, uint64_t run, cp_sample_fn *fn, void *context)
{
    bool last; /* whether nothing can come after what is read now */
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

/* Holds all Ms of the queue until each has been read: fn may fork, and the child frees the Ms that nobody
 * holds. */
int cp_slots_read(int slot, cp_sample_fn *fn, void *context)
{
    struct cp__m *queue;
    uint64_t run;
    int n = 0;

    cp__code_look();
    look_at_slots();
    cp__lock(&cp__runtime_lock);
    run = slots[slot].run;
    if (slots[slot].state == RUNNING)
        cp__kick_pass();
    queue = take_queue(slot);
    for (struct cp__m *m = queue; m != NULL; m = m->queued[slot].next)
        m->refs++;
    cp__unlock(&cp__runtime_lock);
    for (struct cp__m *m = queue, *next; m != NULL; m = next) {
        next = take_m(m, slot);
        n += read_m(m, slot, run, fn, context);
    }
    return n;
}

void cp_slots_wait(uint32_t token, int timeout_ms)
{
    cp__os_futex_wait(&wake_word, token, timeout_ms);
}

/* ---- Stop ------------------------------------------------------------------------------------ */

void cp_slots_stop(const int *stopped, size_t n)
{
    cp__lock(&cp__runtime_lock);
    for (size_t i = 0; i < n; i++) {
        slots[stopped[i]].state = STOPPED;
        slots[stopped[i]].kept.handler_replaced = !cp__engine.is_installed();
        cp_store_release(&slots[stopped[i]].seq,
                         0); /* pairs with the acquire in cp__slot_seq_from_handler() */
    }
    next_generation();
    cp__unlock(&cp__runtime_lock);
    look_at_slots();
    cp__kick_until_settled();
    cp__lock(&cp__runtime_lock);
    cp__slots_settle();
    cp__unlock(&cp__runtime_lock);
}

/* Gives the memory of m's buffers back whose slots are free, if m cannot record anything for them: it has no
 * handle for the slot, and nobody is about to make one. Under the runtime lock, so that no slot starts. */
static void give_back(struct cp__m *m)
{
    cp_fence_seq_cst(); /* pairs with the one in cp__configure_from_handler() */
    /* acquire: pairs with the release in cp__m_unclaim_from_handler() */
    if (cp__m_is_gone(m) || cp_load_acquire(&m->claim) != CP__CLAIM_NONE)
        return;
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        /* relaxed: ordered by the acquire of the claim */
        if (slots[slot].state == FREE && (cp_load_relaxed(&m->armed) >> slot & 1) == 0)
            cp__samplebuf_give_back(&m->buffers[slot]);
    }
}

/* The lock is taken anew for each M, because the kernel takes its time. If an M still holds a handle, a later
 * release gives its memory back. */
static void give_all_back(void)
{
    for (struct cp__m *m = cp__m_next(NULL); m != NULL; m = cp__m_next(m)) {
        cp__lock(&cp__runtime_lock);
        give_back(m);
        cp__unlock(&cp__runtime_lock);
    }
}

void cp_slots_release(const int *released, size_t n)
{
    cp__lock(&cp__runtime_lock);
    for (size_t i = 0; i < n; i++) {
        cp__slot_release_stats(released[i]);
        slots[released[i]].state = FREE;
        slots[released[i]].run = 0;
        cp__m_drop_samples(released[i]);
    }
    cp__slots_settle();
    cp__unlock(&cp__runtime_lock);
    give_all_back();
}

bool cp__slots_running(void)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (slots[slot].state == RUNNING)
            return true;
    }
    return false;
}

bool cp__slots_have_handler(void)
{
    return installed;
}

uint32_t cp__slots_with_reader(void)
{
    uint32_t mask = 0;

    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (slots[slot].state != FREE)
            mask |= 1u << slot;
    }
    return mask;
}

uint64_t cp__slot_run(int slot)
{
    return slots[slot].run;
}

struct cp_slot_stats *cp__slot_kept_stats(int slot)
{
    return &slots[slot].kept;
}

/* Whether no SIGPROF of ours can reach m any more: it holds no handle, is not about to arm one from what it
 * saw in the slots before they emptied, and has no kick under way. */
static bool is_settled(const struct cp__m *m)
{
    if (cp__m_is_gone(m))
        return true;
    /* acquire: pairs with the release in cp__m_unclaim_from_handler() */
    return cp_load_acquire(&m->claim) == CP__CLAIM_NONE && !cp__kick_is_under_way(m) &&
           cp_load_relaxed(&m->armed) == 0; /* relaxed: ordered by the acquire of the claim */
}

void cp__slots_settle(void)
{
    if (!installed || holds != 0 || cp__slots_running())
        return;
    cp_fence_seq_cst(); /* pairs with the fence in cp__configure_from_handler(): the slots are empty, then
                           look */
    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (!is_settled(m))
            return;
    }
    cp__engine.restore();
    installed = false;
}

void cp__slots_forget(void)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        cp_store_release(&slots[slot].seq, 0); /* pairs with the acquire in cp__slot_seq_from_handler() */
        slots[slot].state = FREE;
        slots[slot].run = 0;
        slots[slot].queue = NULL;
    }
    holds = 0; /* the thread that measures is the parent's */
    next_generation();
    cp__engine.restore();
    installed = false;
}
