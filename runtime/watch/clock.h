/* The clock of watches: ns that no step of the system's time changes, the same on all CPUs. */
#ifndef COUNTERPOINT_RUNTIME_WATCH_CLOCK_H
#define COUNTERPOINT_RUNTIME_WATCH_CLOCK_H

#include "counters.h"
#include "runtime/base/os.h"

/* How the processor's ticks become ns of CLOCK_MONOTONIC. Immutable once cp__watch_clock_prepare() has
 * returned. */
struct cp__watch_clock {
    bool by_ticks;        /* false: the kernel's clock is asked */
    uint64_t ticks, ns;   /* at one moment */
    uint64_t ns_per_tick; /* times 2^32 */
};
extern struct cp__watch_clock cp__watch_clock;

/* Compares the two clocks for 2 ms, once in a process, if the kernel itself takes the ticks for a clock. */
void cp__watch_clock_prepare(void);

/* Returns the time in ns of CLOCK_MONOTONIC, to within some millionths of the time since the preparation. */
static inline uint64_t cp__watch_ns_of(uint64_t ticks)
{
    const struct cp__watch_clock *clock = &cp__watch_clock;

    return clock->ns + (uint64_t)((unsigned __int128)(ticks - clock->ticks) * clock->ns_per_tick >> 32);
}
static inline uint64_t cp__watch_now(void)
{
    if (__builtin_expect(!cp__watch_clock.by_ticks, 0))
        return cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    return cp__watch_ns_of(cp__ticks());
}

/* The same for the begin of a round, which need not wait until what stands before has ended: that is some ns
 * of a processor that looks ahead, and cp__watch_now() at the end is never earlier. */
static inline uint64_t cp__watch_now_early(void)
{
    if (__builtin_expect(!cp__watch_clock.by_ticks, 0))
        return cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    return cp__watch_ns_of(cp__ticks_early());
}

#endif
