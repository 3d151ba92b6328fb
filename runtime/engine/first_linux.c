/*
 * An event's first period, and what its first signal changes.
 *
 * The first period of each thread is drawn from 1 to the period, so that threads that are shorter than a
 * period have their share of the samples: a thread that counts a tenth of a period has one with a chance of a
 * tenth. Only the kernel's clocks and a PMU's events have a first period that is drawn. The first sample
 * gives such an event its own period, once, because that takes some microseconds (PERF_EVENT_IOC_PERIOD). The
 * kernel's other events would overflow at once if their period was changed.
 *
 * A thread that attaches while the slot runs has begun its first period with its life: what it has run before
 * that, less than a period, is sampled like the rest. If the first period is over then, the sample is taken
 * in the attach.
 *
 * A first period that is very short would leave the thread no time if its samples are not heard of at once:
 * the thread may block the signal. So the event is opened with a period that a thread can bear, and its first
 * sample comes somewhat late. Which periods are over is reckoned by what was drawn: as if the first period
 * had been a whole one that began so much earlier (phase of struct cp__periods).
 *
 * If another thread opens the event, the first signal also gives the M its ring. Rings are scarce and events
 * are not, and most threads of a process may sleep. That signal is a sample, and the event's count tells how
 * many periods it stands for. If a sample needs fields of the record,
 * and if the M opens the event itself, and so runs, it gets its ring at once.
 */
#include "first_linux.h"

#include <linux/perf_event.h>

#include "descriptors_linux.h"
#include "limits_linux.h"
#include "perf_m_linux.h"
#include "periods_linux.h"
#include "ring_linux.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/cost.h"
#include "runtime/perf/perf_linux.h"

/* ---- The first period ------------------------------------------------------------------------ */

/* A thread that keeps half of its time gets on. No PMU counts an event more often than five times a
 * nanosecond. */
#define COSTS_A_PERIOD 2
#define EVENTS_A_NS 5

static uint64_t least_bearable_from_handler(enum cp_event_kind kind)
{
    return COSTS_A_PERIOD * cp__cost_or_assumed_from_handler() * (kind != CP_EVENT_CLOCK ? EVENTS_A_NS : 1);
}

uint64_t cp__first_bearable_from_handler(uint64_t first, enum cp_event_kind kind, uint64_t period)
{
    uint64_t least = least_bearable_from_handler(kind);

    if (least > period)
        least = period;
    return first > least ? first : least;
}

/* The cost that was measured may be too small, and other events of the thread may begin as early. */
#define BEARABLES_A_PERIOD 4

bool cp__first_leaves_time_from_handler(uint64_t begins_with, enum cp_event_kind kind)
{
    return cp__event_may_starve(kind) &&
           begins_with >= BEARABLES_A_PERIOD * least_bearable_from_handler(kind);
}

/* A thread of the library's own measures what whole periods cost. */
uint64_t cp__first_draw_from_handler(struct cp__m *m, const struct cp__slot_config *config)
{
    uint64_t period = config->config.period;

    if (m->is_of_library || !cp__event_may_starve(config->kind))
        return period;
    return 1 + cp__m_random_from_handler(m) % period;
}

uint64_t cp__first_head_from_handler(const struct cp__m *m, int slot, uint64_t period)
{
    /* relaxed: stored by this thread */
    const bool knows = m == cp__m_current && m->is_starting && cp_load_relaxed(&m->stats[slot].excludes) == 0;
    uint64_t ran = knows ? cp__os_clock_ns_from_handler(m->cpu_clock) : 0;

    return ran < period ? ran : 0;
}

uint64_t cp__first_left_from_handler(struct cp__m *m, int slot, uint64_t period, uint64_t drawn,
                                     uint64_t head)
{
    struct cp__m_stats *stats = &m->stats[slot];

    cp_store_relaxed(&stats->head_ns, head); /* relaxed, both: numbers of their own */
    cp_store_relaxed(&stats->phase, period - drawn);
    if (drawn > head)
        return drawn - head;
    m->due |= 1u << slot;
    return drawn + period - head;
}

/* The system calls that open an event take as long as a short thread may live, so the period is shortened
 * when they are over. */
void cp__first_begin_from_handler(struct cp__m *m, int slot)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    const uint64_t period = handle->period;
    uint64_t head = handle->kind == CP_EVENT_CLOCK ? cp__first_head_from_handler(m, slot, period) : 0;
    uint64_t first, begins_with;

    if (head == 0)
        return;
    first = cp__first_left_from_handler(m, slot, period, period - handle->periods.phase, head);
    begins_with = cp__first_bearable_from_handler(first, handle->kind, period);
    handle->periods.phase = period - first;
    handle->events[0].first = begins_with != period ? begins_with : 0;
    cp_store_relaxed(&m->stats[slot].behind, begins_with - first); /* relaxed: a number of its own */
    cp__descriptor_control_from_handler(m, slot, 0, PERF_EVENT_IOC_PERIOD, (unsigned long)&begins_with);
}

/* Needs no claim: of the handler and a thread with the claim OUTSIDE, only the one that takes `first` changes
 * the period. */
void cp__first_over_from_handler(struct cp__m *m, int slot, int which)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    const uint64_t period = handle->period * cp__handle_stretch(handle);
    uint64_t first = cp_load_relaxed(&handle->events[which].first); /* relaxed: the exchange decides */

    /* pairs with the same exchange of another thread */
    if (first != 0 && cp_compare_exchange(&cp__perf_of(m)->handles[slot].events[which].first, &first, 0))
        cp__descriptor_control_from_handler(m, slot, which, PERF_EVENT_IOC_PERIOD, (unsigned long)&period);
}

static void look_at_event(struct cp__m *m, int slot, int which)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    uint64_t first = cp_load_relaxed(&handle->events[which].first); /* relaxed: a number of its own */
    struct cp__count count;

    if (first == 0 || !cp__descriptor_read_from_handler(m, slot, which, &count))
        return;
    if ((handle->kind == CP_EVENT_CLOCK ? count.time_running : count.value) > first)
        cp__first_over_from_handler(m, slot, which);
}

void cp__first_look(struct cp__m *m, int slot)
{
    for (int i = 0; i < cp__perf_of(m)->handles[slot].n_events; i++)
        look_at_event(m, slot, i);
}

/* ---- The ring -------------------------------------------------------------------------------- */

static bool awaits_ring(const struct cp__m *m, int slot)
{
    /* relaxed: stored with the claim */
    return cp_load_relaxed(&m->stats[slot].ringless) == CP__AWAITS_RING;
}

bool cp__first_can_wait_from_handler(const struct cp__m *m, int slot)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];

    return m != cp__m_current && !cp__record_has_detail(&handle->layout, handle->is_precise);
}

int cp__first_join_from_handler(struct cp__m *m, int slot, bool will_wait)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    int result = cp__ring_hold_from_handler(m, will_wait || handle->layout.chain != 0);

    if (result < 0)
        return result;
    for (int i = 0; i < handle->n_events && result == 0; i++) {
        result = cp__ring_join_from_handler(m, slot, i);
        while (result < 0 && i-- > 0)
            cp__ring_part_from_handler(m, slot, i);
    }
    cp__ring_leave_from_handler(&cp__perf_of(m)->ring);
    return result;
}

void cp__first_give_ring_from_handler(struct cp__m *m, int slot, bool will_wait)
{
    bool has_ring = cp__first_join_from_handler(m, slot, will_wait) == 0;

    /* relaxed: stored with the claim */
    cp_store_relaxed(&m->stats[slot].ringless, has_ring ? CP__HAS_RING : CP__RING_REFUSED);
}

/* The same for an event that others have opened. If the ring has one of the last descriptors, these are left
 * to the program. */
static void give_ring_later_from_handler(struct cp__m *m, int slot, bool will_wait)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    const struct cp__ring *ring = &cp__perf_of(m)->ring;

    cp__first_give_ring_from_handler(m, slot, will_wait);
    if (ring->page == NULL || ring->users > handle->n_events || !cp__perf_is_left_from_handler(ring->fd))
        return;
    for (int i = 0; i < handle->n_events; i++)
        cp__ring_part_from_handler(m, slot, i);
    cp_store_relaxed(&m->stats[slot].ringless, CP__RING_REFUSED); /* relaxed: stored with the claim */
}

/* ---- The first signal ------------------------------------------------------------------------ */

/* Reads what the slot's events have counted. Returns false if one of them cannot be read. */
static bool read_counts_from_handler(struct cp__m *m, int slot, struct cp__count *first)
{
    struct cp__count count;

    for (int i = 0; i < cp__perf_of(m)->handles[slot].n_events; i++) {
        if (!cp__descriptor_read_from_handler(m, slot, i, &count))
            return false;
        cp__periods_note_count_from_handler(m, slot, i, &count);
        if (i == 0)
            *first = count;
    }
    return true;
}

/* A quarter of a period is allowed for, as for a record. */
bool cp__first_is_earlier_from_handler(struct cp__m *m, int slot)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    struct cp__count first;

    /* relaxed: set before the event was opened, or while this handler kept off */
    if (handle->traps || cp_load_relaxed(&m->late) == CP__LATE_NO ||
        !read_counts_from_handler(m, slot, &first))
        return false;
    return handle->periods.phase + cp__m_count_from_handler(&m->stats[slot]) + handle->period / 4 <
           handle->periods.accounted + handle->period;
}

/* Counts the first signal as the record that it has not left. */
static void count_signal_from_handler(struct cp__m *m, int slot, struct cp__moment *moment)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    uint64_t periods = cp__handle_stretch(handle), stalled = 0;
    struct cp__count count;

    if (read_counts_from_handler(m, slot, &count))
        periods = cp__periods_of_record_from_handler(m, slot, &count, &stalled);
    else
        handle->periods.accounted += periods * handle->period;
    if (periods != 0)
        cp__moment_add_from_handler(moment, slot, periods);
    moment->stalled[slot] += stalled;
}

/* Passes over what the event has counted without a signal that was heard of, or a record: nobody knows where
 * that was. It has no samples, and is told as that: see runtime/coverage.h. */
static void skip_unheard_from_handler(struct cp__m *m, int slot)
{
    cp__limits_take_from_handler(&cp__perf_of(m)->handles[slot], 0, cp__periods_skip_from_handler(m, slot));
}

void cp__first_kept_off_from_handler(struct cp__m *m, int slot)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    struct cp__count count;

    /* relaxed: a handler that begins now is like one that begins just before the claim is given back */
    if (handle->counts_at_once && handle->runs != cp_load_relaxed(&m->runs) &&
        read_counts_from_handler(m, slot, &count))
        skip_unheard_from_handler(m, slot);
}

__attribute__((noinline)) void cp__first_heard_from_handler(struct cp__m *m, int slot, int which,
                                                            struct cp__moment *moment)
{
    count_signal_from_handler(m, slot, moment);
    cp__first_over_from_handler(m, slot, which);
    if (!cp__fork_delay_from_handler())
        return;
    if (cp__m_claim_from_handler(m, CP__CLAIM_SELF)) {
        skip_unheard_from_handler(m, slot);
        give_ring_later_from_handler(m, slot, false);
        cp__m_unclaim_from_handler(m);
    }
    cp__fork_allow_from_handler();
}

/* Returns whether the first period has been over for CP__MOMENT_NS of the thread's time. */
static bool is_overdue(const struct cp__m *m, int slot, const struct cp__count *count)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    uint64_t counted = cp__m_count_from_handler(&m->stats[slot]);
    uint64_t since_drawn = handle->periods.phase + counted;

    if (counted == 0 || since_drawn < handle->periods.accounted + handle->period)
        return false;
    return (double)(since_drawn - handle->periods.accounted - handle->period) * (double)count->time_running >=
           CP__MOMENT_NS * (double)counted;
}

/* A thread that has just lost its CPU hears of its signal when it goes on. */
void cp__first_unheard(struct cp__m *m, int slot)
{
    struct cp__count count;

    if (!awaits_ring(m, slot)) {
        cp__first_look(m, slot);
        return;
    }
    if (!read_counts_from_handler(m, slot, &count) || !is_overdue(m, slot, &count))
        return;
    for (int i = 0; i < cp__perf_of(m)->handles[slot].n_events; i++)
        cp__first_over_from_handler(m, slot, i);
    skip_unheard_from_handler(m, slot);
    give_ring_later_from_handler(m, slot, true);
}
