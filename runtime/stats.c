#include "stats.h"

#include "coverage.h"
#include "m.h"
#include "overload.h"
#include "runtime/base/fail.h"
#include "runtime/base/os.h"
#include "runtime/base/sized.h"
#include "slot.h"

#include <errno.h>
#include <string.h>

/* The figures that an M counts under the same name, by their offsets. */
#define FIGURE(name)                                                                                         \
    {                                                                                                        \
        offsetof(struct cp_slot_stats, name), offsetof(struct cp__m_stats, name)                             \
    }
static const struct {
    size_t of_slot, of_m;
} figures[] = {
    FIGURE(samples),   FIGURE(signals),    FIGURE(dropped),        FIGURE(lost),         FIGURE(late),
    FIGURE(truncated), FIGURE(incomplete), FIGURE(throttled),      FIGURE(throttled_ns), FIGURE(overruns),
    FIGURE(stalled),   FIGURE(new_code),   FIGURE(unknown_stacks), FIGURE(disabled_ns),
};
#define N_FIGURES (sizeof figures / sizeof figures[0])

static uint64_t *figure_of(struct cp_slot_stats *stats, size_t i)
{
    return (uint64_t *)((char *)stats + figures[i].of_slot);
}

/* Adds to stats what m has counted for the config run. */
static void add_stats_of_m(struct cp_slot_stats *stats, int slot, uint64_t run, const struct cp__m *m)
{
    const struct cp__m_stats *from = &m->stats[slot];
    struct cp__count counted;
    int refused;

    cp__coverage_add_m(stats, slot, run, m);
    /* acquire: pairs with the release in reset_stats_from_handler(), configure.c. All other loads are
     * relaxed, because nothing else depends on the counters. */
    if (cp_load_acquire(&from->seq) != run)
        return;
    for (size_t i = 0; i < N_FIGURES; i++)
        *figure_of(stats, i) += cp_load_relaxed((const uint64_t *)((const char *)from + figures[i].of_m));
    counted = cp__coverage_counted(m, slot);
    stats->count += counted.value;
    stats->time_enabled += counted.time_enabled;
    stats->time_running += counted.time_running;
    stats->overloaded_ns += cp__overload_ns_from_handler(m, slot);
    stats->ms_overloaded += cp_load_relaxed(&from->stops) != 0;
    stats->foreign += cp_load_relaxed(&m->foreign) - cp_load_relaxed(&from->foreign);
    refused = (int)cp_load_relaxed(&from->refused);
    if (refused < 0) {
        stats->ms_refused++;
        stats->refused_errno = refused;
    } else {
        stats->ms++;
        stats->ms_ringless += cp_load_relaxed(&from->ringless) == CP__RING_REFUSED;
    }
}

void cp__slot_keep_stats(int slot, const struct cp__m *m)
{
    add_stats_of_m(cp__slot_kept_stats(slot), slot, cp__slot_run(slot), m);
}

/* The numbers of threads stay as they are. If the slot stops before m arms it, m's thread is not among
 * them. */
static void move_stats(int slot, struct cp__m *m)
{
    struct cp_slot_stats *kept = cp__slot_kept_stats(slot);
    const struct cp_slot_stats before = *kept;

    cp__slot_keep_stats(slot, m);
    kept->ms = before.ms;
    kept->ms_ringless = before.ms_ringless;
    kept->ms_refused = before.ms_refused;
    kept->ms_overloaded = before.ms_overloaded;
    kept->ms_unarmed = before.ms_unarmed;
    kept->ms_blocked = before.ms_blocked;
    kept->ms_closed = before.ms_closed;
    cp_store_relaxed(&m->stats[slot].seq, 0); /* relaxed: whoever else reads the figures has the lock */
}

void cp__slot_keep_stats_of(int slot, struct cp__m *m)
{
    if (!cp__coverage_end_of(m, slot))
        return; /* the thread has ended: its figures are read when it is found gone */
    move_stats(slot, m);
    cp__coverage_go_on(m, slot);
}

void cp__slots_keep_stats_of(struct cp__m *m)
{
    cp__coverage_detached(m, cp__os_clock_ns_from_handler(m->cpu_clock), 0);
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (cp__slot_runs(slot))
            move_stats(slot, m);
    }
    cp__coverage_attached(m);
}

/* Sums the figures of all Ms up. A free slot has none. Under the runtime lock. */
static void collect_stats(int slot, struct cp_slot_stats *stats)
{
    *stats = (struct cp_slot_stats){.samples = 0};
    if (cp__slot_is_free(slot))
        return;
    *stats = *cp__slot_kept_stats(slot);
    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (!cp__m_is_gone(m) || (m->undrained >> slot & 1) != 0)
            add_stats_of_m(stats, slot, cp__slot_run(slot), m);
    }
    cp__coverage_add_process(stats, slot);
}

int cp_slots_stats(int slot, struct cp_slot_stats *stats)
{
    struct cp_slot_stats own;

    if (slot < 0 || slot >= CP_EV_MAX)
        return -EINVAL;
    cp__lock(&cp__runtime_lock);
    collect_stats(slot, &own);
    cp__unlock(&cp__runtime_lock);
    return CP__GIVE(cp_slot_stats, stats, &own, NULL);
}

/* ---- All slots ------------------------------------------------------------------------------- */

static struct cp_slot_stats released; /* the sum of slots that are free again; under the runtime lock */

#define PLACE(name) offsetof(struct cp_slot_stats, name)
static const size_t sums[] = {
    PLACE(count),      PLACE(time_enabled), PLACE(time_running), PLACE(foreign),        PLACE(overloaded_ns),
    PLACE(cpu_ns),     PLACE(ms_ns),        PLACE(library_ns),   PLACE(unattached_ns),  PLACE(unarmed_ns),
    PLACE(blocked_ns), PLACE(closed_ns),    PLACE(uncounted_ns), PLACE(overcounted_ns), PLACE(excluded_ns),
    PLACE(unsampled),  PLACE(switches),     PLACE(ticks_ns),
};
static const size_t numbers[] = {
    PLACE(ms_overloaded), PLACE(ms),           PLACE(ms_ringless),
    PLACE(ms_refused),    PLACE(ms_unsettled), PLACE(ms_unarmed),
    PLACE(ms_blocked),    PLACE(ms_closed),    PLACE(threads_unattached),
};

static void add_stats(struct cp_slot_stats *sum, struct cp_slot_stats *stats)
{
    for (size_t i = 0; i < N_FIGURES; i++)
        *figure_of(sum, i) += *figure_of(stats, i);
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        *(uint64_t *)((char *)sum + sums[i]) += *(const uint64_t *)((const char *)stats + sums[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        *(uint32_t *)((char *)sum + numbers[i]) += *(const uint32_t *)((const char *)stats + numbers[i]);
    if (stats->refused_errno != 0)
        sum->refused_errno = stats->refused_errno;
    if (stats->unsettled_tid != 0)
        sum->unsettled_tid = stats->unsettled_tid;
}

void cp__slot_release_stats(int slot)
{
    struct cp_slot_stats stats;

    collect_stats(slot, &stats);
    add_stats(&released, &stats);
}

static uint64_t gone_handler_ns; /* the sum of Ms that are gone; under the runtime lock */

void cp__stats_m_gone(const struct cp__m *m)
{
    gone_handler_ns += m->handler_ns;
}

int cp_slots_totals(struct cp_slot_stats *stats)
{
    struct cp_slot_stats sum, of_slot;
    uint32_t used;

    cp__lock(&cp__runtime_lock);
    sum = released;
    used = cp__slots_with_reader();
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if ((used >> slot & 1) == 0)
            continue;
        collect_stats(slot, &of_slot);
        add_stats(&sum, &of_slot);
    }
    cp__unlock(&cp__runtime_lock);
    return CP__GIVE(cp_slot_stats, stats, &sum, NULL);
}

int cp_runtime_stats(struct cp_runtime_stats *stats)
{
    struct cp_runtime_stats own;

    cp__lock(&cp__runtime_lock);
    own = (struct cp_runtime_stats){.handler_ns = gone_handler_ns,
                                    .slots = (uint32_t)__builtin_popcount(cp__slots_with_reader())};
    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (cp__m_is_gone(m))
            continue;
        own.ms++;
        own.handler_ns += cp_load_relaxed(&m->handler_ns); /* relaxed: nothing else depends on the counter */
    }
    cp__unlock(&cp__runtime_lock);
    return CP__GIVE(cp_runtime_stats, stats, &own, NULL);
}
