#include "m.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "altstack.h"
#include "configure.h"
#include "engine.h"
#include "fork.h"
#include "kick.h"
#include "moment.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/unwind/code.h"
#include "slot.h"

struct cp__lock cp__runtime_lock = CP__LOCK_INIT(CP__RANK_RUNTIME);
struct cp__m *cp__ms;
_Thread_local struct cp__m *cp__m_current;

static uint64_t next_g_id;     /* shared, atomic */
static bool has_forgotten;     /* in the child of a fork, Ms of its parent's; under the runtime lock */
static pthread_key_t exit_key; /* under the runtime lock until has_exit_key */
static uint32_t has_exit_key;  /* atomic */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- Gs -------------------------------------------------------------------------------------- */

static uint64_t new_g_id(void)
{
    return cp_fetch_add_relaxed(&next_g_id, 1u) + 1; /* relaxed: only uniqueness counts */
}

void cp_g_init(struct cp_g *g, void *stack_lo, void *stack_hi, const struct cp_g *parent)
{
    g->id = new_g_id();
    g->parent_id = parent == NULL ? 0 : parent->id;
    g->stack_lo = (uintptr_t)stack_lo;
    g->stack_hi = (uintptr_t)stack_hi;
    /* pairs with the acquire in cp__labels_of_running() */
    cp_store_release(&g->labels, parent == NULL ? NULL : cp_labels_ref(parent->labels));
}

void cp_g_fini(struct cp_g *g)
{
    struct cp_labels *labels = g->labels;

    cp_store_relaxed(&g->labels, NULL); /* relaxed: see let_finish() */
    cp_labels_unref(labels);
}

/* ---- Attach ---------------------------------------------------------------------------------- */

static void detach_at_exit(void *m)
{
    cp_m_detach(&((struct cp__m *)m)->head);
}

/* Reads files, which are cancellation points: a thread that ended here would leave half of this for the next
 * one to do again. */
static void start_once(void)
{
    int cancel_state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    cp__code_update();
    cp__fork_prepare();
    cp__fork_delay(); /* events are opened, and closed again */
    cp__engine.start();
    cp__fork_allow();
    pthread_setcancelstate(cancel_state, NULL);
}

void cp__m_prepare(void)
{
    pthread_once(&once, start_once);
}

/* A program may have used up all keys, and give one back later: then the next call finds it. */
static int make_exit_key(void)
{
    int result = 0;

    cp__lock(&cp__runtime_lock);
    if (has_exit_key == 0)
        result = -pthread_key_create(&exit_key, detach_at_exit);
    if (result == 0)
        cp_store_release(&has_exit_key, 1u); /* pairs with the acquire in detach_at_end_of() */
    cp__unlock(&cp__runtime_lock);
    return result;
}

/* Sees to it that m is detached when the calling thread ends: nobody else would notice. */
static int detach_at_end_of(struct cp__m *m, struct cp_error *err)
{
    int result = 0;

    if (cp_load_acquire(&has_exit_key) == 0) /* pairs with the release in make_exit_key() */
        result = make_exit_key();
    if (result < 0)
        return cp__error(err, result,
                         "This thread cannot become an M: its end would not be noticed, because the program "
                         "has used up its keys for thread-specific data (pthread_key_create says %s, and the "
                         "limit is %ld). Delete keys that are not needed, or attach a thread earlier.",
                         strerror(-result), sysconf(_SC_THREAD_KEYS_MAX));
    result = -pthread_setspecific(exit_key, m);
    if (result < 0)
        return cp__error(err, result, "There is no memory to notice the end of this thread: %s.",
                         strerror(-result));
    return 0;
}

/* frame_pointer: of cp_m_attach(). */
static struct cp__m *new_m(const void *frame_pointer, struct cp_error *err)
{
    struct cp__m *m = calloc(1, sizeof *m);

    if (m == NULL) {
        cp__error(err, -ENOMEM, "There is no memory for another M (%zu bytes).", sizeof *m);
        return NULL;
    }
    m->tid = cp__os_tid();
    m->cpu_clock = cp__os_thread_clock(m->tid);
    m->stack = cp__thread_stack();
    m->n_creators = cp__unwind_callers(frame_pointer, &m->stack, m->creators, CP__M_CREATORS);
    m->self = (struct cp_g){.stack_lo = m->stack.lo, .stack_hi = m->stack.hi};
    m->random = (uint64_t)m->tid * 0x9e3779b97f4a7c15u ^ cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    return m;
}

/* Makes m known to those who start and stop profiling; -ENOMEM where what runs now has no room for its
 * samples. */
static int link_m(struct cp__m *m)
{
    uint32_t running = 0;
    int result;

    cp__lock(&cp__runtime_lock);
    cp__ms_free_forgotten();
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (cp__slot_seq_from_handler(slot) != 0)
            running |= 1u << slot;
    }
    result = cp__m_make_buffers(m, running);
    if (result == 0) {
        m->next = cp__ms;
        m->place = &cp__ms;
        if (m->next != NULL)
            m->next->place = &m->next;
        cp_store_release(&cp__ms, m); /* pairs with the acquire in cp__ms_forget() */
    }
    cp__unlock(&cp__runtime_lock);
    return result;
}

static void free_m(struct cp__m *m)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++)
        cp__samplebuf_free(&m->buffers[slot]);
    cp_g_fini(&m->self);
    free(m);
}

/* Does everything that can fail, and undoes it if something fails. */
static int make_known(struct cp__m *m, struct cp_error *err)
{
    int result = detach_at_end_of(m, err);

    if (result < 0)
        return result;
    result = cp__os_altstack_make(&m->altstack, err);
    if (result == 0) {
        result = link_m(m);
        if (result == 0)
            return 0;
        cp__os_altstack_free(m->altstack);
        cp__error(err, result, "There is no memory for the sample buffers of another M (%zu bytes each).",
                  (size_t)CP__SAMPLEBUF_WORDS * sizeof(uint64_t));
    }
    pthread_setspecific(exit_key, NULL);
    return result;
}

int cp_m_attach(struct cp_m **out, struct cp_error *err)
{
    struct cp__m *m = cp__m_current;
    int result;

    if (m != NULL) {
        *out = &m->head;
        return 0;
    }
    cp__m_prepare();
    m = new_m(__builtin_frame_address(0), err);
    if (m == NULL)
        return -ENOMEM;
    result = make_known(m, err);
    if (result < 0) {
        free_m(m);
        return result;
    }
    cp_store_relaxed(&cp__m_current, m); /* relaxed: this thread and its handler only */
    cp_fence_signal();
    *out = &m->head;
    cp_execute_slow(&m->head);
    return 0;
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
    cp__kick_forget(m);
    cp_store_release(m->place, m->next); /* pairs with the acquire in cp__ms_forget() */
    if (m->next != NULL)
        m->next->place = m->place;
    free_m(m);
}

/* The slots whose readers have samples of m to come. For others what m has counted is kept now: an M that was
 * never armed, or whose samples have been read, does not stay for a reader that may not come at all. */
static uint32_t unread_slots(const struct cp__m *m)
{
    uint32_t readers = cp__slots_with_reader();
    uint32_t unread = 0;

    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if ((readers >> slot & 1) == 0)
            continue;
        if (m->stats[slot].seq == cp__slot_run(slot) && !cp__samplebuf_is_read_up(&m->buffers[slot]))
            unread |= 1u << slot;
        else
            cp__slot_keep_stats(slot, m);
    }
    return unread;
}

void cp_m_detach(struct cp_m *head)
{
    struct cp__m *m = (struct cp__m *)head;
    struct cp__moment none;
    void *altstack = m->altstack;
    uint64_t mask = cp__os_block_from_handler();

    pthread_setspecific(exit_key, NULL);
    cp_store_relaxed(&m->life, CP__M_LEAVING); /* relaxed: this thread and its handler only */
    cp__fork_delay();
    while (!cp__configure(m, mask)) {
        cp__lock(&cp__runtime_lock); /* the claim was somebody's who holds this lock */
        cp__unlock(&cp__runtime_lock);
    }
    cp__fork_allow();

    cp__lock(&cp__runtime_lock);
    cp_store_relaxed(&m->life, CP__M_GONE); /* relaxed: read under the lock. From here on nobody kicks it. */
    cp__stats_m_gone(m);
    m->undrained = unread_slots(m);
    for (uint32_t slots = m->undrained; slots != 0; slots &= slots - 1)
        cp__slot_queue_from_handler(m, __builtin_ctz(slots)); /* a reader may just have taken m off */
    cp__moment_begin_from_handler(&none, NULL, CP__SINCE_HERE);
    cp__engine.take_pending_from_handler(m, &none);
    cp_store_relaxed(&cp__m_current, NULL); /* relaxed: this thread and its handler only */
    /* release: pairs with the acquire in cp__ms_forget(): a child must not free it after this thread has */
    cp_store_release(&m->altstack, NULL);
    m->refs++;
    cp__slots_empty_free_queues(); /* m may be in some, and is not to be freed by that */
    m->refs--;
    cp__m_free_if_done(m);
    cp__slots_settle();
    cp__unlock(&cp__runtime_lock);
    cp__os_unblock_from_handler(mask);
    cp__os_altstack_free(altstack);
}

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

/* ---- Registry -------------------------------------------------------------------------------- */

int cp__m_make_buffers(struct cp__m *m, uint32_t slots)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if ((slots >> slot & 1) != 0 && cp__samplebuf_make(&m->buffers[slot]) < 0)
            return -ENOMEM;
    }
    return 0;
}

void cp__m_drop_samples(int slot)
{
    struct cp__m *next;

    cp__slots_empty_free_queues();
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

void cp_m_list(cp_m_list_fn *fn, void *context)
{
    for (struct cp__m *m = cp__m_next(NULL); m != NULL; m = cp__m_next(m)) {
        struct cp_m_info info = {.tid = m->tid, .depth = m->n_creators, .frames = m->creators};
        bool exited;

        cp__lock(&cp__runtime_lock);
        exited = cp__m_is_gone(m);
        cp__unlock(&cp__runtime_lock);
        if (!exited)
            fn(context, &info);
    }
}

/* ---- In the child of a fork ------------------------------------------------------------------ */

/* Another thread may have been changing what belongs to m's handles. */
static void let_go(struct cp__m *m)
{
    cp__engine.forget(m);
    memset(m->handles, 0, sizeof m->handles);
    cp_store_relaxed(&m->armed, 0); /* relaxed, all: this is the only thread */
    cp_store_relaxed(&m->off, 0);
    cp_store_relaxed(&m->claim, CP__CLAIM_NONE);
    cp_store_relaxed(&m->kick.taken, m->kick.sent);
    /* next stays: the thread that forks may be in a callback of cp_slots_read(), which goes on from there. */
    for (int slot = 0; slot < CP_EV_MAX; slot++)
        m->queued[slot].is_in = 0;
    m->undrained = 0;
}

/* Not in the fork handler: the program's allocator may have a lock that another thread held at the fork. */
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
        /* Not NULL if the thread was there at the fork; see cp_m_detach(). */
        cp__os_altstack_free(m->altstack);
        m->altstack = NULL;
        cp__m_free_if_done(m);
    }
}

void cp__ms_forget(void)
{
    struct cp__m *self = cp__m_current;

    cp__kick_forget(NULL);
    for (struct cp__m **place = &cp__ms; *place != NULL; place = &(*place)->next)
        (*place)->place = place; /* another thread may have been changing it: list first, then this */
    /* acquire, both: pair with the releases in link_m() and cp__m_free_if_done() */
    for (struct cp__m *m = cp_load_acquire(&cp__ms); m != NULL; m = cp_load_acquire(&m->next)) {
        let_go(m);
        if (m != self)
            cp_store_relaxed(&m->life, CP__M_GONE); /* relaxed: this is the only thread */
    }
    has_forgotten = true;
    if (self != NULL) {
        self->tid = cp__os_tid();
        self->cpu_clock = cp__os_thread_clock(self->tid);
    }
}
