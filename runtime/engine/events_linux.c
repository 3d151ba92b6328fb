/*
 * Events through perf_event_open(2).
 *
 * All events of an M write to one ring. The ring belongs to an event of its own that counts nothing
 * (PERF_COUNT_SW_DUMMY), so that each of the other events can come and go. Each record names its event
 * (PERF_SAMPLE_IDENTIFIER) and carries the event's count (PERF_SAMPLE_READ). An M gets its ring with its
 * first signal (first_linux.c). If the system gives an M no memory for a ring, the M runs without one: each
 * signal is a sample.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "descriptors_linux.h"
#include "events_linux.h"
#include "first_linux.h"
#include "limits_linux.h"
#include "perf_m_linux.h"
#include "periods_linux.h"
#include "ring_linux.h"
#include "runtime/altstack.h"
#include "runtime/base/fail.h"
#include "runtime/base/os.h"
#include "runtime/base/signals.h"
#include "runtime/base/sys_linux.h"
#include "runtime/perf/core_pmu_linux.h"
#include "runtime/perf/perf_linux.h"
#include "runtime/receive.h"

/* Sends the event's SIGPROF to m's thread. Every event without traps gets this before it is enabled: a member
 * of the ring without O_ASYNC would write records and never send a signal. */
static int route_from_handler(const struct cp__m *m, int fd)
{
    const struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = m->tid};
    int result = cp__sys_fcntl_from_handler(fd, F_SETOWN_EX, (unsigned long)&owner);

    if (result >= 0)
        result = cp__sys_fcntl_from_handler(fd, F_SETSIG, SIGPROF);
    return result < 0 ? result : cp__sys_fcntl_from_handler(fd, F_SETFL, O_ASYNC);
}

/* Lets the event raise a synchronous SIGTRAP that carries seq. The kernel demands remove_on_exec, because the
 * new program has no handler for traps. Nobody waits for the ring, so no record needs to wake anybody. */
static void let_trap(struct perf_event_attr *attr, uint64_t seq)
{
    attr->sigtrap = 1;
    attr->remove_on_exec = 1;
    attr->sig_data = seq;
    attr->wakeup_events = 0;
}

/* Disables the slot's events, as far as they are still the M's. */
static void disable_from_handler(struct cp__m *m, int slot)
{
    for (int i = 0; i < cp__perf_of(m)->handles[slot].n_events; i++)
        cp__descriptor_control_from_handler(m, slot, i, PERF_EVENT_IOC_DISABLE, 0);
}

/* ---- Pausing --------------------------------------------------------------------------------- */

/* The handler runs about 1 800 cycles or instructions in user mode, and these count as the program's. From
 * this period on they are less than 1 % of the period, and pausing costs more than it improves: see
 * design/0015-pausing.md. */
#define PAUSE_BELOW_PERIOD 200000

/* Whether the event counts page faults. The handler causes some: by its first write to a page of a sample
 * buffer, of the ring, or of its stack. */
static bool counts_faults(const struct cp_cpu_profile_config *config)
{
    uint64_t what = config->encoding.config;

    return config->encoding.type == PERF_TYPE_SOFTWARE && !config->is_user_excluded &&
           (what == PERF_COUNT_SW_PAGE_FAULTS || what == PERF_COUNT_SW_PAGE_FAULTS_MIN ||
            what == PERF_COUNT_SW_PAGE_FAULTS_MAJ);
}

/* Returns whether the event stops counting while the handler runs. */
static bool pauses(const struct cp__slot_config *slot)
{
    const struct cp_cpu_profile_config *config = &slot->config;

    return counts_faults(config) || (slot->kind == CP_EVENT_HARDWARE && !config->is_user_excluded &&
                                     config->period < PAUSE_BELOW_PERIOD);
}

static bool are_ours_from_handler(struct cp__m *m, int slot)
{
    bool are = true;

    for (int i = 0; i < cp__perf_of(m)->handles[slot].n_events; i++)
        are &= cp__descriptor_is_ours_from_handler(m, slot, i);
    return are;
}

/* Disables the slot's events one by one: prctl() would control all events that the thread opened, and some of
 * these may be somebody else's. Whoever resumes them relies on this look at their descriptors. If the program
 * has closed one of them, none of them is paused any more. */
static void pause_slot_from_handler(struct cp__m *m, int slot)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];

    if (!are_ours_from_handler(m, slot)) {
        cp__perf_of(m)->pausing &= ~(1u << slot);
        cp__perf_of(m)->paused &= ~(1u << slot);
        return;
    }
    for (int i = 0; i < handle->n_events; i++)
        cp__sys_ioctl_from_handler(handle->events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}

/* Leaves throttled events alone. A throttled event counts nothing, and enabling it would end the throttling.
 * If the event's period is so short that it overflows as soon as the handler returns, the program would then
 * make no progress. */
void cp__events_pause_from_handler(struct cp__m *m)
{
    struct cp__perf_m *perf = cp__perf_of(m);

    cp__ring_own_begins_from_handler(&perf->ring);
    perf->paused = 0;
    if (perf->pausing == 0)
        return;
    /* relaxed: if another thread disables an event from now on, cp__events_resume_from_handler() disables
     * that event again */
    perf->paused = perf->pausing & ~cp_load_relaxed(&m->off) & ~cp__ring_throttled_from_handler(m);
    for (uint32_t left = perf->paused; left != 0; left &= left - 1)
        pause_slot_from_handler(m, __builtin_ctz(left));
}

void cp__events_own_from_handler(struct cp__m *m)
{
    cp__ring_own_ends_from_handler(&cp__perf_of(m)->ring);
}

void cp__events_resume_from_handler(struct cp__m *m)
{
    struct cp__perf_m *perf = cp__perf_of(m);
    uint32_t slots = perf->paused & perf->pausing;

    perf->paused = 0;
    for (uint32_t left = slots; left != 0; left &= left - 1)
        cp__limits_resume_from_handler(m, __builtin_ctz(left));
    /* relaxed: the kernel serves the calls of this thread and of cp__events_disable() for one event one
     * after the other, under the mutex of the event's context. If cp__events_disable()'s call came first,
     * its store to off is seen here; if it comes second, the event stays disabled. */
    for (uint32_t left = slots & cp_load_relaxed(&m->off); left != 0; left &= left - 1)
        disable_from_handler(m, __builtin_ctz(left));
    cp__ring_own_ends_from_handler(&perf->ring);
}

/* ---- The hooks ------------------------------------------------------------------------------- */

/* Counts a signal of the slot's event with that number as one sample: without a ring there is no record. The
 * SIGPROF of the last sample before the limit says so. A trap does not; if no traps coalesced, the M has
 * counted them all. */
static void ringless_from_handler(struct cp__m *m, int slot, int which, const siginfo_t *info,
                                  struct cp__moment *moment)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    uint64_t stretch = cp__handle_stretch(handle);

    cp_add_single_writer(&m->stats[slot].interrupts, 1);
    cp__limits_take_from_handler(handle, which, 1);
    if (cp_load_relaxed(&m->stats[slot].ringless) == CP__AWAITS_RING) { /* relaxed: stored with the claim */
        cp__first_heard_from_handler(m, slot, which, moment);
        return;
    }
    cp__first_over_from_handler(m, slot, which);
    handle->periods.accounted += stretch * handle->period;
    cp__moment_add_from_handler(moment, slot, stretch);
    if (handle->traps ? cp__limits_are_used_up_from_handler(m, slot) : info->si_code == POLL_HUP)
        cp__limits_ended_from_handler(m, slot, which);
}

/* Returns which of the handle's events has raised the signal; -1: none. Events that trap do not tell, so the
 * first one stands for all. A handle that has just been closed still has its config and the numbers of its
 * descriptors. One whose events were refused has none, although one of them may have counted before. */
static int raiser_from_handler(const struct cp__perf_handle *handle, const siginfo_t *info)
{
    uint64_t seq;

    if (cp__signal_is_trap_from_handler(info, &seq))
        return handle->traps && handle->n_events != 0 && handle->seq == seq && seq != 0 ? 0 : -1;
    for (int i = 0; i < handle->n_events && cp__signal_is_poll_from_handler(info); i++) {
        if (handle->events[i].fd == info->si_fd)
            return i;
    }
    return -1;
}

bool cp__events_on_signal_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment)
{
    uint64_t seq;
    bool is_of_event = cp__signal_is_poll_from_handler(info) || cp__signal_is_trap_from_handler(info, &seq);
    uint32_t armed = is_of_event ? cp_load_relaxed(&m->armed) : 0; /* relaxed: stored by this thread */
    bool ours = false;

    for (; armed != 0; armed &= armed - 1) {
        int slot = __builtin_ctz(armed);
        int which = raiser_from_handler(&cp__perf_of(m)->handles[slot], info);

        if (which < 0)
            continue;
        ours = true;
        if (cp_load_relaxed(&m->stats[slot].ringless) != 0 && !cp__first_is_earlier_from_handler(m, slot))
            ringless_from_handler(m, slot, which, info, moment);
    }
    cp__ring_drain_from_handler(m, moment);
    return ours;
}

/* Records stay in the ring. Without a ring, the event's count tells later. */
bool cp__events_keep_from_handler(struct cp__m *m, const siginfo_t *info)
{
    (void)m;
    return cp__signal_is_poll_from_handler(info);
}

void cp__events_hear(struct cp__m *m, struct cp__moment *moment)
{
    /* relaxed: written with the claim */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1) {
        const struct cp__handle *handle = &m->handles[__builtin_ctz(armed)];

        if (handle->is_open && handle->engine == &cp__engine_perf)
            cp__first_unheard(m, __builtin_ctz(armed));
    }
    if (cp__ring_is_overdue(m))
        cp__ring_drain_from_handler(m, moment);
}

/* The handle keeps the numbers of the descriptors, because a signal that carries one of these may be
 * pending. */
static void close_events_from_handler(struct cp__m *m, int slot)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];

    cp__perf_of(m)->pausing &= ~(1u << slot);
    for (int i = 0; i < handle->n_events; i++) {
        if (cp_load_relaxed(&m->stats[slot].ringless) == 0)
            cp__ring_leave_from_handler(&cp__perf_of(m)->ring);
        cp__descriptor_close_from_handler(m, slot, i);
    }
}

/* Closes what is open in slot, and leaves the handle like one whose event was never opened. */
static void abandon_from_handler(struct cp__m *m, int slot)
{
    close_events_from_handler(m, slot);
    cp__perf_of(m)->handles[slot].n_events = 0;
    m->handles[slot].is_open = false;
}

/* How a slot's events are opened. */
struct opening {
    uint64_t first;      /* their first period */
    bool leaves_program; /* the last descriptors */
    bool may_count;      /* at once, if they do without a ring at first, and raise traps */
};

/* The slot of an M that add_event_from_handler() opens events in. */
struct place {
    const struct cp__m *m;
    struct cp__perf_handle *handle;
    uint64_t first; /* of struct cp__perf_event */
    bool leaves_program;
};

/* Opens attr as one more event of the handle. The event sends signals, and is no member of the ring yet. If
 * it counts, its limit comes before all else. */
static int add_event_from_handler(void *context, struct perf_event_attr *attr)
{
    const struct place *place = context;
    struct cp__perf_handle *handle = place->handle;
    struct cp__perf_event *event = &handle->events[handle->n_events];
    int fd = cp__perf_open_event_from_handler(attr, place->m->tid);
    int result = 0;

    if (fd < 0)
        return fd;
    if (handle->counts_at_once)
        /* relaxed: written with the claim */
        result = cp__perf_let_count_from_handler(fd, cp_load_relaxed(&handle->limit));
    if (result >= 0 && place->leaves_program && cp__perf_is_left_from_handler(fd))
        result = -EMFILE;
    if (result < 0) {
        cp__sys_close_from_handler(fd);
        return result;
    }
    *event = (struct cp__perf_event){.fd = fd, .first = place->first};
    result = cp__sys_ioctl_from_handler(fd, PERF_EVENT_IOC_ID, (unsigned long)&event->id);
    if (result < 0) {
        cp__perf_close_from_handler(fd, 0); /* unless it is no event any more */
        return result;
    }
    if (!handle->traps)
        result = route_from_handler(place->m, fd);
    if (result < 0) {
        cp__sys_close_from_handler(fd);
        return result;
    }
    handle->n_events++;
    return 0;
}

/* Whether the last descriptors are left to the program. Most threads that others arm sleep. A thread that
 * runs arms itself, or a pass tries again for it: see runtime/share.c. */
static bool leaves_program_from_handler(const struct cp__m *m, int slot)
{
    return m != cp__m_current && (m->again >> slot & 1) == 0;
}

/* Opens the event of config. It is disabled, unless it may count at once. */
static int prepare_from_handler(struct cp__m *m, int slot, const struct cp_cpu_profile_config *config,
                                const struct opening *opening)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    struct perf_event_attr attr = cp__perf_sample_attr_from_handler(config);
    uint64_t began;
    int result;

    attr.sample_period = opening->first;
    handle->traps = config->engine == CP_ENGINE_TRAP;
    if (handle->traps)
        let_trap(&attr, handle->seq);
    handle->layout = cp__record_layout_from_handler(attr.sample_type);
    handle->is_precise = config->precise_ip != CP_CPUPROF_IP_ARBITRARY_SKID;
    handle->has_user_chain = config->is_sample_callchain_included && config->is_callchain_user_included;
    handle->counts_at_once = opening->may_count && handle->traps && cp__first_can_wait_from_handler(m, slot);
    attr.disabled = !handle->counts_at_once;
    cp_store_relaxed(&m->stats[slot].ringless, CP__AWAITS_RING); /* relaxed: written with the claim */
    handle->runs = cp_load_relaxed(&m->runs); /* relaxed: only whether it changes matters */
    /* before the event counts: see cp__m_has_slept_from_handler() */
    began = handle->counts_at_once ? cp__os_clock_ns_from_handler(m->cpu_clock) : UINT64_MAX;
    result = cp__core_pmus_add_from_handler(
        &attr, add_event_from_handler,
        &(struct place){.m = m,
                        .handle = handle,
                        .first = opening->first != config->period ? opening->first : 0,
                        .leaves_program = opening->leaves_program});
    if (result < 0)
        abandon_from_handler(m, slot);
    else
        cp_store_relaxed(&m->stats[slot].armed_at, began); /* relaxed: a number of its own */
    return result;
}

/* Reads the final counts of the slot's events. Returns whether the ring has lost records that it had not told
 * of before. */
static bool read_last_from_handler(struct cp__m *m, int slot)
{
    const uint64_t lost = cp_load_relaxed(&m->stats[slot].lost); /* relaxed: written with the claim */
    struct cp__count count;

    for (int i = 0; i < cp__perf_of(m)->handles[slot].n_events; i++) {
        if (!cp__descriptor_read_from_handler(m, slot, i, &count))
            continue;
        cp__periods_note_count_from_handler(m, slot, i, &count);
        if (i == 0)
            cp__periods_end_throttling_from_handler(m, slot, &count);
    }
    return cp_load_relaxed(&m->stats[slot].lost) != lost; /* relaxed: the same */
}

/* Returns whether the thread closes its own handle and has not blocked the signal of its samples: a period
 * that is over now has ended where the thread is. */
static bool is_at_its_place_from_handler(const struct cp__moment *moment)
{
    return moment->since == CP__SINCE_HERE || moment->since == CP__SINCE_TICKS_BLOCKED;
}

/* Disables the events first, so that no record and no count follows those that are read here, and nothing
 * lets them count again. Then reads the ring, and then the final counts: a period that has just ended without
 * a record is a sample of the place where its thread is, and others were lost. */
void cp__events_close_from_handler(struct cp__m *m, int slot, struct cp__moment *moment)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    bool ring_was_full;

    cp__limits_tell_end_from_handler(m, slot, moment->since == CP__SINCE_OUTSIDE);
    disable_from_handler(m, slot);
    cp_store_relaxed(&handle->limit, 0u); /* relaxed: written with the claim */
    cp__ring_drain_from_handler(m, moment);
    /* relaxed: written with the claim */
    if (moment->since != CP__SINCE_OUTSIDE && cp_load_relaxed(&m->stats[slot].ringless) != 0)
        cp__take_pending_from_handler(m, moment); /* or its period would be lost, too */
    ring_was_full = read_last_from_handler(m, slot);
    if (!ring_was_full && is_at_its_place_from_handler(moment))
        cp__moment_add_from_handler(moment, slot, cp__periods_of_rest_from_handler(m, slot));
    if (cp_load_relaxed(&m->stats[slot].ringless) != CP__AWAITS_RING) /* nobody knows why it was not heard */
        cp__periods_lose_rest_from_handler(m, slot, ring_was_full);
    close_events_from_handler(m, slot);
}

/* Most threads of a start that arms all of them may have slept since. Their events need only be closed. If
 * such a thread wakes just now, what it does before the close belongs to the time after the stop. An event
 * that has counted nothing has raised no signal. */
bool cp__events_close_from_outside(struct cp__m *m, int slot, bool has_slept, struct cp__moment *moment)
{
    const bool traps = cp__perf_of(m)->handles[slot].traps;

    if (has_slept) {
        close_events_from_handler(m, slot);
        return !traps && !cp__m_has_slept_from_handler(m, slot);
    }
    cp__events_close_from_handler(m, slot, moment);
    return !traps && cp__m_count_from_handler(&m->stats[slot]) != 0;
}

/* By its words: ThreadSanitizer sees a memset() that a compiler may make of this, and not the claim. */
void cp__events_clear_from_handler(struct cp__m *m, int slot)
{
    uint64_t *words = (uint64_t *)&cp__perf_of(m)->handles[slot];

    for (size_t i = 0; i < sizeof(struct cp__perf_handle) / sizeof *words; i++)
        cp_store_relaxed(&words[i], 0u); /* relaxed: ordered by the claim */
}

int cp__events_open_from_handler(struct cp__m *m, int slot, const struct cp__slot_config *config)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    const uint64_t period = config->config.period;
    const uint64_t first =
        cp__first_left_from_handler(m, slot, period, cp__first_draw_from_handler(m, config), 0);
    const uint64_t begins_with = cp__first_bearable_from_handler(first, config->kind, period);
    const struct opening opening = {.first = begins_with,
                                    .leaves_program = leaves_program_from_handler(m, slot),
                                    .may_count =
                                        cp__first_leaves_time_from_handler(begins_with, config->kind)};
    int result;

    cp__events_clear_from_handler(m, slot);
    handle->seq = config->seq;
    handle->kind = config->kind;
    handle->period = period;
    cp_store_relaxed(&handle->limit,
                     cp__perf_has_limits ? config->limit : 0); /* relaxed: written with the claim */
    result = prepare_from_handler(m, slot, &config->config, &opening);
    if (result < 0)
        return result;
    cp_store_relaxed(&m->stats[slot].behind, begins_with - first); /* relaxed: a number of its own */
    m->handles[slot].is_open = true;
    m->handles[slot].signal = handle->traps ? SIGTRAP : SIGPROF;
    handle->periods.phase = period - first;
    /* if a mode is excluded, periods that end in that mode have no record, and no record stands for them */
    handle->periods.folds = config->kind == CP_EVENT_CLOCK && config->config.is_kernel_included &&
                            !config->config.is_user_excluded;
    if (counts_faults(&config->config))
        cp__os_altstack_populate_from_handler(m->altstack); /* a signal uses it before the handler pauses */
    if (pauses(config))
        cp__perf_of(m)->pausing |= 1u << slot;
    if (!cp__first_can_wait_from_handler(m, slot))
        cp__first_give_ring_from_handler(m, slot, false);
    return 0;
}

int cp__events_enable_from_handler(struct cp__m *m, int slot)
{
    int result;

    cp__first_begin_from_handler(m, slot);
    result = cp__limits_begin_from_handler(m, slot);

    if (result < 0)
        abandon_from_handler(m, slot);
    else
        cp__first_kept_off_from_handler(m, slot);
    return result;
}

/* There are several events only on processors with several kinds of cores. All of them are enabled all the
 * time. */
bool cp__events_read(struct cp__m *m, int slot, struct cp__count *count)
{
    const int n = cp__perf_of(m)->handles[slot].n_events;
    struct cp__count sum = {.lost = 0}, one;

    *count = sum;
    for (int i = 0; i < n; i++) {
        if (!cp__descriptor_read_from_handler(m, slot, i, &one))
            return false;
        sum.value += one.value;
        sum.time_enabled = i == 0 ? one.time_enabled : sum.time_enabled;
        sum.time_running += one.time_running;
        sum.lost += one.lost;
    }
    *count = sum;
    return n > 0;
}

uint64_t cp__events_interval(const struct cp__m *m, int slot)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];

    return handle->period * cp__handle_stretch(handle);
}

/* Takes effect at once: if m's thread runs, the kernel interrupts it to disable the event. If m's handler
 * has paused the event, the handler looks at off after it has enabled the event again. */
void cp__events_disable(struct cp__m *m, int slot)
{
    cp_store_relaxed(&m->off, m->off | 1u << slot); /* relaxed: see cp__events_resume_from_handler() */
    disable_from_handler(m, slot);
}

/* ---- Outside the handler --------------------------------------------------------------------- */

/* Joins the slot's events to a ring. */
static int probe_ring(struct cp__m *m, int slot, const struct cp_slot_request *request, struct cp_error *err)
{
    int result = cp__first_join_from_handler(m, slot, false);

    if (result < 0)
        return cp__perf_explain_ring(result, request, err);
    cp_store_relaxed(&m->stats[slot].ringless, CP__HAS_RING); /* relaxed: of this thread */
    return 0;
}

/* Opens all events of a start in a scratch M that is not registered, on the calling thread, then closes
 * them. */
int cp__events_probe(struct cp_slot_request *requests, size_t n, struct cp_error *err)
{
    struct cp__m *m = calloc(1, sizeof *m);
    int result = 0;
    size_t i;

    if (m == NULL || cp__m_make_own(m, &cp__engine_perf) < 0) {
        free(m);
        return cp__error(err, -ENOMEM, "There is no memory to try the events with.");
    }
    m->tid = cp__os_tid();
    for (i = 0; i < n && result == 0; i++) {
        if (requests[i].event == CP_CPUPROF_OS_TIMER)
            continue;
        requests[i].config.precise_ip = cp__perf_reach_precision(&requests[i]);
        result = cp__perf_try_count(&requests[i]);
        if (result == 0)
            result = prepare_from_handler(m, (int)i, &requests[i].config,
                                          &(struct opening){.first = requests[i].config.period});
        if (result < 0)
            cp__perf_explain(result, &requests[i], err);
        else
            result = probe_ring(m, (int)i, &requests[i], err);
    }
    while (i-- > 0)
        close_events_from_handler(m, (int)i);
    cp__m_free(m);
    return result;
}

/* The ring is not mapped in the child (VM_DONTCOPY). The child's descriptors share the parent's events,
 * so nothing here may change an event; asking for an event's id does not. */
void cp__events_forget(struct cp__m *m)
{
    struct cp__perf_m *perf = cp__perf_of(m);

    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        struct cp__perf_handle *handle = &perf->handles[slot];

        for (int i = 0; i < handle->n_events && i < CP__CORE_PMUS; i++)
            cp__perf_close_from_handler(handle->events[i].fd, handle->events[i].id);
        cp__events_clear_from_handler(m, slot);
    }
    if (perf->ring.page != NULL)
        cp__perf_close_from_handler(perf->ring.fd, perf->ring.id);
    perf->ring = (struct cp__ring){.page = NULL};
    perf->pausing = 0;
}
