/* The counters of x86-64 that a program can read by an instruction. */
#ifndef COUNTERPOINT_ARCH_COUNTERS_H
#define COUNTERPOINT_ARCH_COUNTERS_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

/* The clock that the kernel reads by cp__ticks(), as /sys names it. */
#define CP__TICKS_CLOCK "tsc"

/* Returns whether the ticks go on at one rate, whatever the processor's frequency is, and while it sleeps. */
static inline bool cp__ticks_are_steady(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d >> 8 & 1) != 0;
}

/* Reads the processor's clock. The processor may do so before what stands before has ended. */
static inline uint64_t cp__ticks_early(void)
{
    unsigned low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

/* The same after all loads before, as the kernel's own clock does. */
static inline uint64_t cp__ticks(void)
{
    unsigned low, high;

    __asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

#define CP__HAS_PMC true
/* Reads a counter of the PMU, by the index of struct perf_event_mmap_page, which is not 0. */
static inline uint64_t cp__pmc(uint32_t index)
{
    unsigned low, high;

    __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index - 1));
    return (uint64_t)high << 32 | low;
}
/* What attr.config1 of an event must have so that the program can read its counter. */
#define CP__PMC_CONFIG1 0u

/* Returns whether the processor says that it has RDPRU. Who may execute it is another question. */
static inline bool cp__may_have_core_cycles(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(0x80000008, &a, &b, &c, &d) != 0 && (b >> 4 & 1) != 0;
}
/* Reads the cycles that the core has made (APERF), by RDPRU, which old assemblers do not know. */
static inline uint64_t cp__core_cycles(void)
{
    unsigned low, high;

    __asm__ volatile(".byte 0x0f, 0x01, 0xfd" : "=a"(low), "=d"(high) : "c"(1));
    return (uint64_t)high << 32 | low;
}

#endif
