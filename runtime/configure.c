#include "configure.h"

#include <errno.h>
#include <signal.h>

#include "cost.h"
#include "disposition.h"
#include "engine.h"
#include "moment.h"
#include "overload.h"
#include "receive.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "slot.h"
#include "stats.h"

/* ---- One slot -------------------------------------------------------------------------------- */

/* Readers load seq first, and use the other figures only if seq is their config's. */
static void reset_stats_from_handler(struct cp__m *m, int slot, const struct cp__slot_config *config)
{
    struct cp__m_stats *stats = &m->stats[slot];
    uint64_t *words = (uint64_t *)stats;

    for (size_t i = 0; i < sizeof *stats / sizeof *words; i++)
        cp_store_relaxed(&words[i], 0); /* relaxed: ordered by the release below */
    cp_store_relaxed(&stats->foreign, m->foreign);
    cp_store_relaxed(&stats->armed_at, UINT64_MAX);
    cp_store_relaxed(&stats->period, config->config.period);
    cp_store_relaxed(&stats->counts_time, config->kind == CP_EVENT_CLOCK);
    cp_store_relaxed(&stats->excludes,
                     config->kind == CP_EVENT_CLOCK &&
                         (!config->config.is_kernel_included || config->config.is_user_excluded));
    cp_store_relaxed(&stats->is_own_doing, cp__event_is_own_doing(config->kind));
    cp_store_relaxed(&stats->may_starve, cp__event_may_starve(config->kind));
    cp_store_release(&stats->seq, config->seq); /* pairs with the acquire in add_stats_of_m(), stats.c */
}

static void become_pending_from_handler(struct cp__m *m)
{
    /* relaxed, both: ordered by the release of the claim */
    cp_store_relaxed(&m->late_since, cp__os_clock_ns_from_handler(m->cpu_clock));
    cp_store_relaxed(&m->late, CP__LATE_PENDING);
}

static void refuse_from_handler(struct cp__m *m, int slot, int result)
{
    cp_store_relaxed(&m->stats[slot].refused, result); /* relaxed: a number of its own */
    m->due &= ~(1u << slot);
}

/* Opens the event of the config that the slot holds. Returns whether the event must be enabled. */
static bool start_slot_from_handler(struct cp__m *m, int slot)
{
    struct cp__slot_config config;
    int result;

    if (!cp__slot_config_from_handler(slot, &config))
        return false;
    reset_stats_from_handler(m, slot, &config);
    config.limit = cp__cost_limit_from_handler(config.kind);
    m->handles[slot] = (struct cp__handle){
        .seq = config.seq, .engine = config.engine, .kind = config.kind, .signal = SIGPROF};
    cp_store_relaxed(&m->armed, m->armed | 1u << slot); /* relaxed: ordered by the release of the claim */
    result = config.engine->open_from_handler(m, slot, &config);
    if (result < 0)
        refuse_from_handler(m, slot, result);
    return result == 0 && config.engine->enable_from_handler != NULL;
}

/*
 * Enables the events of the slots, after everything else is done. If an event's period is shorter than a
 * sample's cost, the thread may make hardly any progress from then on. If handles were still to be opened
 * then, the claim would be held for long, and no other thread could disable such an event.
 */
static void enable_slots_from_handler(struct cp__m *m, uint32_t slots)
{
    for (; slots != 0; slots &= slots - 1) {
        int slot = __builtin_ctz(slots);
        int result = m->handles[slot].engine->enable_from_handler(m, slot);

        if (result >= 0)
            continue;
        refuse_from_handler(m, slot, result);
        if (m->handles[slot].signal == SIGPROF) /* one of several events may have counted already */
            become_pending_from_handler(m);
    }
}

/* Closes the slot's handle from outside. Returns when its events have ended, by m's CPU clock. The thread may
 * wake meanwhile, and be counted; but if it has slept until now, the engine need not ask what its events have
 * counted, and what it does from now on comes after their end. */
static uint64_t close_from_outside(struct cp__m *m, int slot, struct cp__moment *moment)
{
    const uint64_t now = cp__os_clock_ns_from_handler(m->cpu_clock);
    const bool has_slept = cp_load_relaxed(&m->stats[slot].armed_at) == now; /* relaxed: of this thread */

    if (m->handles[slot].engine->close_from_outside(m, slot, has_slept, moment))
        become_pending_from_handler(m);
    return has_slept ? now : cp__os_clock_ns_from_handler(m->cpu_clock);
}

/* Closes the slot's handle. The handle keeps its seq until the samples of moment have been appended. */
static void stop_slot_from_handler(struct cp__m *m, int slot, struct cp__moment *moment)
{
    uint64_t now;

    if (!m->handles[slot].is_open)
        return; /* the event was refused */
    cp__overload_end_from_handler(m, slot);
    if (moment->since == CP__SINCE_OUTSIDE) {
        now = close_from_outside(m, slot, moment);
    } else {
        now = cp__os_clock_ns_from_handler(m->cpu_clock);
        m->handles[slot].engine->close_from_handler(m, slot, moment);
    }
    if (now == 0) /* the thread has ended, and its clock with it */
        now = cp__m_last_clock_from_handler(m, slot);
    cp_store_relaxed(&m->stats[slot].disarmed_at, now); /* relaxed: a number of its own */
}

static void clear_slot_from_handler(struct cp__m *m, int slot)
{
    if (m->handles[slot].engine->clear_from_handler != NULL)
        m->handles[slot].engine->clear_from_handler(m, slot);
    m->handles[slot] = (struct cp__handle){.seq = 0};
}

/* ---- All slots ------------------------------------------------------------------------------- */

static bool is_live_from_handler(const struct cp__m *m)
{
    return cp_load_relaxed(&m->life) == CP__M_LIVE; /* relaxed: stored by this thread */
}

static bool is_slot_wanted(const struct cp__m *m, int slot)
{
    return is_live_from_handler(m) && cp__slot_seq_from_handler(slot) == m->handles[slot].seq;
}

/* Whether the handle stays. See share.c for the two other reasons to stop it. */
static bool stays(const struct cp__m *m, int slot)
{
    return is_slot_wanted(m, slot) && ((m->again | m->left_out) >> slot & 1) == 0;
}

/* Leaves the M without an event in a slot that still runs, like one whose event was refused. The figures
 * stay. Returns whether the slot is such a one. */
static bool leave_out_from_handler(struct cp__m *m, int slot)
{
    const struct cp__handle handle = m->handles[slot];

    if (!is_slot_wanted(m, slot) || (m->left_out >> slot & 1) == 0)
        return false;
    clear_slot_from_handler(m, slot);
    m->handles[slot] = (struct cp__handle){
        .seq = handle.seq, .engine = handle.engine, .kind = handle.kind, .signal = SIGPROF};
    return true;
}

/* Takes the pending signals off the calling M's queue, if signals of handles may be there that this call or
 * another thread has closed. A trap makes no M late, and must not outlive the M. */
static void take_what_is_pending_from_handler(struct cp__m *m, struct cp__moment *moment, bool has_closed)
{
    /* relaxed, both: of this thread, which has the claim */
    if (!has_closed && is_live_from_handler(m) && cp_load_relaxed(&m->late) == CP__LATE_NO)
        return;
    cp__take_pending_from_handler(m, moment);
    cp_store_relaxed(&m->late, CP__LATE_NO);
}

static void stop_unwanted_from_handler(struct cp__m *m, const struct cp__registers *regs,
                                       enum cp__since since)
{
    struct cp__moment moment;
    uint32_t stopped = 0;

    cp__moment_begin_from_handler(&moment, regs, since);
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (m->handles[slot].seq != 0 && !stays(m, slot)) {
            stop_slot_from_handler(m, slot, &moment);
            stopped |= 1u << slot;
        }
    }
    if (since != CP__SINCE_OUTSIDE)
        take_what_is_pending_from_handler(m, &moment, stopped != 0);
    cp__moment_end_from_handler(m, &moment);
    for (uint32_t left = stopped; left != 0; left &= left - 1) {
        if (leave_out_from_handler(m, __builtin_ctz(left)))
            stopped &= ~(left & -left);
        else
            clear_slot_from_handler(m, __builtin_ctz(left));
    }
    /* relaxed: ordered by the release of the claim */
    cp_store_relaxed(&m->armed, m->armed & ~stopped);
    cp_store_relaxed(&m->off, m->off & ~stopped);
}

static void own_from_handler(struct cp__m *m)
{
    /* acquire: pairs with the release in cp__m_make_own() */
    for (uint32_t engines = cp_load_acquire(&m->engines); engines != 0; engines &= engines - 1) {
        const struct cp__engine *engine = m->own[__builtin_ctz(engines)].engine;

        if (engine->own_from_handler != NULL)
            engine->own_from_handler(m);
    }
}

/* Appends the samples of the slots whose first period was over when their events were opened. */
__attribute__((noinline)) static void take_due_from_handler(struct cp__m *m, const struct cp__registers *regs)
{
    struct cp__moment moment;

    cp__moment_begin_from_handler(&moment, regs, CP__SINCE_HERE);
    for (uint32_t due = m->due; due != 0; due &= due - 1)
        cp__moment_add_from_handler(&moment, __builtin_ctz(due), 1);
    cp__moment_end_from_handler(m, &moment);
    m->due = 0;
}

/* Brings m in line with the slots. The caller has the claim. */
static void change_from_handler(struct cp__m *m, const struct cp__registers *regs, enum cp__since since)
{
    uint64_t generation;
    uint32_t opened = 0;

    /* Claim, then look: pairs with the fences in cp__disposition_settle(), disposition.c, and in
     * is_any_waited_for(), outside.c. */
    cp_fence_seq_cst();
    /* acquire: pairs with the release in cp__slots_next_generation(), slot.c */
    generation = cp_load_acquire(&cp_generation);
    stop_unwanted_from_handler(m, regs, since);
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (m->handles[slot].seq == 0 && is_live_from_handler(m))
            opened |= (uint32_t)start_slot_from_handler(m, slot) << slot;
    }
    m->again = m->left_out = 0;
    /* An M with pending signals looks at its next scheduling point, so that SIGPROF can be given back: the
     * kernel may have forgotten a deleted timer's signal that it still shows as pending. */
    if (cp_load_relaxed(&m->late) == CP__LATE_PENDING) /* relaxed: written with the claim */
        generation = 0;
    /* release: pairs with the acquire in is_behind(), outside.c */
    cp_store_release(&m->head.generation, generation);
    enable_slots_from_handler(m, opened);
}

/* Whether the events' samples have waited, because the program has the signal blocked that brings them. mask
 * has a bit for each signal that the program has blocked. */
static enum cp__since since_of_mask(const struct cp__m *m, uint64_t mask)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        const struct cp__handle *handle = &m->handles[slot];

        if (handle->seq != 0 && handle->engine->tells_places && (mask >> (handle->signal - 1) & 1) != 0)
            return CP__SINCE_BLOCKED;
    }
    return (mask >> (SIGPROF - 1) & 1) != 0 ? CP__SINCE_TICKS_BLOCKED : CP__SINCE_HERE;
}

/* Samples that are made here have the stack of this call, because the M was in this call, unless the program
 * had the signals blocked before. In a child of a fork whose fork handlers have not run, the handles are the
 * parent's. */
__attribute__((noinline)) bool cp__configure(struct cp__m *m, uint64_t mask)
{
    struct cp__registers regs = {.pc = (uintptr_t)__builtin_return_address(0),
                                 .sp = (uintptr_t)__builtin_frame_address(0),
                                 .fp = (uintptr_t)__builtin_frame_address(0)};
    const struct cp__registers caller = {
        .pc = regs.pc, .sp = regs.sp + 2 * sizeof(uintptr_t), .fp = *(const uintptr_t *)regs.fp};

    if (cp__is_raw_child_from_handler())
        return true;
    if (!cp__m_claim_from_handler(m, CP__CLAIM_SELF))
        return false;
    change_from_handler(m, &caller, since_of_mask(m, mask));
    if (m->due != 0)
        take_due_from_handler(m, &caller);
    own_from_handler(m);
    cp__m_unclaim_from_handler(m);
    return true;
}

void cp__configure_leave(struct cp__m *m, uint64_t mask)
{
    cp_store_relaxed(&m->life, CP__M_LEAVING); /* relaxed: ordered by the release of the claim */
    cp__fork_delay();                          /* because events are closed */
    while (!cp__configure(m, mask)) {
        cp__lock(&cp__runtime_lock); /* another thread had the claim; that thread holds this lock */
        cp__unlock(&cp__runtime_lock);
    }
    cp__fork_allow();
}

void cp__configure_outside(struct cp__m *m)
{
    static const struct cp__registers nowhere;

    change_from_handler(m, &nowhere, CP__SINCE_OUTSIDE);
    cp__m_unclaim_from_handler(m);
}

void cp__configure_again(struct cp__m *m, int slot)
{
    cp__slot_keep_stats_of(slot, m); /* its event has counted nothing; but it has had time */
    m->again |= 1u << slot;
    cp__configure_outside(m);
}

/* The thread may have woken since somebody looked, and its event may have counted. So what the event has
 * counted is kept, and the M begins anew with one that was refused. */
void cp__configure_without(struct cp__m *m, int slot)
{
    static const struct cp__registers nowhere;
    struct cp__slot_config config;

    m->left_out |= 1u << slot;
    change_from_handler(m, &nowhere, CP__SINCE_OUTSIDE);
    if (!m->handles[slot].is_open && cp__slot_config_from_handler(slot, &config) &&
        m->handles[slot].seq == config.seq) {
        cp__slot_keep_stats_of(slot, m);
        reset_stats_from_handler(m, slot, &config);
        refuse_from_handler(m, slot, -EMFILE);
    }
    cp__m_unclaim_from_handler(m);
}

/* Gives the handler back if no signal can come any more. What was pending has been delivered by now. */
static void give_handler_back(void)
{
    uint64_t mask = cp__os_block_from_handler(); /* a handler of the program's must not keep the lock */

    cp__lock(&cp__runtime_lock);
    cp__disposition_settle();
    cp__unlock(&cp__runtime_lock);
    cp__os_unblock_from_handler(mask);
}

void cp_execute_slow(struct cp_m *head)
{
    int saved_errno = errno;
    uint64_t mask = cp__os_block_from_handler();

    cp__fork_delay(); /* because events are opened and closed */
    cp__configure((struct cp__m *)head, mask);
    cp__fork_allow();
    cp__os_unblock_from_handler(mask);
    if (cp_load_relaxed(&((struct cp__m *)head)->armed) == 0) /* relaxed: looked at again under the lock */
        give_handler_back();
    if (((struct cp__m *)head)->blocked_traps_with != 0)
        cp__os_open_traps(); /* at first, and if the handler has given a SIGTRAP back since */
    errno = saved_errno;
}
