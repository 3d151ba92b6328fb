/* Distributions: buckets, percentiles, sums and merging. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/watch/histogram.h"
#include "tests/support/test.h"

/* ---- Values ---------------------------------------------------------------------------------- */

struct values {
    uint64_t *v;
    size_t n;
};

static struct values new_values(size_t n)
{
    return (struct values){calloc(n, sizeof(uint64_t)), n};
}

/* A generator with a known sequence (splitmix64). */
static uint64_t random_state;
static uint64_t draw(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Returns a number above 0 and below 1. */
static double draw_part(void)
{
    return ((double)(draw() >> 12) + 0.5) / 0x1p52;
}

static uint64_t all_equal(size_t i, size_t n)
{
    (void)i, (void)n;
    return 1234567;
}

static uint64_t two_far_apart(size_t i, size_t n)
{
    (void)n;
    return i % 3 == 0 ? 3 : 4000000000000;
}

static uint64_t around_powers(size_t i, size_t n)
{
    (void)n;
    return ((uint64_t)1 << (i / 3) % 52) + i % 3 - 1;
}

static uint64_t around_all_powers(size_t i, size_t n)
{
    (void)n;
    return ((uint64_t)1 << (i / 3) % 64) + i % 3 - 1;
}

static uint64_t uniform(size_t i, size_t n)
{
    (void)i, (void)n;
    return draw() % 1000000;
}

static uint64_t of_all_sizes(size_t i, size_t n)
{
    (void)i, (void)n;
    return draw() >> draw() % 64;
}

static uint64_t exponential(size_t i, size_t n)
{
    (void)i, (void)n;
    return (uint64_t)(-1e6 * log(draw_part()));
}

static uint64_t pareto(size_t i, size_t n)
{
    (void)i, (void)n;
    return (uint64_t)(100 / pow(draw_part(), 1 / 1.1));
}

static uint64_t extremes(size_t i, size_t n)
{
    (void)n;
    return i % 2 == 0 ? 0 : UINT64_MAX;
}

static uint64_t ascending(size_t i, size_t n)
{
    (void)n;
    return i * 37;
}

static uint64_t descending(size_t i, size_t n)
{
    return (n - i) * 37;
}

static uint64_t one_outlier(size_t i, size_t n)
{
    return i == n / 2 ? 1000000000000 : 1000 + i % 10;
}

static uint64_t close_together(size_t i, size_t n)
{
    (void)n;
    return 1000000000000 + i % 3;
}

static const struct distribution {
    const char *name;
    uint64_t (*value)(size_t i, size_t n);
    size_t n;
    bool is_exact; /* the sum of squares does not reach its maximum */
} distributions[] = {
    {"all equal", all_equal, 1000, true},
    {"one", all_equal, 1, true},
    {"two", two_far_apart, 2, true},
    {"two far apart", two_far_apart, 3001, true},
    {"around powers of two", around_powers, 52 * 3, true},
    {"around all powers of two", around_all_powers, 64 * 3, false},
    {"uniform", uniform, 100000, true},
    {"of all sizes", of_all_sizes, 100000, false},
    {"exponential", exponential, 100000, true},
    {"pareto", pareto, 100000, true},
    {"0 and UINT64_MAX", extremes, 1001, false},
    {"0", extremes, 1, true},
    {"0 and one UINT64_MAX", extremes, 2, true},
    {"ascending", ascending, 10000, true},
    {"descending", descending, 10000, true},
    {"small", ascending, 5, true},
    {"one outlier", one_outlier, 1000000, true},
    {"close together", close_together, 3000, true},
};
enum { DISTRIBUTIONS = sizeof distributions / sizeof distributions[0] };

static struct values made(const struct distribution *d)
{
    struct values values = new_values(d->n);

    random_state = 1;
    for (size_t i = 0; i < d->n; i++)
        values.v[i] = d->value(i, d->n);
    return values;
}

static void record_all(struct cp__histogram *h, const struct values *values)
{
    for (size_t i = 0; i < values->n; i++)
        CHECK_EQ(cp__histogram_record(h, values->v[i]), 0);
}

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* ---- Buckets --------------------------------------------------------------------------------- */

struct buckets {
    uint64_t count, low, high;
    unsigned n;
};

static int note_bucket(void *context, uint64_t low, uint64_t high, uint64_t count)
{
    struct buckets *buckets = context;

    CHECK(low <= high && count > 0);
    CHECK(buckets->n == 0 || low > buckets->high);
    *buckets = (struct buckets){buckets->count + count, low, high, buckets->n + 1};
    return 0;
}

static int end_after_two(void *context, uint64_t low, uint64_t high, uint64_t count)
{
    (void)low, (void)high, (void)count;
    return ++*(int *)context == 2 ? -7 : 0;
}

/* Returns the bucket of a value: the only one of its histogram. */
static struct buckets bucket_of(uint64_t value)
{
    struct buckets buckets = {0};
    struct cp__histogram h;

    cp__histogram_init(&h);
    CHECK_EQ(cp__histogram_record(&h, value), 0);
    CHECK_EQ(cp__histogram_each(&h, note_bucket, &buckets), 0);
    CHECK_EQ(buckets.n, 1);
    CHECKF(buckets.low <= value && value <= buckets.high, "%llu", (unsigned long long)value);
    cp__histogram_fini(&h);
    return buckets;
}

static void check_bucket(uint64_t value)
{
    const struct buckets bucket = bucket_of(value);

    CHECKF((bucket.high - bucket.low) / 2 + (bucket.high - bucket.low) % 2 <= bucket.low / 128 + 1,
           "%llu is in %llu to %llu", (unsigned long long)value, (unsigned long long)bucket.low,
           (unsigned long long)bucket.high);
    CHECK(value >= 128 || bucket.low == bucket.high);
    /* Buckets leave no gap. */
    CHECK(bucket.high == UINT64_MAX || bucket_of(bucket.high + 1).low == bucket.high + 1);
    CHECK(bucket.low == 0 || bucket_of(bucket.low - 1).high == bucket.low - 1);
}

CP_TEST(buckets_cover_all_values)
{
    for (unsigned power = 0; power < 64; power++) {
        for (uint64_t offset = 0; offset < 5; offset++)
            check_bucket(((uint64_t)1 << power) + offset - 2);
    }
    for (uint64_t value = 0; value < 600; value++)
        check_bucket(value);
    for (unsigned i = 0; i < 3000; i++)
        check_bucket(draw() >> draw() % 64);
}

CP_TEST(a_list_of_buckets_ends_when_told)
{
    const struct values values = made(&distributions[6]);
    struct cp__histogram h;
    int calls = 0;

    cp__histogram_init(&h);
    record_all(&h, &values);
    CHECK_EQ(cp__histogram_each(&h, end_after_two, &calls), -7);
    CHECK_EQ(calls, 2);
    free(values.v);
    cp__histogram_fini(&h);
}

/* ---- Percentiles ----------------------------------------------------------------------------- */

/* Percentiles in thousandths, so that ranks are exact. */
static const unsigned percentiles[] = {0,     1,     10,    1000,  5000,  10000, 25000, 33333, 50000,
                                       66667, 75000, 90000, 95000, 99000, 99900, 99990, 99999, 100000};

static void check_percentiles(const struct cp__histogram *h, const struct values *sorted, const char *name)
{
    for (size_t i = 0; i < sizeof percentiles / sizeof percentiles[0]; i++) {
        size_t rank = (sorted->n * percentiles[i] + 99999) / 100000;
        const uint64_t exact = sorted->v[rank == 0 ? 0 : rank - 1];
        const uint64_t got = cp__histogram_percentile(h, percentiles[i] / 1000.0);

        CHECKF(fabs((double)got - (double)exact) <= 0.01 * (double)exact, "%s, %g %%: %llu instead of %llu",
               name, percentiles[i] / 1000.0, (unsigned long long)got, (unsigned long long)exact);
        CHECK(got >= h->min && got <= h->max);
    }
    CHECK(cp__histogram_percentile(h, 0) == sorted->v[0]);
    CHECK(cp__histogram_percentile(h, 100) == sorted->v[sorted->n - 1]);
}

CP_TEST(percentiles_are_right_to_one_percent)
{
    for (size_t i = 0; i < DISTRIBUTIONS; i++) {
        const struct values values = made(&distributions[i]);
        struct buckets buckets = {0};
        struct cp__histogram h;

        cp__histogram_init(&h);
        record_all(&h, &values);
        qsort(values.v, values.n, sizeof values.v[0], by_size);
        check_percentiles(&h, &values, distributions[i].name);
        CHECK_EQ(cp__histogram_each(&h, note_bucket, &buckets), 0);
        CHECK_EQ(buckets.count, values.n);
        CHECK_EQ(h.count, values.n);
        free(values.v);
        cp__histogram_fini(&h);
    }
}

CP_TEST(percentiles_beyond_the_ends_are_the_ends)
{
    struct cp__histogram h;

    cp__histogram_init(&h);
    CHECK_EQ(cp__histogram_percentile(&h, 50), 0);
    CHECK(cp__histogram_mean(&h) == 0 && cp__histogram_sigma(&h) == 0 && cp__histogram_sum(&h) == 0);
    CHECK_EQ(cp__histogram_record(&h, 1000001), 0);
    CHECK_EQ(cp__histogram_record(&h, 2000001), 0);
    CHECK_EQ(cp__histogram_percentile(&h, -1), 1000001);
    CHECK_EQ(cp__histogram_percentile(&h, NAN), 1000001);
    CHECK_EQ(cp__histogram_percentile(&h, 101), 2000001);
    CHECK_EQ(cp__histogram_percentile(&h, INFINITY), 2000001);
    cp__histogram_fini(&h);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Sigma by two passes of long doubles, whose error is far below the one that is allowed. */
static long double exact_sigma(const struct values *values, long double mean)
{
    long double squares = 0;

    for (size_t i = 0; i < values->n; i++) {
        const long double deviation = (long double)values->v[i] - mean;

        squares += deviation * deviation;
    }
    return sqrtl(squares / (long double)values->n);
}

static void check_near(double got, long double exact, double error, const char *name)
{
    CHECKF(fabsl(got - exact) <= error * fabsl(exact), "%s: %.17g instead of %.17Lg", name, got, exact);
}

CP_TEST(mean_and_sigma_are_exact)
{
    for (size_t i = 0; i < DISTRIBUTIONS; i++) {
        const struct distribution *d = &distributions[i];
        const struct values values = made(d);
        unsigned __int128 sum = 0;
        struct cp__histogram h;

        cp__histogram_init(&h);
        record_all(&h, &values);
        for (size_t j = 0; j < values.n; j++)
            sum += values.v[j];
        CHECK(h.sum[0] == (uint64_t)sum && h.sum[1] == (uint64_t)(sum >> 64));
        check_near(cp__histogram_sum(&h), (long double)sum, 1e-15, d->name);
        check_near(cp__histogram_mean(&h), (long double)sum / (long double)values.n, 1e-15, d->name);
        check_near(cp__histogram_sigma(&h), exact_sigma(&values, (long double)sum / (long double)values.n),
                   d->is_exact ? 1e-14 : 0.01, d->name);
        free(values.v);
        cp__histogram_fini(&h);
    }
}

CP_TEST(sums_stay_at_their_maximum)
{
    struct cp__histogram h;

    cp__histogram_init(&h);
    CHECK_EQ(cp__histogram_record(&h, UINT64_MAX), 0);
    CHECK(h.squares[1] == UINT64_MAX - 1 && h.squares[0] == 1); /* (2^64 - 1)^2 */
    CHECK_EQ(cp__histogram_record(&h, UINT64_MAX), 0);
    CHECK(h.squares[1] == UINT64_MAX && h.squares[0] == UINT64_MAX);
    CHECK(h.sum[1] == 1 && h.sum[0] == UINT64_MAX - 1);
    for (unsigned i = 0; i < 70; i++) /* doubles it */
        CHECK_EQ(cp__histogram_merge(&h, &h), 0);
    CHECK(h.sum[1] == UINT64_MAX && h.sum[0] == UINT64_MAX);
    CHECK(h.count == UINT64_MAX && h.blocks[CP__HISTOGRAM_BLOCKS - 1][63] == UINT64_MAX);
    CHECK(h.squares[1] == UINT64_MAX && h.squares[0] == UINT64_MAX);
    CHECK_EQ(cp__histogram_percentile(&h, 50), UINT64_MAX);
    cp__histogram_fini(&h);
}

/* ---- Merging --------------------------------------------------------------------------------- */

static void check_equal(const struct cp__histogram *a, const struct cp__histogram *b)
{
    CHECK(a->count == b->count && a->min == b->min && a->max == b->max);
    CHECK(memcmp(a->sum, b->sum, sizeof a->sum) == 0);
    CHECK(memcmp(a->squares, b->squares, sizeof a->squares) == 0);
    for (unsigned block = 0; block < CP__HISTOGRAM_BLOCKS; block++) {
        CHECK((a->blocks[block] == NULL) == (b->blocks[block] == NULL));
        CHECK(a->blocks[block] == NULL ||
              memcmp(a->blocks[block], b->blocks[block], CP__HISTOGRAM_SUB * sizeof(uint64_t)) == 0);
    }
}

static const unsigned orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

/* Merges parts by two ways: (a + b) + c, and a + (b + c). */
static void check_order(const struct cp__histogram *parts, const unsigned *order,
                        const struct cp__histogram *all)
{
    struct cp__histogram left, right, inner;

    cp__histogram_init(&left);
    cp__histogram_init(&right);
    cp__histogram_init(&inner);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(cp__histogram_merge(&left, &parts[order[i]]), 0);
    CHECK_EQ(cp__histogram_merge(&inner, &parts[order[1]]), 0);
    CHECK_EQ(cp__histogram_merge(&inner, &parts[order[2]]), 0);
    CHECK_EQ(cp__histogram_merge(&right, &parts[order[0]]), 0);
    CHECK_EQ(cp__histogram_merge(&right, &inner), 0);
    check_equal(&left, all);
    check_equal(&right, all);
    cp__histogram_fini(&left);
    cp__histogram_fini(&right);
    cp__histogram_fini(&inner);
}

CP_TEST(merging_is_associative_and_commutative)
{
    for (size_t i = 0; i < DISTRIBUTIONS; i++) {
        const struct distribution *d[3] = {&distributions[i], &distributions[(i + 5) % DISTRIBUTIONS],
                                           &distributions[(i + 9) % DISTRIBUTIONS]};
        struct cp__histogram parts[3], all;

        cp__histogram_init(&all);
        for (unsigned j = 0; j < 3; j++) {
            const struct values values = made(d[j]);

            cp__histogram_init(&parts[j]);
            record_all(&parts[j], &values);
            record_all(&all, &values); /* merging is like having recorded all values here */
            free(values.v);
        }
        for (unsigned j = 0; j < sizeof orders / sizeof orders[0]; j++)
            check_order(parts, orders[j], &all);
        for (unsigned j = 0; j < 3; j++)
            cp__histogram_fini(&parts[j]);
        cp__histogram_fini(&all);
    }
}
