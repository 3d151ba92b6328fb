/*
 * The library's finest clock: stamps that cost one instruction if the processor's clock is the kernel's, and
 * ns of CLOCK_MONOTONIC made of them. No step of the system's time changes it, and it is the same on all
 * CPUs.
 */
#ifndef COUNTERPOINT_RUNTIME_TICKS_H
#define COUNTERPOINT_RUNTIME_TICKS_H

#include "counters.h"
#include "runtime/base/os.h"

/* How the processor's ticks become ns of CLOCK_MONOTONIC. by_ticks, ticks and ns are immutable once
 * cp__ticks_prepare() has returned, and the rate once cp__ticks_measure() has. */
struct cp__ticks_clock {
    bool by_ticks;        /* false: the kernel's clock is asked, and a stamp is its ns */
    uint64_t ticks, ns;   /* at one moment */
    uint64_t ns_per_tick; /* times 2^32 */
};
extern struct cp__ticks_clock cp__ticks_clock;

/* Decides what a stamp is, once in a process. */
void cp__ticks_prepare(void);
/* Compares the two clocks from then on, for 2 ms at least, once in a process. */
void cp__ticks_measure(void);

/* Returns the present stamp. */
static inline uint64_t cp__stamp(void)
{
    if (__builtin_expect(!cp__ticks_clock.by_ticks, 0))
        return cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    return cp__ticks();
}
/* The same for a begin, which need not wait until what stands before has ended: that is some ns of a
 * processor that looks ahead, and cp__stamp() at the end is never earlier. */
static inline uint64_t cp__stamp_early(void)
{
    if (__builtin_expect(!cp__ticks_clock.by_ticks, 0))
        return cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    return cp__ticks_early();
}

/* The next four need cp__ticks_measure(). Returns a time between two stamps in ns. */
static inline uint64_t cp__stamps_ns(uint64_t ticks)
{
    const struct cp__ticks_clock *clock = &cp__ticks_clock;

    return clock->by_ticks ? (uint64_t)((unsigned __int128)ticks * clock->ns_per_tick >> 32) : ticks;
}
/* Returns the time of a stamp in ns of CLOCK_MONOTONIC, to within some millionths of the time since the
 * preparation. */
static inline uint64_t cp__stamp_to_ns(uint64_t stamp)
{
    const struct cp__ticks_clock *clock = &cp__ticks_clock;

    return clock->by_ticks ? clock->ns + cp__stamps_ns(stamp - clock->ticks) : stamp;
}
static inline uint64_t cp__stamp_now_ns(void)
{
    return cp__stamp_to_ns(cp__stamp());
}
static inline uint64_t cp__stamp_now_ns_early(void)
{
    return cp__stamp_to_ns(cp__stamp_early());
}

#endif
