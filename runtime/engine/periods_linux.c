/*
 * Periods without a record, by the records' counts and times: skipped ones, lost ones, stalls of a virtual
 * machine, and throttling by the kernel. design/0002-the-ring-is-the-count.md has the cases and the figures.
 */
#include "periods_linux.h"

#include "perf_m_linux.h"

/* ---- Counts ---------------------------------------------------------------------------------- */

/* Returns the count from which periods are computed, as cp__m_count_from_handler() chooses it, as if the
 * first period had been a whole one. */
static uint64_t value_from_handler(const struct cp__perf_handle *handle, const struct cp__count *count)
{
    return handle->periods.phase + (handle->kind == CP_EVENT_CLOCK ? count->time_running : count->value);
}

void cp__periods_add_lost_from_handler(struct cp__m *m, int slot, uint64_t lost)
{
    cp_add_single_writer(&m->stats[slot].lost, lost);
    cp__perf_of(m)->handles[slot].periods.accounted += lost * cp__perf_of(m)->handles[slot].period;
}

/* Returns how many periods n overflows stand for. If the kernel samples after several periods, some of the
 * overflows may be from before that, and if the first period was drawn, some may be of that period: all
 * together stand for no more than the event has counted. */
static uint64_t stretched_from_handler(const struct cp__perf_handle *handle, const struct cp__count *count,
                                       uint64_t n)
{
    uint64_t stretch = cp__handle_stretch(handle), accounted = handle->periods.accounted, ahead, most;

    if ((stretch == 1 && handle->periods.phase == 0) || handle->n_events > 1)
        return stretch * n;
    ahead = value_from_handler(handle, count) + handle->period / 4;
    most = ahead > accounted ? (ahead - accounted) / handle->period : 0;
    return stretch * n < most ? stretch * n : most;
}

void cp__periods_note_count_from_handler(struct cp__m *m, int slot, int which, const struct cp__count *count)
{
    struct cp__count *last = &m->stats[slot].counts[which];
    uint64_t lost = count->lost - last->lost;

    if (cp__perf_has_lost_count && lost != 0) {
        cp_add_single_writer(&m->stats[slot].interrupts, lost);
        cp__periods_add_lost_from_handler(
            m, slot, stretched_from_handler(&cp__perf_of(m)->handles[slot], count, lost));
    }
    cp_store_relaxed(&last->value, count->value); /* relaxed, all: numbers of their own */
    cp_store_relaxed(&last->time_enabled, count->time_enabled);
    cp_store_relaxed(&last->time_running, count->time_running);
    cp_store_relaxed(&last->lost, count->lost);
}

/* Without a ring, a period is lost if its signal came while another one was pending. With a ring, the last
 * records of a clock are lost if the ring was full. The periods of a clock that passed while a virtual
 * machine stood still have a single record, which was among the lost ones. */
void cp__periods_lose_rest_from_handler(struct cp__m *m, int slot, bool ring_was_full)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    const struct cp__m_stats *stats = &m->stats[slot];
    uint64_t count = handle->periods.phase + cp__m_count_from_handler(stats);
    /* relaxed, all: stored by this thread */
    bool is_known = cp_load_relaxed(&stats->ringless) != 0
                        ? handle->kind != CP_EVENT_CLOCK || handle->periods.folds
                        : ring_was_full && handle->periods.folds && cp_load_relaxed(&stats->throttled) == 0;

    if (is_known && count > handle->periods.accounted)
        cp__periods_add_lost_from_handler(m, slot, (count - handle->periods.accounted) / handle->period);
}

/* A clock's timer is behind the clock's count: the second period begins when the handler of the first sample
 * has given it, and each switch between threads delays the timer a little. */
uint64_t cp__periods_of_rest_from_handler(struct cp__m *m, int slot)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    const struct cp__m_stats *stats = &m->stats[slot];
    const uint64_t count = handle->periods.phase + cp__m_count_from_handler(stats);
    const uint64_t accounted = handle->periods.accounted;
    uint64_t n;

    /* relaxed, both: stored with the claim */
    if (!handle->periods.folds || cp_load_relaxed(&stats->throttled) != 0 ||
        cp_load_relaxed(&stats->ringless) == CP__RING_REFUSED || count < accounted)
        return 0;
    n = (count - accounted) / handle->period;
    if (n > cp__handle_stretch(handle))
        return 0;
    handle->periods.accounted += n * handle->period;
    return n;
}

uint64_t cp__periods_skip_from_handler(struct cp__m *m, int slot)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    uint64_t count = handle->periods.phase + cp__m_count_from_handler(&m->stats[slot]), n;

    if ((handle->kind == CP_EVENT_CLOCK && !handle->periods.folds) || count <= handle->periods.accounted)
        return 0;
    n = (count - handle->periods.accounted) / handle->period;
    handle->periods.accounted += n * handle->period;
    return n;
}

/* ---- Throttling ------------------------------------------------------------------------------ */

/* There are two upper bounds on the thread's time while the event was throttled: the event's running time
 * from the record that throttled it to the next one, which includes a part of a period that counted, and
 * most, the wall time of the throttling, which includes time when the thread did not run. The smaller one is
 * taken. */
static void add_throttled_from_handler(struct cp__m *m, int slot, const struct cp__count *count,
                                       uint64_t most)
{
    uint64_t ns = count->time_running - cp__perf_of(m)->handles[slot].periods.throttling.running;

    cp_add_single_writer(&m->stats[slot].throttled_ns, ns < most ? ns : most);
}

void cp__periods_end_throttling_from_handler(struct cp__m *m, int slot, const struct cp__count *count)
{
    const struct cp__periods *periods = &cp__perf_of(m)->handles[slot].periods;

    if (periods->is_throttled)
        add_throttled_from_handler(m, slot, count, UINT64_MAX);
    else if (periods->was_throttled)
        add_throttled_from_handler(m, slot, count, periods->throttling.ns);
}

/* The record of the sample that throttled the event comes between the THROTTLE and the UNTHROTTLE record,
 * and sets throttling.running anew. If a full ring has lost the THROTTLE record, the UNTHROTTLE record tells
 * of the throttling, and when it began is not known. */
void cp__periods_throttled_from_handler(struct cp__m *m, int slot, int which, bool begins, uint64_t time)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    struct cp__periods *periods = &handle->periods;

    if (begins || !periods->is_throttled) {
        periods->throttling.since = begins ? time : 0;
        periods->throttling.running = m->stats[slot].counts[which].time_running;
        cp_add_single_writer(&m->stats[slot].throttled, 1);
    }
    if (!begins) {
        periods->throttling.ns = time - periods->throttling.since;
        periods->was_throttled = true;
    }
    periods->is_throttled = begins;
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Neither the program nor the kernel delays an interrupt this long; only a descheduled virtual CPU does. No
 * function is charged for such a delay. */
#define STALL_NS 2000000

/*
 * The kernel's clocks skip the periods that pass while their timer interrupt is delayed (interrupts are off,
 * or a virtual CPU does not run): one record comes late, and its count tells how late. The program stood
 * still at that very place, so the skipped periods belong to this record, as a POSIX timer's overruns do. A
 * quarter of a period is allowed for the way from the interrupt to the reading of the count.
 *
 * A record stands for one period in two cases. If the kernel is excluded (folds is false), periods that end
 * in the kernel have no record although the count goes on. If the kernel has throttled the event, the program
 * went on meanwhile, to unknown places. If the event is sampled after several of its periods (stretch), it is
 * these.
 */
static uint64_t fold_from_handler(struct cp__perf_handle *handle, const struct cp__count *counted)
{
    struct cp__periods *periods = &handle->periods;
    uint64_t ahead = value_from_handler(handle, counted) + handle->period / 4;
    uint64_t stretch = stretched_from_handler(handle, counted, 1);
    uint64_t n = stretch != 0 ? stretch : 1;

    if (periods->folds)
        n = ahead >= periods->accounted + 2 * handle->period ? (ahead - periods->accounted) / handle->period
                                                             : 1;
    periods->accounted += n * handle->period;
    if (periods->was_throttled)
        n = cp__handle_stretch(handle);
    periods->was_throttled = false;
    return n;
}

/*
 * Returns whether a record of an event with a drawn first period stands for no period.
 *
 * The event overflows by its first period until its handler runs, which a thread in the kernel, or one that
 * blocks the signal, delays: such records come before the period that they end.
 *
 * If the kernel is excluded, a first period that ends in the kernel has no record, and the program has not
 * been hit by what was drawn. The record of a later end of the same period must not make up for that, or
 * short threads that are mostly in the kernel would have more than their share.
 */
static bool is_vain_from_handler(const struct cp__perf_handle *handle, const struct cp__count *count)
{
    const struct cp__periods *periods = &handle->periods;
    uint64_t first = cp_load_relaxed(&handle->events[0].first); /* relaxed: a number of its own */

    if (periods->phase == 0 || handle->n_events > 1)
        return false;
    if (value_from_handler(handle, count) < periods->accounted + handle->period / 2)
        return true;
    return handle->kind == CP_EVENT_CLOCK && !periods->folds && first != 0 &&
           count->time_running > first + first / 2;
}

/* Returns n, less those periods that took too long to be the program's, which *stalled receives. */
static uint64_t split_from_handler(struct cp__m *m, int slot, uint64_t n, uint64_t *stalled)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    uint64_t stretch = cp__handle_stretch(handle);

    *stalled = 0;
    if (n <= stretch)
        return n;
    cp_add_single_writer(&m->stats[slot].multiples, 1);
    cp_add_single_writer(&m->stats[slot].overruns, n - stretch);
    if ((n - stretch) * handle->period > STALL_NS)
        *stalled = n - stretch;
    return n - *stalled;
}

/* Notes by how much samples come after the ends of their periods: the event counts while its handler runs
 * that gives it its own period, and the first sample may be late already. If a record is later than that, so
 * is it alone. Where a mode is excluded, the record may be of a later end of its period. */
static void note_behind_from_handler(struct cp__m *m, int slot, const struct cp__count *count)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    const struct cp__periods *periods = &handle->periods;
    uint64_t value = value_from_handler(handle, count);
    uint64_t behind = value > periods->accounted ? value - periods->accounted : 0;

    if (behind < handle->period / 2 && handle->n_events == 1 &&
        (handle->kind != CP_EVENT_CLOCK || periods->folds))
        cp_store_relaxed(&m->stats[slot].behind, behind); /* relaxed: a number of its own */
}

uint64_t cp__periods_of_record_from_handler(struct cp__m *m, int slot, const struct cp__count *count,
                                            uint64_t *stalled)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    bool is_vain = is_vain_from_handler(handle, count);
    uint64_t n;

    if (handle->periods.was_throttled && !is_vain) /* the next record tells it, then */
        add_throttled_from_handler(m, slot, count, handle->periods.throttling.ns);
    if (handle->periods.is_throttled)
        handle->periods.throttling.running = count->time_running;
    *stalled = 0;
    if (is_vain)
        return 0;
    n = fold_from_handler(handle, count);
    note_behind_from_handler(m, slot, count);
    return split_from_handler(m, slot, n, stalled);
}
