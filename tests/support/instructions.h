/* A known number of instructions. */
#ifndef COUNTERPOINT_TESTS_INSTRUCTIONS_H
#define COUNTERPOINT_TESTS_INSTRUCTIONS_H

#include <stdint.h>

#include "test.h"

/* Runs n instructions; the call adds a few. */
static inline void run_instructions(uint64_t n)
{
    uint64_t rounds = n / 2;

#if defined(__x86_64__)
    __asm__ volatile("1:\tdec %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
#elif defined(__aarch64__)
    __asm__ volatile("1:\tsubs %0, %0, #1\n\tb.ne 1b" : "+r"(rounds) : : "cc");
#else
    (void)rounds;
    SKIP("it is not known how this processor counts down");
#endif
}

#define CHECK_NEAR(n, expected, part)                                                                        \
    CHECKF((double)(n) >= (1 - (part)) * (double)(expected) &&                                               \
               (double)(n) <= (1 + (part)) * (double)(expected),                                             \
           "%.0f instead of %.0f", (double)(n), (double)(expected))

#endif
