/* Which waits are taken, and what they stand for: against the exact sums of skewed distributions. First by
 * the formulas alone, and then through the hooks into a recording. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/g_account.h"
#include "runtime/ticks.h"
#include "runtime/wait/hooks.h"
#include "runtime/wait/weight.h"
#include "tests/support/recordings.h"
#include "tests/support/stopwatch.h"

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

static const struct distribution {
    const char *name;
    uint64_t (*length)(uint64_t *);
    uint64_t periods[5];
} distributions[] = {
    {"constant", constant, {1, 1000, 1234, 10000, 1000000}},
    {"tiny", tiny, {1, 7, 20, 1000, 20000}},
    {"bimodal", bimodal, {1, 1000, 10000, 100000, 1000000}},
    {"pareto", pareto, {1, 100, 1000, 10000, 100000}},
    {"exponential", exponential, {1, 1000, 20000, 1000000, 10000000}},
};
#define DISTRIBUTIONS (sizeof distributions / sizeof distributions[0])

struct sums {
    double waits, delay;
    double waits_variance, delay_variance; /* of what is told */
};

static void add_exactly(struct sums *exact, double ns, uint64_t period)
{
    const double p = ns >= (double)period ? 1 : ns / (double)period;

    exact->waits += 1;
    exact->delay += ns;
    exact->waits_variance += 1 / p - 1;
    exact->delay_variance += ns * ns * (1 / p - 1);
}

/* Within a hundredth, or five standard deviations if so few waits are taken that these are more. */
static void check_near(const struct distribution *of, uint64_t period, double told, double exact,
                       double variance)
{
    const double sigma = sqrt(variance);
    const double allowed = 5 * sigma > exact / 100 ? 5 * sigma : exact / 100;

    CHECKF(fabs(told - exact) <= allowed, "%s at %llu: %.0f instead of %.0f, a deviation is %.0f", of->name,
           (unsigned long long)period, told, exact, sigma);
    CHECKF(sigma < exact / 10, "%s at %llu: so few waits say nothing", of->name, (unsigned long long)period);
}

static void check_sums(const struct distribution *of, uint64_t period, const struct sums *exact,
                       const struct sums *told)
{
    check_near(of, period, told->waits, exact->waits, exact->waits_variance);
    check_near(of, period, told->delay, exact->delay, exact->delay_variance);
}

/* ---- The formulas ---------------------------------------------------------------------------- */

static void check_formulas(const struct distribution *of, uint64_t period)
{
    uint64_t lengths = 0x1234567, random = 0x89abcdef;
    struct sums exact = {0}, told = {0};

    for (unsigned i = 0; i < N; i++) {
        const uint64_t ns = of->length(&lengths);

        add_exactly(&exact, (double)ns, period);
        if (!cp__wait_is_taken(ns, period, cp__wait_random(&random)))
            continue;
        told.waits += (double)cp__wait_parts(ns, period) / CP__WAIT_PARTS;
        told.delay += (double)cp__wait_delay(ns, period);
    }
    check_sums(of, period, &exact, &told);
}

CP_TEST(sums_are_right_in_the_mean)
{
    for (unsigned i = 0; i < DISTRIBUTIONS; i++)
        for (unsigned k = 0; k < 5; k++)
            check_formulas(&distributions[i], distributions[i].periods[k]);
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

/* ---- The hooks ------------------------------------------------------------------------------- */

/* Returns how many stamps are so many ns. */
static uint64_t stamps_of(uint64_t ns)
{
    if (!cp__ticks_clock.by_ticks)
        return ns;
    return (uint64_t)((((unsigned __int128)ns << 32) + cp__ticks_clock.ns_per_tick / 2) /
                      cp__ticks_clock.ns_per_tick);
}

static double exact_ns(uint64_t stamps)
{
    return cp__ticks_clock.by_ticks ? (double)stamps * (double)cp__ticks_clock.ns_per_tick / 0x1p32
                                    : (double)stamps;
}

/* Tells the hooks of waits of a G, as the core does when it runs the G again. */
static void tell_waits(const struct distribution *of, uint64_t period, unsigned n, struct sums *exact)
{
    struct cp__m *m = cp__m_current;
    struct cp__account *account = m->self.account;
    uint64_t lengths = 0x1234567;

    for (unsigned i = 0; i < n; i++) {
        const uint64_t ns = of->length(&lengths), stamps = stamps_of(ns);

        account->is_woken = true;
        account->last_waited = stamps;
        cp__wait_hooks.entered(m, &m->self, account, 0);
        add_exactly(exact, exact_ns(stamps), period);
    }
    account->is_woken = false;
}

static void check_hooks(const struct distribution *of, uint64_t period)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, period);
    struct sums exact = {0}, told = {0};
    struct sought sought;

    tell_waits(of, period, N / 10, &exact);
    sought = seek_all(recording);
    told.waits = sought.waits;
    told.delay = (double)sought.delay;
    check_sums(of, period, &exact, &told);
    cp__recording_free(recording);
}

CP_TEST(what_is_recorded_is_right_in_the_mean)
{
    struct cp_m *m = attach_m();
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);

    cp_wait_begin(CP_WAIT_IO, NULL);
    cp_wait_end();
    cp__recording_free(recording);
    ((struct cp__wait_m *)cp__m_current->wait)->random = 0x89abcdef; /* the same in each run */
    for (unsigned i = 0; i < DISTRIBUTIONS; i++)
        for (unsigned k = 1; k < 4; k++)
            check_hooks(&distributions[i], distributions[i].periods[k]);
    cp_m_detach(m);
}
