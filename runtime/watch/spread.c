/* Distributions: what they are like. */
#include <float.h>
#include <stdbool.h>

#include "buckets.h"
#include "histogram.h"

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Integers of 256 bits, the lowest 64 first: variances of close values are small differences of large
 * numbers, which doubles do not have. */
struct wide {
    uint64_t words[4];
};

static struct wide wide_product(const uint64_t a[2], const uint64_t b[2])
{
    struct wide product = {{0}};

    for (unsigned i = 0; i < 2; i++) {
        uint64_t carry = 0;

        for (unsigned j = 0; j < 2; j++) {
            const unsigned __int128 sum = (unsigned __int128)a[i] * b[j] + product.words[i + j] + carry;

            product.words[i + j] = (uint64_t)sum;
            carry = (uint64_t)(sum >> 64);
        }
        product.words[i + 2] = carry;
    }
    return product;
}

/* Returns a - b, which is not negative. */
static double wide_difference(const struct wide *a, const struct wide *b)
{
    uint64_t words[4];
    double result = 0;
    bool borrow = false;

    for (unsigned i = 0; i < 4; i++) {
        const bool first = __builtin_sub_overflow(a->words[i], b->words[i], &words[i]);

        borrow = __builtin_sub_overflow(words[i], (uint64_t)borrow, &words[i]) || first;
    }
    for (unsigned i = 4; i-- > 0;)
        result = result * 0x1p64 + (double)words[i];
    return result;
}

/* The library does not need libm for this alone. Newton's way from above: falls until it has arrived. */
static double root_of(double x)
{
    double root = x < 1 ? 1 : x, next = root;

    do {
        root = next;
        next = (root + x / root) / 2;
    } while (next < root);
    return root;
}

double cp__histogram_sum(const struct cp__histogram *h)
{
    return (double)((unsigned __int128)h->sum[1] << 64 | h->sum[0]);
}

double cp__histogram_mean(const struct cp__histogram *h)
{
    return h->count == 0 ? 0 : cp__histogram_sum(h) / (double)h->count;
}

/* Returns the variance by exact sums: (count * squares - sum * sum) / (count * count). */
static double exact_variance(const struct cp__histogram *h)
{
    const uint64_t count[2] = {h->count, 0};
    const struct wide a = wide_product(count, h->squares), b = wide_product(h->sum, h->sum);

    return wide_difference(&a, &b) / (double)h->count / (double)h->count;
}

struct deviations {
    double mean;
    double squares;
};

static double middle_of(uint64_t low, uint64_t high)
{
    return (double)low + (double)(high - low) / 2;
}

static int add_deviation(void *context, uint64_t low, uint64_t high, uint64_t count)
{
    struct deviations *deviations = context;
    const double deviation = middle_of(low, high) - deviations->mean;

    deviations->squares += deviation * deviation * (double)count;
    return 0;
}

static double rough_variance(const struct cp__histogram *h)
{
    struct deviations deviations = {.mean = cp__histogram_mean(h)};

    cp__histogram_each(h, add_deviation, &deviations);
    return deviations.squares / (double)h->count;
}

double cp__histogram_sigma(const struct cp__histogram *h)
{
    if (h->count == 0 || h->min == h->max)
        return 0;
    return root_of((h->squares[0] & h->squares[1]) == UINT64_MAX ? rough_variance(h) : exact_variance(h));
}

/* ---- Buckets --------------------------------------------------------------------------------- */

int cp__histogram_each(const struct cp__histogram *h, cp__histogram_bucket_fn *fn, void *context)
{
    int result = 0;

    for (unsigned bucket = 0; bucket < CP__HISTOGRAM_BLOCKS * CP__HISTOGRAM_SUB && result == 0; bucket++) {
        const uint64_t *counts = h->blocks[bucket / CP__HISTOGRAM_SUB];

        if (counts == NULL)
            bucket += CP__HISTOGRAM_SUB - 1;
        else if (counts[bucket % CP__HISTOGRAM_SUB] != 0)
            result = fn(context, cp__bucket_low(bucket), cp__bucket_high(bucket),
                        counts[bucket % CP__HISTOGRAM_SUB]);
    }
    return result;
}

/* Returns the number, from 1, of the value that `percent` % do not exceed. A product such as 99.9 * 1000 has
 * rounding errors, which must not lead to the next rank. */
static uint64_t rank_of(double percent, uint64_t count)
{
    const double exact = percent * (double)count / 100 * (1 - 2 * DBL_EPSILON);
    uint64_t rank;

    if (!(exact > 0))
        return 1;
    if (exact >= (double)count)
        return count;
    rank = (uint64_t)exact;
    return (double)rank < exact ? rank + 1 : rank;
}

struct search {
    uint64_t left; /* how many values are before the rank's */
    uint64_t found;
};

static int find_rank(void *context, uint64_t low, uint64_t high, uint64_t count)
{
    struct search *search = context;

    search->found = low + (high - low) / 2;
    if (search->left < count)
        return 1;
    search->left -= count;
    return 0;
}

uint64_t cp__histogram_percentile(const struct cp__histogram *h, double percent)
{
    const uint64_t rank = h->count == 0 ? 0 : rank_of(percent, h->count);
    struct search search = {.left = rank - 1};

    if (h->count == 0)
        return 0;
    if (rank == 1)
        return h->min;
    if (rank == h->count)
        return h->max;
    cp__histogram_each(h, find_rank, &search);
    return search.found < h->min ? h->min : search.found > h->max ? h->max : search.found;
}
