#include "m.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "altstack.h"
#include "engine.h"
#include "g_account.h"
#include "rounds.h"
#include "runtime/base/os.h"

struct cp__lock cp__runtime_lock = CP__LOCK_INIT(CP__RANK_RUNTIME);
struct cp__m *cp__ms;
struct cp__m *cp__ms_cursor, *cp__ms_sleep_cursor;
_Thread_local struct cp__m *cp__m_current;

static bool has_forgotten; /* the child of a fork has Ms of its parent's to free; under the runtime lock */

/* ---- The calling thread's -------------------------------------------------------------------- */

struct cp_m *cp_m_self(void)
{
    struct cp__m *m = cp__m_current;

    return m == NULL ? NULL : &m->head;
}

struct cp_g *cp_g_self(void)
{
    struct cp__m *m = cp__m_current;

    if (m == NULL)
        return NULL;
    return m->head.g != NULL ? m->head.g : &m->self;
}

/* The count of a clock is the time for which it ran, because the kernel's own value is wrong in two cases.
 * Beside other events, a cpuClock's value is a little too high. If the kernel throttles a clock, Linux 6.18
 * counts a taskClock's time twice, and does not count a cpuClock's time. */
uint64_t cp__m_count_from_handler(const struct cp__m_stats *stats)
{
    bool counts_time = cp_load_relaxed(&stats->counts_time) != 0; /* relaxed, both: numbers of their own */
    uint64_t sum = 0;

    for (int i = 0; i < CP__CORE_PMUS; i++)
        sum += cp_load_relaxed(counts_time ? &stats->counts[i].time_running : &stats->counts[i].value);
    return sum;
}

uint64_t cp__m_last_clock_from_handler(const struct cp__m *m, int slot)
{
    const struct cp__m_stats *stats = &m->stats[slot];
    /* relaxed, all: written with the claim */
    const uint64_t armed_at = cp_load_relaxed(&stats->armed_at);

    if (armed_at == UINT64_MAX)
        return 0;
    return armed_at + (cp_load_relaxed(&stats->by_ticks) != 0
                           ? cp_load_relaxed(&stats->counts[0].value)
                           : cp_load_relaxed(&stats->counts[0].time_enabled));
}

bool cp__m_has_slept_from_handler(const struct cp__m *m, int slot)
{
    /* relaxed: written with the claim */
    return cp_load_relaxed(&m->stats[slot].armed_at) == cp__os_clock_ns_from_handler(m->cpu_clock);
}

uint64_t cp__m_random_from_handler(struct cp__m *m)
{
    m->random ^= m->random >> 12;
    m->random ^= m->random << 25;
    m->random ^= m->random >> 27;
    return m->random * 0x2545f4914f6cdd1du;
}

/* ---- Registry -------------------------------------------------------------------------------- */

void cp__m_link(struct cp__m *m)
{
    m->settled = cp_load_relaxed(&cp_generation); /* relaxed: written under the lock */
    m->next = cp__ms;
    m->place = &cp__ms;
    if (m->next != NULL)
        m->next->place = &m->next;
    cp_store_release(&cp__ms, m); /* pairs with the acquire in cp__ms_forget() */
}

const struct cp__watch_calls *cp__watch_calls;
const struct cp__wait_calls *cp__wait_calls;

void cp__watch_calls_set(const struct cp__watch_calls *calls)
{
    cp_store_release(&cp__watch_calls, calls); /* pairs with the acquire in cp__watch_calls_get() */
}

void cp__m_free(struct cp__m *m)
{
    if (m->watch != NULL || m->self.rounds != NULL)
        cp__watch_calls_get()->free_m(&m->head);
    cp__accounts_leave(m);
    if (m->wait != NULL)
        cp__wait_calls_get()->free_m(m);
    for (int slot = 0; slot < CP_EV_MAX; slot++)
        cp__samplebuf_free(&m->buffers[slot]);
    for (int i = 0; i < CP__ENGINES; i++)
        free(m->own[i].memory);
    cp_labels_unref(m->self.labels);
    free(m);
}

static bool is_queued(const struct cp__m *m)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (cp_load_relaxed(&m->queued[slot].is_in) != 0) /* relaxed: stored by m, which is GONE */
            return true;
    }
    return false;
}

void cp__m_free_if_done(struct cp__m *m)
{
    if (!cp__m_is_gone(m) || m->undrained != 0 || m->refs != 0 || is_queued(m))
        return;
    if (cp__ms_cursor == m)
        cp__ms_cursor = m->next;
    if (cp__ms_sleep_cursor == m)
        cp__ms_sleep_cursor = m->next;
    cp_store_release(m->place, m->next); /* pairs with the acquire in cp__ms_forget() */
    if (m->next != NULL)
        m->next->place = m->place;
    cp__m_free(m);
}

int cp__m_make_buffers(struct cp__m *m, uint32_t slots)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if ((slots >> slot & 1) != 0 && cp__samplebuf_make(&m->buffers[slot]) < 0)
            return -ENOMEM;
    }
    return 0;
}

int cp__m_make_own(struct cp__m *m, const struct cp__engine *engine)
{
    const uint32_t bit = 1u << engine->index;
    void *memory;

    if ((m->engines & bit) != 0)
        return 0;
    memory = calloc(1, engine->size);
    if (memory == NULL)
        return -ENOMEM;
    m->own[engine->index].engine = engine;
    cp_store_relaxed(&m->own[engine->index].memory, memory); /* relaxed: ordered by the release below */
    /* release: pairs with the acquires in the handler, and in the child of a fork */
    cp_store_release(&m->engines, m->engines | bit);
    return 0;
}

void cp__m_drop_samples(int slot)
{
    struct cp__m *next;

    for (struct cp__m *m = cp__ms; m != NULL; m = next) {
        next = m->next;
        m->undrained &= ~(1u << slot);
        cp__m_free_if_done(m);
    }
}

struct cp__m *cp__m_next(struct cp__m *m)
{
    struct cp__m *next;

    cp__lock(&cp__runtime_lock);
    next = m == NULL ? cp__ms : m->next;
    if (next != NULL)
        next->refs++;
    if (m != NULL && --m->refs == 0)
        cp__m_free_if_done(m);
    cp__unlock(&cp__runtime_lock);
    return next;
}

/* Releases the reference of the M at which fn ended the list. */
static void end_list(struct cp__m *m)
{
    cp__lock(&cp__runtime_lock);
    if (--m->refs == 0)
        cp__m_free_if_done(m);
    cp__unlock(&cp__runtime_lock);
}

int cp_m_each(cp_m_each_fn *fn, void *context)
{
    int result = 0;

    for (struct cp__m *m = cp__m_next(NULL); m != NULL; m = cp__m_next(m)) {
        struct cp_m_info info = {
            .size = sizeof info, .tid = m->tid, .depth = m->n_creators, .frames = m->creators};
        bool exited;

        cp__lock(&cp__runtime_lock);
        exited = cp__m_is_gone(m);
        cp__unlock(&cp__runtime_lock);
        if (!exited)
            result = fn(context, &info);
        if (result != 0) {
            end_list(m);
            break;
        }
    }
    return result;
}

/* ---- In the child of a fork ------------------------------------------------------------------ */

/* Makes m forget its handles. In the parent, another thread may have been changing the handles during the
 * fork. */
static void let_go(struct cp__m *m)
{
    /* acquire: pairs with the release in cp__m_make_own() */
    for (uint32_t engines = cp_load_acquire(&m->engines); engines != 0; engines &= engines - 1) {
        const struct cp__engine *engine = m->own[__builtin_ctz(engines)].engine;

        if (engine->forget != NULL)
            engine->forget(m);
    }
    memset(m->handles, 0, sizeof m->handles);
    cp_store_relaxed(&m->armed, 0); /* relaxed, all: this is the only thread */
    cp_store_relaxed(&m->off, 0);
    cp_store_relaxed(&m->claim, CP__CLAIM_NONE);
    cp_store_relaxed(&m->late, CP__LATE_NO);
    /* next stays, because the thread that forks may be in a callback of cp_slots_read(), which continues with
     * next. */
    for (int slot = 0; slot < CP_EV_MAX; slot++)
        m->queued[slot].is_in = 0;
    m->undrained = 0;
}

/* Not in the fork handler, because the program's allocator may have a lock that another thread held at the
 * fork. */
void cp__ms_free_forgotten(void)
{
    struct cp__m *next;

    if (!has_forgotten)
        return;
    has_forgotten = false;
    for (struct cp__m *m = cp__ms; m != NULL; m = next) {
        next = m->next;
        if (!cp__m_is_gone(m))
            continue;
        /* altstack is not NULL if the thread existed at the fork; see cp_m_detach(). */
        cp__os_altstack_free(m->altstack);
        m->altstack = NULL;
        cp__m_free_if_done(m);
    }
}

void cp__ms_forget(void)
{
    struct cp__m *self = cp__m_current;

    cp__ms_cursor = cp__ms_sleep_cursor = NULL;
    for (struct cp__m **place = &cp__ms; *place != NULL; place = &(*place)->next)
        (*place)->place = place; /* another thread may have been changing place at the fork: it stores to
                                  * the list first, then to place */
    /* acquire, both: pair with the releases in cp__m_link() and cp__m_free_if_done() */
    for (struct cp__m *m = cp_load_acquire(&cp__ms); m != NULL; m = cp_load_acquire(&m->next)) {
        let_go(m);
        if (m != self)
            cp_store_relaxed(&m->life, CP__M_GONE); /* relaxed: this is the only thread */
    }
    has_forgotten = true;
    if (self != NULL) {
        self->tid = cp__os_tid();
        self->cpu_clock = cp__os_thread_clock(self->tid); /* which has just begun */
        memset(&self->heard, 0, sizeof self->heard);
        memset(&self->window, 0, sizeof self->window);
    }
}
