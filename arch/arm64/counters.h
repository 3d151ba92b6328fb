/* The counters of arm64 that a program can read by an instruction. */
#ifndef COUNTERPOINT_ARCH_COUNTERS_H
#define COUNTERPOINT_ARCH_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

/* The clock that the kernel reads by cp__ticks(), as /sys names it. */
#define CP__TICKS_CLOCK "arch_sys_counter"

/* Returns whether the ticks go on at one rate: the generic timer's always do. */
static inline bool cp__ticks_are_steady(void)
{
    return true;
}

/* Reads the generic timer. The processor may do so before what stands before has ended. */
static inline uint64_t cp__ticks_early(void)
{
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
    return ticks;
}

/* The same after all that stands before, as the kernel's own clock does. */
static inline uint64_t cp__ticks(void)
{
    uint64_t ticks;

    __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
    return ticks;
}

#define CP__HAS_PMC true
#define CP__PMC_CASE(n)                                                                                      \
    case n:                                                                                                  \
        __asm__ volatile("mrs %0, pmevcntr" #n "_el0" : "=r"(value));                                        \
        break
#define CP__PMC_CASES_10(tens)                                                                               \
    CP__PMC_CASE(tens##0);                                                                                   \
    CP__PMC_CASE(tens##1);                                                                                   \
    CP__PMC_CASE(tens##2);                                                                                   \
    CP__PMC_CASE(tens##3);                                                                                   \
    CP__PMC_CASE(tens##4);                                                                                   \
    CP__PMC_CASE(tens##5);                                                                                   \
    CP__PMC_CASE(tens##6);                                                                                   \
    CP__PMC_CASE(tens##7);                                                                                   \
    CP__PMC_CASE(tens##8);                                                                                   \
    CP__PMC_CASE(tens##9)
/* Reads a counter of the PMU, by the index of struct perf_event_mmap_page, which is not 0. Each counter is a
 * register of its own, so each has an instruction of its own; the last one is the cycle counter. */
static inline uint64_t cp__pmc(uint32_t index)
{
    uint64_t value = 0;

    __asm__ volatile("isb" : : : "memory");
    switch (index - 1) {
        CP__PMC_CASES_10();
        CP__PMC_CASES_10(1);
        CP__PMC_CASES_10(2);
        CP__PMC_CASE(30);
    default:
        __asm__ volatile("mrs %0, pmccntr_el0" : "=r"(value));
    }
    return value;
}
/* What attr.config1 of an event must have so that the program can read its counter: bit 1 asks for that, and
 * bit 0 for 64 bits. */
#define CP__PMC_CONFIG1 3u

/* arm64 has no cycles of the core but those of its PMU. */
static inline bool cp__may_have_core_cycles(void)
{
    return false;
}
static inline uint64_t cp__core_cycles(void)
{
    return 0;
}

#endif
