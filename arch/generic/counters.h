/* A processor of which nobody knows how a program reads its counters: the kernel's clock and calls serve. */
#ifndef COUNTERPOINT_ARCH_COUNTERS_H
#define COUNTERPOINT_ARCH_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#define CP__TICKS_CLOCK "none"

static inline bool cp__ticks_are_steady(void)
{
    return false;
}
static inline uint64_t cp__ticks_early(void)
{
    return 0;
}
static inline uint64_t cp__ticks(void)
{
    return 0;
}

#define CP__HAS_PMC false
static inline uint64_t cp__pmc(uint32_t index)
{
    (void)index;
    return 0;
}
#define CP__PMC_CONFIG1 0u

static inline bool cp__may_have_core_cycles(void)
{
    return false;
}
static inline uint64_t cp__core_cycles(void)
{
    return 0;
}

#endif
