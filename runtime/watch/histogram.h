/*
 * Distributions: log-linear histograms, with exact sums.
 *
 * A value below 128 has a bucket of its own. Above, each power of two is divided into 64 buckets of equal
 * width, so that the middle of a bucket is within 1/128 (0.8 %) of each value in it. Buckets are in blocks of
 * 64 counts, which are made when a value first needs one:
 *
 *     block 0   values 0 to 63        block 2   128 to 255, 2 values a bucket
 *     block 1   values 64 to 127      block b   2^(b+5) to 2^(b+6) - 1, 2^(b-1) values a bucket
 *
 * Sums of values and of their squares have 128 bits and are exact as long as values are below 2^52 and there
 * are at most 2^24 of them, or fewer bits and more values; beyond, they stay at their maximum. So merging is
 * associative and commutative to the last bit.
 *
 * A histogram has one writer at a time, and any number of readers meanwhile. `changes` is odd while the
 * writer changes the others, so that a reader gets all of a value or nothing of it. All fields are stored and
 * loaded relaxed in between; the fences of the writer pair with those of the reader, by the rule of
 * sequence locks. A block is stored with release when all of its counts are 0, and stays until the histogram
 * is freed.
 *
 * A writer that never rests would let no reader through. So a reader that has failed increments `readers`,
 * and while that is not 0, the writer adds its values to the histogram `aside`, which it makes when it first
 * needs one. The writer neither waits nor fences for that: it may see `readers` late, and then a reader only
 * has to try again. Afterwards the writer adds to h itself again, and the reader reads `aside`, too. The
 * values in `aside` stay there; whoever reads h adds them. If others read `aside` while some read h, `aside`
 * has an `aside` of its own.
 */
#ifndef COUNTERPOINT_RUNTIME_WATCH_HISTOGRAM_H
#define COUNTERPOINT_RUNTIME_WATCH_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define CP__HISTOGRAM_SUB 64u
#define CP__HISTOGRAM_BLOCKS 59

struct cp__histogram {
    uint64_t changes;
    uint64_t count;
    uint64_t sum[2];             /* the lower half, and the upper one */
    uint64_t squares[2];         /* the sum of the values' squares; the same */
    uint64_t min, max;           /* of no value: UINT64_MAX and 0 */
    uint32_t readers;            /* those who read h and want the writer not to change it; readers write it */
    struct cp__histogram *aside; /* of the same writer; NULL: not needed yet */
    uint64_t *blocks[CP__HISTOGRAM_BLOCKS];
};

/* Makes an empty histogram of any memory. */
void cp__histogram_init(struct cp__histogram *h);
/* Frees the blocks; no other thread uses h any more. */
void cp__histogram_fini(struct cp__histogram *h);
/* Adds a value. Returns 0, or -ENOMEM, which leaves h unchanged. */
int cp__histogram_record(struct cp__histogram *h, uint64_t value);
/* Adds what `from` has, of which another thread may be the writer. The caller is the writer of `into`, and
 * may be that of `from`. A reader that gets nowhere, because the writer is off its CPU in the middle of a
 * change, takes after 0.1 s what is there: this may lack a part of one value. Returns 0, or
 * -ENOMEM, which leaves `into` unchanged. */
int cp__histogram_merge(struct cp__histogram *into, const struct cp__histogram *from);
/* In the child of a fork: makes h empty without freeing anything, whatever another thread was doing with it.
 */
void cp__histogram_forget(struct cp__histogram *h);

/* The calls below are for a histogram that has no writer meanwhile, and which no thread has read while it had
 * one: those that cp__histogram_merge() has made. */
double cp__histogram_sum(const struct cp__histogram *h);
double cp__histogram_mean(const struct cp__histogram *h); /* 0 if there is no value */
/* Of the values as a whole population; the same. If the sum of squares has reached its maximum, sigma is that
 * of the middles of the buckets. */
double cp__histogram_sigma(const struct cp__histogram *h);
/* Returns the value that `percent` % of the values do not exceed (nearest rank): the middle of its bucket,
 * but never below min and above max, which are the values of the first rank and of the last; 0 if there is no
 * value. */
uint64_t cp__histogram_percentile(const struct cp__histogram *h, double percent);
/* Calls fn for each bucket that has values, in ascending order; low and high are both included. A result
 * other than 0 ends the list and is returned. */
typedef int cp__histogram_bucket_fn(void *context, uint64_t low, uint64_t high, uint64_t count);
int cp__histogram_each(const struct cp__histogram *h, cp__histogram_bucket_fn *fn, void *context);

#endif
