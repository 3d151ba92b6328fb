/*
 * An event's first period.
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
 */
#include "first_linux.h"

#include <linux/perf_event.h>

#include "descriptors_linux.h"
#include "perf_m_linux.h"
#include "runtime/base/os.h"
#include "runtime/cost.h"

/* A thread that keeps half of its time gets on. No PMU counts an event more often than five times a
 * nanosecond. */
#define COSTS_A_PERIOD 2
#define EVENTS_A_NS 5

uint64_t cp__first_bearable_from_handler(uint64_t first, enum cp_event_kind kind, uint64_t period)
{
    uint64_t least = COSTS_A_PERIOD * cp__cost_or_assumed_from_handler();

    if (kind != CP_EVENT_CLOCK)
        least *= EVENTS_A_NS;
    if (least > period)
        least = period;
    return first > least ? first : least;
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
    const bool knows = m->is_starting && cp_load_relaxed(&m->stats[slot].excludes) == 0;
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
