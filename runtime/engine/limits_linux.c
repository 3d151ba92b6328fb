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
 * Neither does so if the thread made no progress since the last time. That is judged by the overflows of all
 * events of the thread together: eight clocks may leave it no time although each of them alone would.
 *
 * An event's limit is what it began with, less its overflows, plus what it was renewed by. Every overflow
 * leaves a record, or is counted as lost, so whoever renews adds what has been used since the last time:
 * taken and lost together, less renewed. renewed is moved by compare-and-swap, and only who moves it adds
 * to the limit. So two who renew at once do not add twice, and the limit does not exceed what it began
 * with, or twice that, if a reader adds to a limit that is reached just then. Kernels before 6.0 do not tell
 * what was lost.
 *
 * Without a ring, signals that coalesce are not heard of, so what has been used is not known. But the
 * signal of the last overflow says that it is the last one. The handler then begins anew with a whole
 * limit. If that signal itself coalesced with another one, a reader finds that the event has ended.
 *
 * An event that traps may count from its open on, if its period leaves its thread time, and gets its limit by
 * the next call. Then the kernel need not interrupt the CPU on which the thread last ran a second time, to
 * enable the event. What overflows between the two calls counts as used: the limit is renewed a little early.
 *
 * PERF_EVENT_IOC_ENABLE would take the limit away for good if the limit has been reached.
 * cp__perf_let_count_from_handler() is the only way to let a sampling event count.
 */
#include "limits_linux.h"

#include <errno.h>
#include <linux/perf_event.h>

#include "descriptors_linux.h"
#include "first_linux.h"
#include "perf_m_linux.h"
#include "periods_linux.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"
#include "runtime/cost.h"
#include "runtime/ended.h"
#include "runtime/overload.h"
#include "runtime/perf/perf_linux.h"

/* ---- On the M -------------------------------------------------------------------------------- */

static int64_t limit_of(const struct cp__perf_handle *handle)
{
    return cp_load_relaxed(&handle->limit); /* relaxed: a number of its own */
}

/* What is known of an event's limit. */
struct use {
    uint64_t renewed; /* of all overflows, those for which the limit was renewed */
    int64_t used;     /* the others; less than 0 if the event was resumed more often than it has overflowed */
};

/* Returns of how many overflows the M has heard. */
static uint64_t heard_from_handler(const struct cp__perf_event *event, uint64_t lost)
{
    return cp_load_relaxed(&event->taken) + lost; /* relaxed: a number of its own */
}

static struct use use_from_handler(const struct cp__perf_event *event, uint64_t lost)
{
    /* relaxed: the compare-and-swap of renew_from_handler() decides */
    uint64_t renewed = cp_load_relaxed(&event->renewed);

    return (struct use){.renewed = renewed, .used = (int64_t)(heard_from_handler(event, lost) - renewed)};
}

/* Returns how many records the event has lost, as its last record told. */
static uint64_t known_lost_from_handler(const struct cp__m *m, int slot, int which)
{
    /* relaxed: nothing else depends on the number */
    return cp__perf_has_lost_count ? cp_load_relaxed(&m->stats[slot].counts[which].lost) : 0;
}

/* Returns how often a clock may have overflowed since its limit was last whole. A full ring also loses
 * records of throttling, two in each tick, which the kernel counts as lost and which were no overflows. */
static uint64_t most_used_from_handler(const struct cp__perf_handle *handle,
                                       const struct cp__perf_event *event, const struct cp__count *count)
{
    uint64_t period = cp_load_relaxed(&event->first); /* relaxed: a number of its own */

    if (handle->kind != CP_EVENT_CLOCK)
        return UINT64_MAX;
    if (period == 0)
        period = handle->period * cp__handle_stretch(handle);
    /* relaxed: a number of its own */
    return (count->time_enabled - cp_load_relaxed(&event->renewed_at)) / period + 1;
}

/* What is known of those events of an M that can leave its thread no time. */
struct overflows {
    uint64_t n; /* that were heard of, or lost */
    unsigned events;
};

static struct overflows overflows_from_handler(const struct cp__m *m)
{
    struct overflows all = {.n = 0};

    /* relaxed, both: what another thread sees may be late */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1) {
        int slot = __builtin_ctz(armed);

        if (!cp__event_may_starve(cp__perf_of(m)->handles[slot].kind))
            continue;
        all.n += cp_load_relaxed(&m->stats[slot].interrupts);
        all.events++;
    }
    return all;
}

int cp__limits_begin_from_handler(struct cp__m *m, int slot)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    int result = 0;

    if (!handle->counts_at_once)
        cp_store_relaxed(&m->stats[slot].armed_at,
                         cp__os_clock_ns_from_handler(m->cpu_clock)); /* relaxed: a number of its own */
    for (int i = 0; i < handle->n_events && result == 0; i++) {
        cp_store_relaxed(&handle->events[i].all_at,
                         overflows_from_handler(m).n); /* relaxed: as in renewals */
        if (handle->counts_at_once)
            continue;
        result = cp__descriptor_is_ours_from_handler(m, slot, i)
                     ? cp__perf_let_count_from_handler(handle->events[i].fd, (uint64_t)limit_of(handle))
                     : -EBADF;
    }
    return result;
}

/* Notes when the limit was last whole. */
static void note_renewal_from_handler(struct cp__m *m, int slot, int which, const struct cp__count *count)
{
    struct cp__perf_event *event = &cp__perf_of(m)->handles[slot].events[which];

    cp_store_relaxed(&event->renewed_at, count->time_enabled); /* relaxed, all: numbers of their own */
    cp_store_relaxed(&event->multiples, cp_load_relaxed(&m->stats[slot].multiples));
    cp_store_relaxed(&event->all_at, overflows_from_handler(m).n);
}

/* Adds to the event's limit what has been used of it, and lets the event count. Does nothing if somebody else
 * has renewed the limit since use was looked at. */
static void renew_from_handler(struct cp__m *m, int slot, int which, struct use use,
                               const struct cp__count *count)
{
    struct cp__perf_event *event = &cp__perf_of(m)->handles[slot].events[which];
    uint64_t used = (uint64_t)use.used,
             most = most_used_from_handler(&cp__perf_of(m)->handles[slot], event, count);

    /* pairs with the same exchange of another thread */
    if (!cp_compare_exchange(&event->renewed, &use.renewed, use.renewed + used))
        return;
    note_renewal_from_handler(m, slot, which, count);
    cp__perf_let_count_from_handler(event->fd, used < most ? used : most);
}

/*
 * Returns whether a thread got on while its event overflowed at least `least` times in ns of the event's
 * time, and all of its events together at most `all` times. Either a clock's samples came in time: if they
 * leave no time, each comes as soon as those before it are over, and that is later than a period. Or there
 * was half as much time again as all samples cost.
 */
static bool makes_progress_from_handler(const struct cp__perf_handle *handle, uint64_t least, uint64_t all,
                                        uint64_t ns)
{
    const uint64_t period = handle->period * cp__handle_stretch(handle);
    const uint64_t cost = cp__cost_or_assumed_from_handler();

    if (handle->kind == CP_EVENT_CLOCK && period >= cost && 4 * ns <= 5 * least * period)
        return true;
    return 2 * ns >= 3 * all * cost;
}

/* Returns how often all events of m have overflowed while one of them did so n times, since its limit was
 * last whole. Events that leave their thread no time overflow alike; if others are more frequent, they are
 * judged by themselves. */
static uint64_t all_since_from_handler(const struct cp__m *m, const struct cp__perf_event *event, uint64_t n)
{
    const struct overflows all = overflows_from_handler(m);
    /* relaxed: a number of its own. If another event was closed meanwhile, its overflows are gone. */
    uint64_t at = cp_load_relaxed(&event->all_at), since = all.n > at ? all.n - at : 0;

    if (since < n)
        return n;
    return since < all.events * n ? since : all.events * n;
}

/* The same as makes_progress_from_handler(), for one event of the slot, since its limit was last whole. What
 * a sample costs may be more than what is known; but if a clock's records follow each other without a
 * break, the thread did not get on, whatever they cost. */
static bool made_progress_from_handler(const struct cp__m *m, int slot, int which, uint64_t least,
                                       uint64_t all, const struct cp__count *count)
{
    const struct cp__perf_event *event = &cp__perf_of(m)->handles[slot].events[which];
    /* relaxed, all: numbers of their own */
    uint64_t ns = count->time_enabled - cp_load_relaxed(&event->renewed_at);
    uint64_t multiples = cp_load_relaxed(&m->stats[slot].multiples) - cp_load_relaxed(&event->multiples);

    return makes_progress_from_handler(&cp__perf_of(m)->handles[slot], least, all, ns) &&
           !cp__overload_has_no_breaks_from_handler(least, multiples, ns);
}

/* The same on the M, whose event has overflowed n times. */
static bool got_on_from_handler(const struct cp__m *m, int slot, int which, uint64_t n,
                                const struct cp__count *count)
{
    uint64_t all = all_since_from_handler(m, &cp__perf_of(m)->handles[slot].events[which], n);

    return made_progress_from_handler(m, slot, which, n, all, count);
}

/* Asks the kernel how many records were lost, because an event that has reached its limit must not count
 * again at once: a reader finds out first whether its thread can bear that. An event that the handler has
 * disabled for its own time is renewed when it is resumed. A thread of the library's own takes no more
 * samples than its event began with. */
__attribute__((noinline)) static void renew_half_used_from_handler(struct cp__m *m, int slot, int which)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    struct cp__perf_event *event = &handle->events[which];
    struct cp__count count;
    struct use use;

    /* relaxed: looked at again below */
    if (m->is_of_library || ((cp_load_relaxed(&m->off) | cp__perf_of(m)->paused) >> slot & 1) != 0 ||
        !cp__descriptor_read_from_handler(m, slot, which, &count))
        return;
    use = use_from_handler(event, count.lost);
    if (use.used <= 0 || use.used >= limit_of(handle))
        return;
    if (!got_on_from_handler(m, slot, which, (uint64_t)use.used, &count))
        return;
    renew_from_handler(m, slot, which, use, &count);
    /* relaxed, as in cp__events_resume_from_handler(): if another thread disables the event meanwhile, one of
     * the two sees that */
    if ((cp_load_relaxed(&m->off) >> slot & 1) != 0)
        cp__descriptor_control_from_handler(m, slot, which, PERF_EVENT_IOC_DISABLE, 0);
}

/* Without a ring, only the end of an event tells what was used. */
void cp__limits_renew_from_handler(struct cp__m *m)
{
    /* relaxed, all: stored by this thread */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1) {
        int slot = __builtin_ctz(armed);
        const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];

        if (limit_of(handle) == 0 || cp_load_relaxed(&m->stats[slot].ringless) != 0)
            continue;
        for (int i = 0; i < handle->n_events; i++) {
            uint64_t lost = known_lost_from_handler(m, slot, i);

            if (2 * use_from_handler(&handle->events[i], lost).used >= limit_of(handle))
                renew_half_used_from_handler(m, slot, i);
        }
    }
}

/* Lets an event that has reached its limit count again, up to a whole one. Up to now, the event has
 * overflowed as often as `overflows` says. The event does not count, so nobody else renews its limit
 * meanwhile. */
static void begin_anew_from_handler(struct cp__m *m, int slot, int which, uint64_t overflows,
                                    const struct cp__count *count)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];

    cp_store_relaxed(&handle->events[which].renewed, overflows); /* relaxed: a number of its own */
    note_renewal_from_handler(m, slot, which, count);
    cp__perf_let_count_from_handler(handle->events[which].fd, (uint64_t)limit_of(handle));
}

/* Returns whether the event does not count: one that does has counted something between two calls. While its
 * thread sleeps, each event stands, so from outside the thread's clock has to move meanwhile. */
static bool is_still_from_handler(struct cp__m *m, int slot, int which, bool is_outside,
                                  struct cp__count *count)
{
    struct cp__count before;
    uint64_t began, ended;

    if (!cp__descriptor_read_from_handler(m, slot, which, &before))
        return false;
    began = is_outside ? cp__os_clock_ns_from_handler(m->cpu_clock) : 0;
    ended = is_outside ? cp__os_clock_ns_from_handler(m->cpu_clock) : 1;
    return cp__descriptor_read_from_handler(m, slot, which, count) &&
           before.time_enabled == count->time_enabled && began != ended;
}

/* A reader may have let the event count again while the signal waited. If another thread has the claim, it
 * is looking at the event itself, or disables it. */
void cp__limits_ended_from_handler(struct cp__m *m, int slot, int which)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    struct cp__count count;

    if (limit_of(handle) == 0 || m->is_of_library || !cp__m_claim_from_handler(m, CP__CLAIM_SELF))
        return;
    /* relaxed: written with the claim */
    if (((cp_load_relaxed(&m->off) | cp__perf_of(m)->paused) >> slot & 1) == 0 &&
        is_still_from_handler(m, slot, which, false, &count) &&
        got_on_from_handler(m, slot, which, (uint64_t)limit_of(handle), &count))
        begin_anew_from_handler(m, slot, which, heard_from_handler(&handle->events[which], count.lost),
                                &count);
    cp__m_unclaim_from_handler(m);
}

bool cp__limits_are_used_up_from_handler(const struct cp__m *m, int slot)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];

    return use_from_handler(&handle->events[0], 0).used >= limit_of(handle);
}

/* Returns whether the event's last record tells how many others were lost. Usually it does: the record was
 * made since the last resume, and the ring had room for more all the while. Frames could need more room than
 * that. */
static bool does_record_tell_from_handler(const struct cp__m *m, int slot, struct cp__perf_event *event)
{
    uint64_t taken = cp_load_relaxed(&event->taken); /* relaxed, both: stored by this thread */
    bool tells = taken != event->resumed && event->crowded == cp__perf_of(m)->ring.crowded &&
                 cp__perf_of(m)->handles[slot].layout.chain == 0 &&
                 cp_load_relaxed(&m->stats[slot].ringless) == 0;

    event->resumed = taken;
    event->crowded = cp__perf_of(m)->ring.crowded;
    return tells;
}

/* Finds out what an event of the slot has used of its limit, and for how long it has counted. If its last
 * record does not tell, the kernel is asked. Returns false if nobody knows: without a ring, the kernel does
 * not count either what nobody hears of. */
static bool find_use_from_handler(struct cp__m *m, int slot, int which, struct use *use,
                                  struct cp__count *count)
{
    struct cp__perf_event *event = &cp__perf_of(m)->handles[slot].events[which];
    bool is_known = does_record_tell_from_handler(m, slot, event);

    /* relaxed, both: stored by this thread */
    *count = (struct cp__count){.time_enabled = cp_load_relaxed(&m->stats[slot].counts[which].time_enabled),
                                .lost = known_lost_from_handler(m, slot, which)};
    if (!is_known)
        is_known = cp__descriptor_read_from_handler(m, slot, which, count) && cp__perf_has_lost_count &&
                   cp_load_relaxed(&m->stats[slot].ringless) == 0;
    *use = use_from_handler(event, count->lost);
    return is_known;
}

/* The limit must not be 0 when the event is resumed. Without the kernel's number of lost records, one is
 * added for that. */
static void resume_from_handler(struct cp__m *m, int slot, int which)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    uint64_t n;
    struct cp__count count;
    struct use use;
    bool is_known = limit_of(handle) == 0 || find_use_from_handler(m, slot, which, &use, &count);

    if (cp_load_relaxed(&m->stats[slot].closed) != 0) /* relaxed: a number of its own */
        return;
    if (limit_of(handle) == 0) {
        cp__perf_let_count_from_handler(handle->events[which].fd, 0);
        return;
    }
    if (use.used >= limit_of(handle))
        return;
    n = use.used > 0 ? (uint64_t)use.used : 0;
    if (2 * n >= (uint64_t)limit_of(handle) && got_on_from_handler(m, slot, which, n, &count))
        renew_from_handler(m, slot, which, use, &count);
    else
        cp__perf_let_count_from_handler(handle->events[which].fd, !is_known);
}

void cp__limits_resume_from_handler(struct cp__m *m, int slot)
{
    for (int i = 0; i < cp__perf_of(m)->handles[slot].n_events; i++)
        resume_from_handler(m, slot, i);
}

/* No sample's record has fewer bytes: header, identifier, count. */
#define LEAST_SAMPLE 40

/* Returns how many samples at most wait in m's ring, which have not been counted as taken. On the M, or with
 * the claim, so that the ring stays. */
static int64_t unread_from_handler(const struct cp__m *m)
{
    const struct perf_event_mmap_page *page = cp__perf_of(m)->ring.page;

    /* relaxed, both: numbers of their own; m's handler may be reading the ring */
    return page == NULL ? 0
                        : (int64_t)((cp_load_relaxed(&page->data_head) - cp_load_relaxed(&page->data_tail)) /
                                    LEAST_SAMPLE);
}

/* Returns whether an event that does not count cannot have reached its limit: the program has disabled it, by
 * prctl(PR_TASK_PERF_EVENTS_DISABLE). Without a ring, or without the kernel's number of lost records, nobody
 * knows. */
static bool is_disabled_from_handler(const struct cp__m *m, int slot, int which,
                                     const struct cp__count *count)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];

    /* relaxed: written with the claim */
    return cp__perf_has_lost_count && cp_load_relaxed(&m->stats[slot].ringless) == 0 &&
           use_from_handler(&handle->events[which], count->lost).used + unread_from_handler(m) <
               limit_of(handle);
}

/* Where a clock of the kernel is coarse, an event that counts may seem to stand between two calls. */
#define TOLD_FROM_NS 1000000

/* Returns whether one event of the slot has reached its limit. If this run of the handler has paused the
 * event, another thread has disabled the event, or its thread sleeps, the event stands in any case, and what
 * was used of the limit tells. */
static bool is_at_its_limit_from_handler(struct cp__m *m, int slot, int which, bool is_outside,
                                         struct cp__count *count)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    /* relaxed: written with the claim */
    const bool stands = ((cp_load_relaxed(&m->off) | cp__perf_of(m)->paused) >> slot & 1) != 0;

    if (!stands && is_still_from_handler(m, slot, which, is_outside, count))
        return true;
    return (stands || is_outside) && cp__descriptor_read_from_handler(m, slot, which, count) &&
           use_from_handler(&handle->events[which], count->lost).used >= limit_of(handle);
}

/* A thread that has not run for so long since it was armed can have missed nothing, so the events of the many
 * threads that sleep are not asked. */
void cp__limits_tell_end_from_handler(struct cp__m *m, int slot, bool is_outside)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    struct cp__count count;

    if (cp__ended_missed_from_handler(m, slot, 0) < TOLD_FROM_NS)
        return;
    for (int i = 0; i < handle->n_events && limit_of(handle) != 0; i++) {
        if (!is_at_its_limit_from_handler(m, slot, i, is_outside, &count))
            continue;
        cp__ended_tell_from_handler(
            m, slot, TOLD_FROM_NS,
            &(struct cp__ending){count.time_enabled, is_disabled_from_handler(m, slot, i, &count)});
        return;
    }
}

/* ---- From outside ---------------------------------------------------------------------------- */

/* The same from outside, for a thread that may not hear of its events: this one has overflowed at least
 * `least` and at most `most` times. Nobody knows how often the others have, so they are taken to be as
 * frequent as this one, as events are that leave their thread no time. */
static bool got_on_from_outside(const struct cp__m *m, int slot, int which, uint64_t least, uint64_t most,
                                const struct cp__count *count)
{
    return made_progress_from_handler(m, slot, which, least, overflows_from_handler(m).events * most, count);
}

/* A reader comes by every 100 ms, and its second look at a silent event is the first one that renews. So it
 * does that from a small part of the limit on. */
#define RENEWED_FROM_OUTSIDE 8

/* Renews the limit of an event that has not ended, unless that is not certain, or not worth a call yet. */
static void renew_from_outside(struct cp__m *m, int slot, int which, const struct cp__count *count)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    struct use use = use_from_handler(&handle->events[which], count->lost);
    int64_t most = use.used + unread_from_handler(m);

    /* relaxed: written with the claim. Without a ring, what is used is not known. */
    if (cp_load_relaxed(&m->stats[slot].ringless) != 0 ||
        RENEWED_FROM_OUTSIDE * use.used < limit_of(handle) || most >= limit_of(handle))
        return;
    if (got_on_from_outside(m, slot, which, (uint64_t)use.used, (uint64_t)most, count))
        renew_from_handler(m, slot, which, use, count);
}

/* If an event is found to count at a look, the next look tells whether it does not count any more. */
static bool has_event_ended(struct cp__m *m, int slot, int which, struct cp__ending *ending)
{
    struct cp__perf_event *event = &cp__perf_of(m)->handles[slot].events[which];
    struct cp__count count;
    bool is_still;

    if (!cp__descriptor_read_from_handler(m, slot, which, &count))
        return false;
    is_still = count.time_enabled == event->seen;
    event->seen = count.time_enabled;
    if (is_still)
        *ending = (struct cp__ending){count.time_enabled, is_disabled_from_handler(m, slot, which, &count)};
    else
        renew_from_outside(m, slot, which, &count);
    return is_still;
}

bool cp__limits_have_ended(struct cp__m *m, int slot, struct cp__ending *ending)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    bool any = false;

    cp__first_look(m, slot);
    for (int i = 0; i < handle->n_events && limit_of(handle) != 0; i++)
        any |= has_event_ended(m, slot, i, ending);
    return any;
}

/* If the period grows so far, the event is as good as stopped. */
#define MOST_STRETCH 1024
/* A limit does not become shorter than this, because each renewal takes two calls. */
#define LEAST_LIMIT 64

/* Doubles the number of periods after which the handle's events are sampled, and halves their limit: if they
 * have to be restarted several times, the thread stands still for twice as long as the first time, all in
 * all. Records that still wait count as the later ones do, up to what the event has counted: see
 * periods_linux.c. */
static void stretch(struct cp__m *m, int slot)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    uint64_t twice = 2 * cp__handle_stretch(handle);
    uint64_t period = handle->period * twice;

    if (twice > MOST_STRETCH)
        return;
    for (int i = 0; i < handle->n_events; i++) {
        cp_store_relaxed(&handle->events[i].first, 0u); /* relaxed: see cp__first_over_from_handler() */
        if (cp__descriptor_control_from_handler(m, slot, i, PERF_EVENT_IOC_PERIOD, (unsigned long)&period) <
            0)
            return;
    }
    cp_store_relaxed(&handle->stretch, (uint32_t)twice); /* relaxed, both: numbers of their own */
    if (limit_of(handle) >= 2 * LEAST_LIMIT)
        cp_store_relaxed(&handle->limit, (uint32_t)limit_of(handle) / 2);
}

/* Returns how often an event has overflowed that has reached its limit: as often as all that it ever got.
 * Records that wait in the ring have not been heard of. Without a ring, signals coalesce: an event that traps
 * is at its limit again when as many more have been heard of. */
static uint64_t overflows_of(const struct cp__m *m, int slot, const struct cp__perf_event *event,
                             uint64_t lost)
{
    /* relaxed, both: numbers of their own */
    return cp_load_relaxed(&m->stats[slot].ringless) != 0
               ? heard_from_handler(event, lost)
               : cp_load_relaxed(&event->renewed) + (uint64_t)limit_of(&cp__perf_of(m)->handles[slot]);
}

/* Returns whether one event of the slot has counted nothing since the last look; *count receives its
 * count. If it has, another one of the handle's has ended. */
static bool stands_from_outside(struct cp__m *m, int slot, int which, struct cp__count *count)
{
    const struct cp__perf_event *event = &cp__perf_of(m)->handles[slot].events[which];

    return cp__descriptor_read_from_handler(m, slot, which, count) && count->time_enabled == event->seen;
}

/* The period of all of the handle's events becomes longer before one of them counts again that has left its
 * thread no time. An event that the program has disabled has some of its limit left. */
void cp__limits_restart(struct cp__m *m, int slot)
{
    struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    const uint64_t limit = (uint64_t)limit_of(handle);
    struct cp__count counts[CP__CORE_PMUS];
    uint64_t overflows[CP__CORE_PMUS];
    uint32_t ended = 0;
    bool has_progress = true;

    for (int i = 0; i < handle->n_events; i++) {
        if (!stands_from_outside(m, slot, i, &counts[i]))
            continue;
        if (is_disabled_from_handler(m, slot, i, &counts[i])) {
            cp__perf_let_count_from_handler(handle->events[i].fd, 0);
            continue;
        }
        ended |= 1u << i;
        overflows[i] = overflows_of(m, slot, &handle->events[i], counts[i].lost);
        has_progress &= got_on_from_outside(m, slot, i, limit, limit, &counts[i]);
    }
    if (!has_progress)
        stretch(m, slot);
    for (; ended != 0; ended &= ended - 1) {
        int i = __builtin_ctz(ended);

        handle->events[i].seen = 0;
        begin_anew_from_handler(m, slot, i, overflows[i], &counts[i]);
    }
}
