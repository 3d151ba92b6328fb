/* Which waits are taken, and what they stand for: against the exact sums of skewed distributions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/wait/weight.h"
#include "tests/support/test.h"

#define N 2000000u

/* Returns a number in (0, 1]. */
static double fraction(uint64_t *random)
{
    return (double)((cp__wait_random(random) >> 11) + 1) / (double)((uint64_t)1 << 53);
}

/* Lengths of waits in ns. */
static uint64_t constant(uint64_t *random)
{
    (void)random;
    return 1234;
}

static uint64_t tiny(uint64_t *random)
{
    return 1 + cp__wait_random(random) % 20;
}

/* One of a thousand is ten thousand times as long. */
static uint64_t bimodal(uint64_t *random)
{
    return cp__wait_random(random) % 1000 == 0 ? 5000000 : 500;
}

/* The longest hundredth has more than a third of the sum. */
static uint64_t pareto(uint64_t *random)
{
    const double ns = 200 * pow(fraction(random), -1 / 1.3);

    return ns < 1e9 ? (uint64_t)ns : 1000000000;
}

static uint64_t exponential(uint64_t *random)
{
    return 1 + (uint64_t)(-20000 * log(fraction(random)));
}

struct sums {
    double waits, delay;
    double waits_square, delay_square; /* of what each wait adds, less what it is: the variance */
};

/* Adds up n waits as they are, and as a recording of that period tells them. */
static void add_waits(uint64_t (*length)(uint64_t *), uint64_t period, struct sums *exact, struct sums *told)
{
    uint64_t lengths = 0x1234567, random = 0x89abcdef;

    for (unsigned i = 0; i < N; i++) {
        const uint64_t ns = length(&lengths);
        const double p = ns >= period ? 1 : (double)ns / (double)period;

        exact->waits += 1;
        exact->delay += (double)ns;
        exact->waits_square += 1 / p - 1;
        exact->delay_square += (double)ns * (double)ns * (1 / p - 1);
        if (!cp__wait_is_taken(ns, period, cp__wait_random(&random)))
            continue;
        told->waits += (double)cp__wait_parts(ns, period) / CP__WAIT_PARTS;
        told->delay += (double)cp__wait_delay(ns, period);
    }
}

/* Within a hundredth, or four standard deviations if so few waits are taken that these are more. */
static void check_near(const char *what, double told, double exact, double variance)
{
    const double sigma = sqrt(variance);
    const double allowed = 4 * sigma > exact / 100 ? 4 * sigma : exact / 100;

    CHECKF(fabs(told - exact) <= allowed, "%s: %.0f instead of %.0f, a deviation is %.0f", what, told, exact,
           sigma);
    CHECKF(sigma < exact / 10, "%s: so few waits say nothing", what);
}

CP_TEST(sums_are_right_in_the_mean)
{
    static const struct {
        const char *name;
        uint64_t (*length)(uint64_t *);
        uint64_t periods[5];
    } all[] = {
        {"constant", constant, {1, 1000, 1234, 10000, 1000000}},
        {"tiny", tiny, {1, 7, 20, 1000, 20000}},
        {"bimodal", bimodal, {1, 1000, 10000, 100000, 1000000}},
        {"pareto", pareto, {1, 100, 1000, 10000, 100000}},
        {"exponential", exponential, {1, 1000, 20000, 1000000, 10000000}},
    };

    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        for (unsigned k = 0; k < 5; k++) {
            struct sums exact = {0}, told = {0};
            char what[80];

            add_waits(all[i].length, all[i].periods[k], &exact, &told);
            snprintf(what, sizeof what, "waits, %s at %llu", all[i].name,
                     (unsigned long long)all[i].periods[k]);
            check_near(what, told.waits, exact.waits, exact.waits_square);
            snprintf(what, sizeof what, "delay, %s at %llu", all[i].name,
                     (unsigned long long)all[i].periods[k]);
            check_near(what, told.delay, exact.delay, exact.delay_square);
        }
    }
}

CP_TEST(waits_as_long_as_the_period_are_exact)
{
    for (uint64_t ns = 1; ns < UINT64_MAX / 3; ns *= 3) {
        CHECK(cp__wait_is_taken(ns, 1, UINT64_MAX));
        CHECK(cp__wait_is_taken(ns, ns, UINT64_MAX));
        CHECK_EQ(cp__wait_parts(ns, ns), CP__WAIT_PARTS);
        CHECK_EQ(cp__wait_delay(ns, ns), ns);
        CHECK_EQ(cp__wait_delay(ns, 1), ns);
    }
}

CP_TEST(the_shortest_wait_fits_into_the_longest_period)
{
    CHECK(cp__wait_is_taken(1, CP__WAIT_PERIOD_MAX, 0));
    CHECK(!cp__wait_is_taken(1, CP__WAIT_PERIOD_MAX, UINT64_MAX));
    CHECK_EQ(cp__wait_parts(1, CP__WAIT_PERIOD_MAX) / CP__WAIT_PARTS, CP__WAIT_PERIOD_MAX);
    CHECK_EQ(cp__wait_delay(1, CP__WAIT_PERIOD_MAX), CP__WAIT_PERIOD_MAX);
}
