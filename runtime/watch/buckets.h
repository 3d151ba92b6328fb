/* Which values a bucket of a histogram has: see histogram.h. Buckets are numbered through all blocks. */
#ifndef COUNTERPOINT_RUNTIME_WATCH_BUCKETS_H
#define COUNTERPOINT_RUNTIME_WATCH_BUCKETS_H

#include <stdint.h>

#include "histogram.h"

/* Returns the binary logarithm of how many values a bucket of the block has. */
static inline unsigned cp__bucket_shift(unsigned block)
{
    return block < 2 ? 0 : block - 1;
}

/* Returns the number of the value's bucket. */
static inline unsigned cp__bucket_of(uint64_t value)
{
    const unsigned shift = 57 - (unsigned)__builtin_clzll(value | CP__HISTOGRAM_SUB);

    return shift * CP__HISTOGRAM_SUB + (unsigned)(value >> shift);
}

/* Returns the smallest value of a bucket. */
static inline uint64_t cp__bucket_low(unsigned bucket)
{
    const unsigned shift = cp__bucket_shift(bucket / CP__HISTOGRAM_SUB);

    return (uint64_t)(bucket - shift * CP__HISTOGRAM_SUB) << shift;
}

/* Returns the largest value of a bucket. */
static inline uint64_t cp__bucket_high(unsigned bucket)
{
    const unsigned shift = cp__bucket_shift(bucket / CP__HISTOGRAM_SUB);

    return cp__bucket_low(bucket) + (((uint64_t)1 << shift) - 1);
}

#endif
