#include "hooks.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/base/fork_gate.h"
#include "runtime/base/loads.h"
#include "runtime/base/os.h"
#include "runtime/g_account.h"
#include "runtime/moment.h"
#include "runtime/ticks.h"
#include "weight.h"

enum { NAPS = 2000, NAP_NS = 100000 };

struct cp__wait_running cp__wait_running = {.lock = CP__LOCK_INIT(CP__RANK_RECORDINGS)};

/* Where a hook is. */
struct place {
    struct cp__m *m;      /* NULL: the thread is no M, and has the lock */
    const struct cp_g *g; /* whose stack and labels count; NULL: the thread's own */
    uint64_t *random;
    struct cp__wait_chain *chain;
    bool is_walked;                     /* whether the chain is that of this hook */
    const struct cp__account *account;  /* the stack is that of the place where the account's G has parked; */
    const struct cp__registers *caller; /* or, if this is not NULL, the one from there */
};

/* A wait that has ended, or a time in which a G was runnable. */
struct ended {
    enum cp__wait_event event;
    uint64_t ns;
    enum cp_wait_reason reason;
    const void *object;
};

/* Returns a difference of stamps in ns, rounded, and at least 1. */
static uint64_t whole_ns(uint64_t stamps)
{
    const uint64_t ns = (cp__stamps_ns(2 * stamps) + 1) / 2;

    return ns > 0 ? ns : 1;
}

/* ---- An M's ---------------------------------------------------------------------------------- */

static __attribute__((noinline)) struct cp__wait_m *make_own(struct cp__m *m)
{
    const int old_errno = errno;
    struct cp__wait_m *own;

    cp__fork_delay(); /* because a child frees it */
    own = calloc(1, sizeof *own);
    if (own != NULL)
        own->random = (uint64_t)m->tid * 0x9e3779b97f4a7c15u ^ cp__stamp() ^ (uintptr_t)own;
    if (own != NULL && own->random == 0)
        own->random = 1;
    cp_store_release(&m->wait, own); /* pairs with the acquire in is_out() */
    cp__fork_allow();
    errno = old_errno;
    return own;
}

/* Returns false if the M is in a hook already: what happens there, as in an allocator whose locks tell of
 * waits, is the library's own doing. */
static bool begin_hook(struct cp__wait_m *own)
{
    const uint64_t runs = cp_load_relaxed(&own->runs); /* relaxed, both: the barrier orders them */

    if (runs % 2 != 0)
        return false;
    cp_store_relaxed(&own->runs, runs + 1);
    cp__os_light_barrier_from_handler();
    return true;
}

static void end_hook(struct cp__wait_m *own)
{
    /* release: pairs with the acquires in is_out() */
    cp_store_release(&own->runs, cp_load_relaxed(&own->runs) + 1);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Under the lock. Takes sums over that an M has left, or makes some; NULL: no memory. */
static struct cp__wait_sums *take_sums(struct cp__recording *recording)
{
    struct cp__wait_sums *sums = recording->sums;

    while (sums != NULL && sums->is_taken)
        sums = sums->next;
    if (sums == NULL) {
        sums = calloc(1, sizeof *sums);
        if (sums == NULL)
            return NULL;
        sums->next = recording->sums;
        cp_store_release(&recording->sums, sums); /* pairs with the acquires of those who walk the list */
    }
    sums->is_taken = true;
    return sums;
}

static __attribute__((noinline)) struct cp__wait_sums *make_sums(struct cp__wait_m *own,
                                                                 struct cp__recording *recording)
{
    const unsigned slot = recording->slot;

    cp__fork_delay(); /* a child must find the list whole */
    cp__lock(&cp__wait_running.lock);
    own->of[slot].sums = take_sums(recording);
    own->of[slot].serial = own->of[slot].sums == NULL ? 0 : recording->serial;
    cp__unlock(&cp__wait_running.lock);
    cp__fork_allow();
    return own->of[slot].sums;
}

/* Under the lock. */
static __attribute__((noinline)) struct cp__wait_sums *make_sums_outside(struct cp__recording *recording)
{
    cp__fork_delay(); /* as above */
    recording->outside = take_sums(recording);
    cp__fork_allow();
    return recording->outside;
}

static struct cp__wait_sums *sums_of(struct cp__wait_m *own, struct cp__recording *recording)
{
    if (own == NULL)
        return recording->outside != NULL ? recording->outside : make_sums_outside(recording);
    if (own->of[recording->slot].serial == recording->serial)
        return own->of[recording->slot].sums;
    return make_sums(own, recording);
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* Returns the registers from which to walk; their pc is 0 if nobody knows. */
static struct cp__registers begin_of(const struct place *place)
{
    struct cp__registers regs = {.lr = 0};

    if (place->caller != NULL)
        regs = *place->caller;
    else
        regs = (struct cp__registers){.pc = place->account->parked.pc,
                                      .sp = place->account->parked.sp,
                                      .fp = place->account->parked.fp};
    regs.pc = cp__code_address_from_handler(regs.pc);
    return regs;
}

static unsigned walk_from_place(const struct place *place, struct cp__wait_chain *chain)
{
    const struct cp__registers regs = begin_of(place);
    struct cp__stack of_g = {.slack = CP__G_SLACK}, *stacks = NULL;
    struct cp__unwind_cache *cache = NULL;

    chain->flags = CP_SAMPLE_INCOMPLETE;
    if (regs.pc == 0)
        return 0;
    if (place->m != NULL) {
        stacks = &place->m->stack;
        cache = &((struct cp__wait_m *)place->m->wait)->cache;
    }
    if (place->g != NULL && place->g != &place->m->self) {
        of_g.lo = place->g->stack_lo;
        of_g.hi = place->g->stack_hi;
        of_g.next = stacks;
        stacks = &of_g;
    }
    return cp__unwind_call(&regs, stacks, cache, chain->frames, CP_MAX_FRAMES, &chain->flags);
}

static void walk_once(struct place *place)
{
    struct cp__wait_chain *chain = place->chain;

    if (place->is_walked)
        return;
    place->is_walked = true;
    chain->loads = cp__loads_from_handler();
    chain->depth = walk_from_place(place, chain);
    chain->hash = cp__wait_hash_chain(chain);
}

static struct cp_labels *labels_at(const struct place *place)
{
    if (place->g != NULL)
        return place->g->labels;
    return place->m != NULL ? place->m->self.labels : NULL;
}

static void add_taken(struct cp__recording *recording, struct cp__wait_sums *sums,
                      const struct cp__wait_taken *taken)
{
    if (sums != NULL) {
        cp__wait_sums_add(sums, taken);
    } else {
        cp_fetch_add_relaxed(&recording->dropped, 1u); /* relaxed, both: numbers of their own */
        cp_fetch_add_relaxed(&recording->dropped_ns, taken->delay);
    }
}

void cp__wait_record_outside(struct cp__recording *recording, const struct cp__wait_taken *taken)
{
    cp__lock(&cp__wait_running.lock);
    add_taken(recording, sums_of(NULL, recording), taken);
    cp__unlock(&cp__wait_running.lock);
}

static __attribute__((noinline)) void record_ended(struct place *place, struct cp__recording *recording,
                                                   const struct ended *ended)
{
    const int old_errno = errno;
    const struct cp__wait_taken taken = {.chain = place->chain,
                                         .labels = labels_at(place),
                                         .reason = ended->reason,
                                         .object = ended->object,
                                         .parts = cp__wait_parts(ended->ns, recording->period),
                                         .delay = cp__wait_delay(ended->ns, recording->period)};

    if (__builtin_expect(cp__is_raw_child_from_handler(), 0))
        return; /* another thread of the parent may have the locks */
    walk_once(place);
    add_taken(recording, sums_of(place->m == NULL ? NULL : place->m->wait, recording), &taken);
    errno = old_errno;
}

/* Passes what has ended to the recordings of the event. */
static inline void tell_recordings(struct place *place, const struct ended *ended)
{
    /* relaxed: a recording that has just begun or ended may be seen late */
    for (uint32_t slots = cp_load_relaxed(&cp__wait_running.events[ended->event]); slots != 0;
         slots &= slots - 1) {
        /* acquire: pairs with the release in publish_recording(), recording.c */
        struct cp__recording *recording = cp_load_acquire(&cp__wait_running.recordings[__builtin_ctz(slots)]);

        if (recording != NULL && recording->event == ended->event &&
            cp__wait_is_taken(ended->ns, recording->period, cp__wait_random(place->random)))
            record_ended(place, recording, ended);
    }
}

static bool is_recorded(enum cp__wait_event event)
{
    return cp_load_relaxed(&cp__wait_running.events[event]) != 0; /* relaxed: as in tell_recordings() */
}

/* ---- For the core ---------------------------------------------------------------------------- */

/* The frames of g's stack stand still: g is about to run, or has called cp_wait_end(). */
static void entered(struct cp__m *m, struct cp_g *g, struct cp__account *account, uint64_t runnable)
{
    const bool has_waited = account->is_woken && is_recorded(CP__WAIT_EVENT_WAIT);
    const bool was_runnable = runnable > 0 && is_recorded(CP__WAIT_EVENT_RUNNABLE);
    struct cp__wait_m *own = m->wait;
    struct place place;

    if (!has_waited && !was_runnable)
        return;
    if (__builtin_expect(own == NULL, 0) && (own = make_own(m)) == NULL)
        return;
    if (!begin_hook(own))
        return;
    place = (struct place){.m = m, .g = g, .random = &own->random, .chain = &own->chain, .account = account};
    if (has_waited)
        tell_recordings(&place, &(struct ended){CP__WAIT_EVENT_WAIT, whole_ns(account->last_waited),
                                                account->reason, account->object});
    if (was_runnable)
        tell_recordings(&place, &(struct ended){CP__WAIT_EVENT_RUNNABLE, whole_ns(runnable),
                                                account->is_woken ? account->reason : CP_WAIT_OTHER, NULL});
    end_hook(own);
}

static void woken_on_m(struct cp__m *m, const struct ended *ended, const struct cp__registers *caller)
{
    struct cp__wait_m *own = m->wait;
    struct place place;

    if (__builtin_expect(own == NULL, 0) && (own = make_own(m)) == NULL)
        return;
    if (!begin_hook(own))
        return;
    place = (struct place){
        .m = m, .g = m->head.g, .random = &own->random, .chain = &own->chain, .caller = caller};
    tell_recordings(&place, ended);
    end_hook(own);
}

static void woken_outside(const struct ended *ended, const struct cp__registers *caller)
{
    static struct cp__wait_chain chain; /* under the lock, both */
    static uint64_t random = 0x853c49e6748fea9bu;
    struct place place = {.random = &random, .chain = &chain, .caller = caller};

    cp__lock(&cp__wait_running.lock);
    tell_recordings(&place, ended);
    cp__unlock(&cp__wait_running.lock);
}

/* Clocks and descriptors end waits by themselves: whoever has looked at them has not made anybody wait. */
static void woken(struct cp_g *g, struct cp__account *account, uint64_t stamp,
                  const struct cp__registers *caller)
{
    struct ended ended;

    (void)g;
    (void)stamp;
    if (!is_recorded(CP__WAIT_EVENT_LOCK) || account->reason == CP_WAIT_SLEEP ||
        account->reason == CP_WAIT_DESCRIPTOR)
        return;
    ended =
        (struct ended){CP__WAIT_EVENT_LOCK, whole_ns(account->last_waited), account->reason, account->object};
    if (cp__m_current != NULL)
        woken_on_m(cp__m_current, &ended, caller);
    else if (!cp__is_raw_child_from_handler())
        woken_outside(&ended, caller);
}

static void made_wait(struct cp__m *m, enum cp_wait_reason reason, const void *object, uint64_t lasted,
                      const struct cp__registers *caller)
{
    if (is_recorded(CP__WAIT_EVENT_LOCK))
        woken_on_m(m, &(struct ended){CP__WAIT_EVENT_LOCK, whole_ns(lasted), reason, object}, caller);
}

/* ---- The end of Ms --------------------------------------------------------------------------- */

static bool has_sums(const struct cp__wait_m *own)
{
    for (unsigned slot = 0; slot < CP__RECORDINGS; slot++) {
        if (own->of[slot].serial != 0)
            return true;
    }
    return false;
}

/* Leaves the sums of recordings that run to other Ms. Those of recordings that have ended may be freed. */
static void detach_hooks(struct cp__m *m)
{
    struct cp__wait_m *own = m->wait;

    if (!has_sums(own))
        return;
    cp__fork_delay(); /* a child must not find sums that are taken by nobody */
    cp__lock(&cp__wait_running.lock);
    for (unsigned slot = 0; slot < CP__RECORDINGS; slot++) {
        const struct cp__recording *recording = cp__wait_running.recordings[slot];

        if (recording != NULL && own->of[slot].serial == recording->serial)
            own->of[slot].sums->is_taken = false;
        own->of[slot].serial = 0;
    }
    cp__unlock(&cp__wait_running.lock);
    cp__fork_allow();
}

static void free_hooks(struct cp__m *m)
{
    detach_hooks(m);
    free(m->wait);
    m->wait = NULL;
}

/* ---- Out of the hooks ------------------------------------------------------------------------ */

/* Waits until the M has left the hook in which it is. */
static bool is_out(struct cp__m *m, unsigned *naps)
{
    struct cp__wait_m *own = cp_load_acquire(&m->wait); /* pairs with the release in make_own() */
    uint64_t runs;

    if (own == NULL || m == cp__m_current)
        return true;
    runs = cp_load_acquire(&own->runs); /* acquire, both: pairs with the release in end_hook() */
    while (runs % 2 != 0 && cp_load_acquire(&own->runs) == runs && !cp__m_is_gone(m)) {
        if (*naps == 0)
            return false;
        --*naps;
        nanosleep(&(const struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    return true;
}

/* A nap is a cancellation point, and a thread that ended in one would keep its hold of an M. */
bool cp__wait_hooks_are_out(void)
{
    unsigned naps = NAPS;
    bool are_out = cp__os_heavy_barrier();
    int cancel_state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    for (struct cp__m *m = cp__m_next(NULL); m != NULL; m = cp__m_next(m))
        are_out = is_out(m, &naps) && are_out;
    pthread_setcancelstate(cancel_state, NULL);
    return are_out;
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static void forget_recordings(void)
{
    cp__lock_reset(&cp__wait_running.lock);
    for (unsigned event = 0; event < CP__WAIT_EVENTS; event++)
        cp_store_relaxed(&cp__wait_running.events[event], 0u); /* relaxed, all: this is the only thread */
    for (unsigned slot = 0; slot < CP__RECORDINGS; slot++)
        cp_store_relaxed(&cp__wait_running.recordings[slot], NULL);
    cp__wait_running.process++;
    cp__accounting_set(CP__ACCOUNTING_EVENTS, false);
    cp__accounting_set(CP__ACCOUNTING_WALL, false);
}

const struct cp__wait_calls cp__wait_hooks = {.woken = woken,
                                              .entered = entered,
                                              .made_wait = made_wait,
                                              .detach = detach_hooks,
                                              .free_m = free_hooks,
                                              .after_fork_in_child = forget_recordings};
