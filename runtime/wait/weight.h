/*
 * Which waits a recording takes, and what those stand for.
 *
 * A wait of d ns is taken with the probability p = min(1, d / period), and then stands for 1 / p waits and
 * d / p ns. So each wait adds 1 wait and d ns in the mean, whether it is taken or not.
 */
#ifndef COUNTERPOINT_RUNTIME_WAIT_WEIGHT_H
#define COUNTERPOINT_RUNTIME_WAIT_WEIGHT_H

#include <stdbool.h>
#include <stdint.h>

/* Waits are counted in parts of so many. 2^48 waits fit into a word. */
#define CP__WAIT_PARTS 65536u
/* A longer period is shortened to this one, 39 hours: the parts of a wait of 1 ns still fit into a word. */
#define CP__WAIT_PERIOD_MAX ((uint64_t)1 << 47)

/* Returns whether a wait of so many ns, at least 1, is taken, by a random number in all of 64 bits. */
static inline bool cp__wait_is_taken(uint64_t ns, uint64_t period, uint64_t random)
{
    return (uint64_t)((unsigned __int128)random * period >> 64) < ns;
}

/* Returns for how many waits a wait stands that was taken, in parts. */
static inline uint64_t cp__wait_parts(uint64_t ns, uint64_t period)
{
    return ns >= period ? CP__WAIT_PARTS : (uint64_t)((double)(period * CP__WAIT_PARTS) / (double)ns + 0.5);
}

/* Returns for how many ns it stands. */
static inline uint64_t cp__wait_delay(uint64_t ns, uint64_t period)
{
    return ns >= period ? ns : period;
}

/* The same generator as cp__m_random_from_handler(), with a state of its own that is not 0. */
static inline uint64_t cp__wait_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

#endif
