/*
 * A limit that the kernel keeps for each sampling event.
 *
 * If a clock's period is shorter than what the machine needs for one overflow, its thread runs no
 * instruction any more: it cannot disable the event, nobody can kill it, and whoever needs its CPU waits,
 * too. Only the kernel can end that. So each event begins with a limit (PERF_EVENT_IOC_REFRESH): the
 * kernel counts the limit down at each overflow, and disables the event at 0. Whoever gets to run renews
 * the limit:
 *
 *     the handler    when half of the limit is used
 *     a reader       for a thread that blocks the signal
 *
 * Neither does so if the thread made no progress since the last time.
 *
 * An event's limit is what it began with, less its overflows, plus what it was renewed by. Every overflow
 * leaves a record, or is counted as lost, so whoever renews adds what has been used since the last time:
 * taken and lost together, less renewed. renewed is moved by compare-and-swap, and only who moves it adds
 * to the limit. So two who renew at once do not add twice, and the limit never exceeds what it began
 * with, except by the records that wait in the ring when a reader restarts the event.
 *
 * Without a ring, signals that coalesce are not heard of, so what has been used is not known. But the
 * signal of the last overflow says that it is the last one. The handler then begins anew with a whole
 * limit. If that signal itself coalesced with another one, a reader finds that the event has ended.
 *
 * PERF_EVENT_IOC_ENABLE would take the limit away for good if the limit has been reached.
 * cp__perf_let_count_from_handler() is the only way to let a sampling event count.
 */
#include "limits_linux.h"

#include <linux/perf_event.h>

#include "periods_linux.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"
#include "runtime/cost.h"
#include "runtime/perf/perf_linux.h"
#include "runtime/watch.h"

/* ---- On the M -------------------------------------------------------------------------------- */

int cp__limits_begin_from_handler(struct cp__m *m, int slot)
{
    struct cp__handle *handle = &m->handles[slot];
    int result = 0;

    handle->armed_at = cp__os_clock_ns_from_handler(m->cpu_clock);
    for (int i = 0; i < handle->n_events && result == 0; i++)
        result = cp__perf_let_count_from_handler(handle->events[i].fd, handle->limit);
    return result;
}

/* What is known of an event's limit. */
struct use {
    uint64_t renewed; /* of all overflows, those for which the limit was renewed */
    int64_t used;     /* the others; less than 0 if the event was resumed more often than it has overflowed */
};

static struct use use_from_handler(const struct cp__perf_event *event, uint64_t lost)
{
    /* relaxed, both: the compare-and-swap of renew_from_handler() decides */
    uint64_t renewed = cp_load_relaxed(&event->renewed);

    return (struct use){.renewed = renewed,
                        .used = (int64_t)(cp_load_relaxed(&event->taken) + lost - renewed)};
}

/* Returns how many records the event has lost, as its last record told. */
static uint64_t known_lost_from_handler(const struct cp__m *m, int slot, int which)
{
    /* relaxed: nothing else depends on the number */
    return cp__perf_has_lost_count ? cp_load_relaxed(&m->stats[slot].counts[which].lost) : 0;
}

static bool read_from_handler(const struct cp__perf_event *event, struct cp__count *count)
{
    *count = (struct cp__count){.lost = 0};
    return cp__perf_is_event_from_handler(event->fd, event->id) &&
           cp__sys_read_from_handler(event->fd, count, sizeof *count) > 0;
}

/* Returns how often a clock may have overflowed since its limit was last whole. A full ring also loses
 * records of throttling, two in each tick, which the kernel counts as lost and which were no overflows. */
static uint64_t most_used_from_handler(const struct cp__handle *handle, const struct cp__perf_event *event,
                                       const struct cp__count *count)
{
    const uint64_t period = handle->period * cp__periods_stretch_from_handler(handle);

    if (handle->kind != CP_EVENT_CLOCK)
        return UINT64_MAX;
    /* relaxed: a number of its own */
    return (count->time_enabled - cp_load_relaxed(&event->renewed_at)) / period + 1;
}

/* Adds to the event's limit what has been used of it, and lets the event count. Does nothing if somebody else
 * has renewed the limit since use was looked at. */
static void renew_from_handler(const struct cp__handle *handle, struct cp__perf_event *event, struct use use,
                               const struct cp__count *count)
{
    uint64_t used = (uint64_t)use.used, most = most_used_from_handler(handle, event, count);

    /* pairs with the same exchange of another thread */
    if (!cp_compare_exchange(&event->renewed, &use.renewed, use.renewed + used))
        return;
    cp_store_relaxed(&event->renewed_at, count->time_enabled); /* relaxed: a number of its own */
    cp__perf_let_count_from_handler(event->fd, used < most ? used : most);
}

/*
 * Returns whether a thread got on while its event overflowed n times in ns of the event's time. Either a
 * clock's samples came in time: if they leave no time, each comes as soon as the one before it is over, and
 * that is later than a period. Or there was half as much time again as the samples cost.
 */
static bool makes_progress_from_handler(const struct cp__handle *handle, uint64_t n, uint64_t ns)
{
    const uint64_t period = handle->period * cp__periods_stretch_from_handler(handle);
    const uint64_t cost = cp__cost_or_assumed_from_handler();

    if (handle->kind == CP_EVENT_CLOCK && period >= cost && 4 * ns <= 5 * n * period)
        return true;
    return 2 * ns >= 3 * n * cost;
}

/* The same, for the last n overflows of event number which, since its limit was last whole. */
static bool made_progress_from_handler(const struct cp__handle *handle, int which, uint64_t n,
                                       const struct cp__count *count)
{
    /* relaxed: a number of its own */
    uint64_t since = cp_load_relaxed(&handle->events[which].renewed_at);

    return makes_progress_from_handler(handle, n, count->time_enabled - since);
}

/* Asks the kernel how many records were lost, because an event that has reached its limit must not count
 * again at once: a reader finds out first whether its thread can bear that. An event that the handler has
 * disabled for its own time is renewed when it is resumed. A thread of the library's own takes no more
 * samples than its event began with. */
__attribute__((noinline)) static void renew_half_used_from_handler(struct cp__m *m, int slot, int which)
{
    struct cp__handle *handle = &m->handles[slot];
    struct cp__perf_event *event = &handle->events[which];
    struct cp__count count;
    struct use use;

    /* relaxed: looked at again below */
    if (m->is_of_library || ((cp_load_relaxed(&m->off) | m->paused) >> slot & 1) != 0 ||
        !read_from_handler(event, &count))
        return;
    use = use_from_handler(event, count.lost);
    if (use.used <= 0 || use.used >= handle->limit)
        return;
    if (!made_progress_from_handler(handle, which, (uint64_t)use.used, &count))
        return;
    renew_from_handler(handle, event, use, &count);
    /* relaxed, as in cp__events_resume_from_handler(): if another thread disables the event meanwhile, one of
     * the two sees that */
    if ((cp_load_relaxed(&m->off) >> slot & 1) != 0)
        cp__sys_ioctl_from_handler(event->fd, PERF_EVENT_IOC_DISABLE, 0);
}

/* Without a ring, only the end of an event tells what was used. */
void cp__limits_renew_from_handler(struct cp__m *m)
{
    /* relaxed, all: stored by this thread */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1) {
        int slot = __builtin_ctz(armed);
        const struct cp__handle *handle = &m->handles[slot];

        if (handle->limit == 0 || cp_load_relaxed(&m->stats[slot].ringless) != 0)
            continue;
        for (int i = 0; i < handle->n_events; i++) {
            uint64_t lost = known_lost_from_handler(m, slot, i);

            if (2 * use_from_handler(&handle->events[i], lost).used >= handle->limit)
                renew_half_used_from_handler(m, slot, i);
        }
    }
}

/* The event does not count, so nobody else renews its limit meanwhile. */
static void begin_anew_from_handler(const struct cp__handle *handle, struct cp__perf_event *event,
                                    const struct cp__count *count)
{
    /* relaxed, all: numbers of their own */
    cp_store_relaxed(&event->renewed, cp_load_relaxed(&event->taken) + count->lost);
    cp_store_relaxed(&event->renewed_at, count->time_enabled);
    cp__perf_let_count_from_handler(event->fd, handle->limit);
}

/* Returns whether the event does not count: one that does has counted something between two calls. */
static bool is_still_from_handler(const struct cp__perf_event *event, struct cp__count *count)
{
    struct cp__count before;

    return read_from_handler(event, &before) && read_from_handler(event, count) &&
           before.time_enabled == count->time_enabled;
}

/* A reader may have let the event count again while the signal waited. If another thread has the claim, it
 * is looking at the event itself, or disables it. */
void cp__limits_ended_from_handler(struct cp__m *m, int slot, int which)
{
    struct cp__handle *handle = &m->handles[slot];
    struct cp__count count;

    if (handle->limit == 0 || m->is_of_library || !cp__m_claim_from_handler(m, CP__CLAIM_SELF))
        return;
    /* relaxed: written with the claim */
    if (((cp_load_relaxed(&m->off) | m->paused) >> slot & 1) == 0 &&
        is_still_from_handler(&handle->events[which], &count) &&
        made_progress_from_handler(handle, which, handle->limit, &count))
        begin_anew_from_handler(handle, &handle->events[which], &count);
    cp__m_unclaim_from_handler(m);
}

bool cp__limits_are_used_up_from_handler(const struct cp__m *m, int slot)
{
    const struct cp__handle *handle = &m->handles[slot];

    return use_from_handler(&handle->events[0], 0).used >= handle->limit;
}

/* Renews the limit by what the event has used, which is one sample usually. If the event has not
 * overflowed since it was last resumed, nothing is added, or the limit would rise with each run of the
 * handler. The limit must not be 0 then, which only the kernel's number of lost records tells. Records that
 * have waited carry an old number. */
static void resume_from_handler(struct cp__m *m, int slot, int which)
{
    const struct cp__handle *handle = &m->handles[slot];
    struct cp__perf_event *event = &m->handles[slot].events[which];
    struct use use = use_from_handler(event, known_lost_from_handler(m, slot, which));
    struct cp__count count = {.time_enabled = cp_load_relaxed(&m->stats[slot].counts[which].time_enabled)};

    if (handle->limit != 0 && use.used != 1 && read_from_handler(event, &count))
        use = use_from_handler(event, count.lost);
    if (handle->limit == 0 || use.used <= 0)
        cp__perf_let_count_from_handler(event->fd, 0);
    else if (use.used < handle->limit)
        renew_from_handler(handle, event, use, &count);
}

void cp__limits_resume_from_handler(struct cp__m *m, int slot)
{
    for (int i = 0; i < m->handles[slot].n_events; i++)
        resume_from_handler(m, slot, i);
}

/* Where a clock of the kernel is coarse, an event that counts may seem to stand between two calls. */
#define TOLD_FROM_NS 1000000

/* Tells that the slot's event, which counted for time_enabled, has reached its limit. */
static void tell_end_from_handler(struct cp__m *m, int slot, uint64_t time_enabled)
{
    struct cp__m_stats *stats = &m->stats[slot];
    uint64_t missed = cp__watch_missed_from_handler(m, slot, time_enabled);

    if (missed < TOLD_FROM_NS)
        return;
    /* relaxed, both: written with the claim */
    cp_store_relaxed(&stats->stops, stats->stops + 1);
    cp_store_relaxed(&stats->stopped_ns, stats->stopped_ns + missed);
}

/* Returns whether the slot's events have a limit, and nobody has disabled them. */
static bool is_limited_from_handler(const struct cp__m *m, int slot)
{
    /* relaxed: written with the claim */
    return m->handles[slot].limit != 0 && ((cp_load_relaxed(&m->off) | m->paused) >> slot & 1) == 0;
}

void cp__limits_tell_end_from_handler(struct cp__m *m, int slot)
{
    struct cp__count count;

    if (is_limited_from_handler(m, slot) && is_still_from_handler(&m->handles[slot].events[0], &count))
        tell_end_from_handler(m, slot, count.time_enabled);
}

/* ---- From outside ---------------------------------------------------------------------------- */

/* No sample's record has fewer bytes: header, identifier, count. */
#define LEAST_SAMPLE 40

/* Returns how many samples at most wait in m's ring, which have not been counted as taken. With the claim, so
 * that the ring stays. */
static int64_t unread_from_outside(const struct cp__m *m)
{
    const struct perf_event_mmap_page *page = m->ring.page;

    /* relaxed, both: numbers of their own; m's handler may be reading the ring */
    return page == NULL ? 0
                        : (int64_t)((cp_load_relaxed(&page->data_head) - cp_load_relaxed(&page->data_tail)) /
                                    LEAST_SAMPLE);
}

static bool has_event_ended(struct cp__m *m, int slot, int which, uint64_t *time_enabled)
{
    struct cp__handle *handle = &m->handles[slot];
    struct cp__perf_event *event = &handle->events[which];
    struct cp__count count;
    struct use use;
    bool is_still;

    if (!read_from_handler(event, &count))
        return false;
    *time_enabled = count.time_enabled;
    is_still = count.time_enabled == event->seen;
    event->seen = count.time_enabled;
    use = use_from_handler(event, count.lost);
    if (is_still || 2 * use.used < handle->limit || use.used + unread_from_outside(m) >= handle->limit)
        return is_still; /* the next look tells whether an event that has used its limit has ended */
    if (made_progress_from_handler(handle, which, (uint64_t)use.used, &count))
        renew_from_handler(handle, event, use, &count);
    return false;
}

bool cp__limits_have_ended(struct cp__m *m, int slot, uint64_t *time_enabled)
{
    struct cp__handle *handle = &m->handles[slot];
    bool any = false;

    for (int i = 0; i < handle->n_events && handle->limit != 0; i++)
        any |= has_event_ended(m, slot, i, time_enabled);
    return any;
}

/* If the period grows so far, the event is as good as stopped. */
#define MOST_STRETCH 1024

/* Doubles the number of periods after which the handle's events are sampled. */
static void stretch(struct cp__handle *handle)
{
    uint64_t twice = 2 * cp__periods_stretch_from_handler(handle);
    uint64_t period = handle->period * twice;

    if (twice > MOST_STRETCH)
        return;
    for (int i = 0; i < handle->n_events; i++)
        cp__sys_ioctl_from_handler(handle->events[i].fd, PERF_EVENT_IOC_PERIOD, (unsigned long)&period);
    cp_store_relaxed(&handle->stretch,
                     (uint32_t)twice); /* relaxed: records that still wait count as the later ones do */
}

/* If time_enabled has moved since the last look, the event counts: another one of the handle's has ended. */
static void restart_event(const struct cp__handle *handle, struct cp__perf_event *event)
{
    struct cp__count count;

    if (!read_from_handler(event, &count) || count.time_enabled != event->seen)
        return;
    event->seen = 0;
    begin_anew_from_handler(handle, event, &count);
}

void cp__limits_restart(struct cp__m *m, int slot)
{
    struct cp__handle *handle = &m->handles[slot];
    const struct cp__perf_event *first = &handle->events[0];

    /* relaxed: a number of its own */
    if (!makes_progress_from_handler(handle, handle->limit,
                                     first->seen - cp_load_relaxed(&first->renewed_at)))
        stretch(handle);
    for (int i = 0; i < handle->n_events; i++)
        restart_event(handle, &handle->events[i]);
}
