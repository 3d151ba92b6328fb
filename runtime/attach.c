/* How a thread becomes an M, and how it stops being one. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "altstack.h"
#include "configure.h"
#include "coverage.h"
#include "disposition.h"
#include "g_account.h"
#include "label_sum.h"
#include "m.h"
#include "outside.h"
#include "prepare.h"
#include "queue.h"
#include "rounds.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/perf/traps_linux.h"
#include "slot.h"
#include "stats.h"
#include "ticks.h"

static pthread_key_t exit_key; /* under the runtime lock until has_exit_key */
static uint32_t has_exit_key;  /* atomic */

/* If a thread has ended by a raw system call, another thread may get its stack, and its data with it: the C
 * library has had no occasion to clear them. m may be freed then. */
static void detach_at_exit(void *m)
{
    if (m != cp__m_current)
        return;
    cp_m_detach(&((struct cp__m *)m)->head);
}

/* If the program has used up all keys, it may free one later, so the next call tries again. */
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

/* Makes sure that m is detached when the calling thread ends, because nothing else would notice the end. */
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

/* Makes an M with its creators. frame_pointer is that of cp_m_attach(). */
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
    m->own_since = cp__account_now_early();
    m->self = (struct cp_g){.stack_lo = m->stack.lo, .stack_hi = m->stack.hi};
    m->random = (uint64_t)m->tid * 0x9e3779b97f4a7c15u ^ cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    return m;
}

/* Adds m to the registry, so that starts and stops reach m. Returns -ENOMEM if there is no memory for the
 * sample buffers of the slots that run. */
static int link_m(struct cp__m *m)
{
    struct cp__slot_config config;
    uint32_t running = 0;
    int result = 0;

    cp__lock(&cp__runtime_lock);
    cp__ms_free_forgotten();
    for (int slot = 0; slot < CP_EV_MAX && result == 0; slot++) {
        if (!cp__slot_config_from_handler(slot, &config))
            continue;
        running |= 1u << slot;
        result = cp__m_make_own(m, config.engine);
    }
    if (result == 0)
        result = cp__m_make_buffers(m, running);
    if (result == 0) {
        cp__coverage_attached(m);
        cp__m_link(m);
    }
    cp__unlock(&cp__runtime_lock);
    return result;
}

/* Does everything that may fail, and undoes it if something fails. */
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
        cp__error(err, result, "There is no memory for the sample buffers of another M, a page each.");
    }
    pthread_setspecific(exit_key, NULL);
    return result;
}

/* Returns what the calling thread has blocked if SIGTRAP is to be unblocked on it, so that traps reach it: if
 * the thread has SIGTRAP blocked, and events are sampled by traps. The library's handler is in place by then,
 * because other SIGTRAPs of the program may come, too. Else returns 0. */
static uint64_t unblocks_traps(void)
{
    const uint64_t blocked = cp__os_blocked_with_traps();
    bool are_taken;

    if (blocked == 0)
        return 0;
    cp__fork_delay(); /* because an event is tried */
    cp__lock(&cp__runtime_lock);
    are_taken = cp__traps_are_default() && cp__disposition_take_traps(NULL) == 0;
    cp__unlock(&cp__runtime_lock);
    cp__fork_allow();
    return are_taken ? blocked : 0;
}

int cp_m_attach(struct cp_m **out, struct cp_error *err)
{
    struct cp__m *m = cp__m_current;
    int result;

    if (m != NULL) {
        *out = &m->head;
        return 0;
    }
    cp__prepare();
    m = new_m(__builtin_frame_address(0), err);
    if (m == NULL)
        return -ENOMEM;
    /* As soon as m is known, other threads open events for it, whose signals come to the handler here. */
    cp_store_relaxed(&cp__m_current, m); /* relaxed: this thread and its handler only */
    cp_fence_signal();
    result = make_known(m, err);
    if (result < 0) {
        cp_store_relaxed(&cp__m_current, NULL); /* relaxed: the same */
        cp_fence_signal();
        cp__m_free(m);
        return result;
    }
    *out = &m->head;
    m->blocked_traps_with = unblocks_traps();
    m->is_starting = true;
    cp_execute_slow(&m->head);
    cp__outside_look_at_slots(); /* the program's own work must not begin before the M's events count */
    m->is_starting = false;
    return 0;
}

/* Returns the slots whose readers have samples of m left to read. For all other slots m's statistics are
 * kept now: if m was never armed, or its samples have been read, m need not wait for a reader that may
 * never come. */
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

/* Makes m, which has no handle any more, GONE. mask has a bit for each signal that the program has blocked.
 * Under the runtime lock. */
static void leave_to_readers(struct cp__m *m, uint64_t cpu_ns, uint64_t mask)
{
    cp_store_relaxed(&m->life, CP__M_GONE); /* relaxed: read under the lock */
    cp__stats_m_gone(m);
    cp__coverage_detached(m, cpu_ns, mask);
    m->undrained = unread_slots(m);
    for (uint32_t slots = m->undrained; slots != 0; slots &= slots - 1)
        /* a reader may have just taken m off the queue */
        cp__queue_push_from_handler(m, __builtin_ctz(slots));
}

static void free_if_read(struct cp__m *m)
{
    m->refs++;
    cp__queues_empty_free(); /* m may be in a queue, and must not be freed by this call */
    m->refs--;
    cp__m_free_if_done(m);
}

/* The CPU clock of the thread is gone. */
void cp__m_lost_its_thread(struct cp__m *m)
{
    void *altstack = m->altstack;

    leave_to_readers(m, 0, 0);
    cp_store_release(&m->altstack, NULL); /* pairs with the acquire in cp__ms_forget(), as in cp_m_detach() */
    free_if_read(m);
    cp__os_altstack_free(altstack);
}

void cp_m_detach(struct cp_m *head)
{
    struct cp__m *m = (struct cp__m *)head;
    void *altstack = m->altstack;
    uint64_t cpu_ns, mask, programs_mask;

    if (m->watch != NULL || m->self.rounds != NULL)
        cp__watch_calls_get()->detach(head);
    if (m->self.account != NULL)
        cp__account_close(m, m->self.account);
    m->self.account = NULL;
    cp__accounts_leave(m);
    if (m->wait != NULL)
        cp__wait_calls_get()->detach(m);
    mask = cp__os_block_from_handler();
    programs_mask = cp__os_mask_of_program(m->blocked_traps_with, mask);
    pthread_setspecific(exit_key, NULL);
    cp__configure_leave(m, mask);
    cpu_ns = cp__os_clock_ns_from_handler(m->cpu_clock);

    cp__lock(&cp__runtime_lock);
    leave_to_readers(m, cpu_ns, mask);
    cp_store_relaxed(&cp__m_current, NULL); /* relaxed: this thread and its handler only */
    /* release: pairs with the acquire in cp__ms_forget(): a child must not free what this thread has freed */
    cp_store_release(&m->altstack, NULL);
    free_if_read(m);
    cp__disposition_settle();
    cp__unlock(&cp__runtime_lock);
    cp__os_unblock_from_handler(programs_mask);
    cp__os_altstack_free(altstack);
}
