/* Which accounts a look draws, with places that the test makes. */
#include "runtime/wait/wall_draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/g_account.h"
#include "tests/support/test.h"

enum { PLACES_MAX = 100000, DRAWS = 4000 };

static struct cp__account *accounts; /* of all places */
static unsigned char is_free[PLACES_MAX];
static size_t visits;

static const struct cp__account *at(size_t place)
{
    CHECK(place < PLACES_MAX);
    visits++;
    return is_free[place] ? NULL : &accounts[place];
}

static void make_accounts(void)
{
    accounts = calloc(PLACES_MAX, sizeof *accounts);
    CHECK(accounts != NULL);
}

static bool has_drawn(const struct cp__wall_draw *draw, size_t place)
{
    for (size_t i = 0; i < draw->n; i++) {
        if (draw->drawn[i] == &accounts[place])
            return true;
    }
    return false;
}

CP_TEST(few_accounts_are_all_drawn)
{
    struct cp__wall_draw draw = {.random = 1};

    make_accounts();
    memset(is_free, 1, sizeof is_free);
    for (size_t i = 0; i < CP__WALL_DRAWN_MAX; i++)
        is_free[i * 50 + 7] = 0;
    for (int k = 0; k < 3; k++) {
        cp__wall_draw(&draw, 1024, at);
        CHECK_EQ(draw.n, CP__WALL_DRAWN_MAX);
        CHECK(draw.each == 1);
        for (size_t i = 0; i < CP__WALL_DRAWN_MAX; i++)
            CHECK(has_drawn(&draw, i * 50 + 7));
    }
    cp__wall_draw(&draw, 0, at);
    CHECK_EQ(draw.n, 0);
    free(accounts);
}

/* What all draws add up to: for all accounts, for a quarter of them, and for the last one. */
struct added {
    double all, quarter, last;
};

static struct added draw_often(size_t places, size_t living)
{
    struct cp__wall_draw draw = {.random = 12345};
    struct added added = {.all = 0};

    for (int k = 0; k < DRAWS; k++) {
        visits = 0;
        cp__wall_draw(&draw, places, at);
        CHECK(draw.n <= CP__WALL_DRAWN_MAX && draw.n <= living);
        CHECK(visits <= CP__WALL_VISITS_MAX);
        added.all += draw.each * (double)draw.n / DRAWS;
        for (size_t i = 0; i < draw.n; i++) {
            const size_t place = (size_t)(draw.drawn[i] - accounts);

            added.quarter += place % 4 == 0 ? draw.each / DRAWS : 0;
            added.last += place == places - 1 ? draw.each / DRAWS : 0;
        }
    }
    return added;
}

/* The random numbers are the same in each run. A draw's own deviation is at most that of the number that it
 * finds, and 4000 draws make it 1/63 of that. */
static void check_sums(size_t places, size_t living)
{
    const struct added added = draw_often(places, living);

    printf("%zu of %zu places: %.1f, %.1f, %.3f\n", living, places, added.all, added.quarter, added.last);
    CHECK(fabs(added.all / (double)living - 1) < 0.03);
    CHECK(fabs(added.quarter / ((double)living / 4) - 1) < 0.06);
    CHECK(living > 2000 || fabs(added.last - 1) < 0.5);
}

CP_TEST(each_account_adds_one_in_the_mean)
{
    make_accounts();
    check_sums(20, 20);
    check_sums(1025, 1025);
    check_sums(99999, 99999);
    /* four places of a hundred live, and the last one */
    memset(is_free, 1, sizeof is_free);
    for (size_t i = 0; i < PLACES_MAX; i += 100)
        is_free[i] = is_free[i + 1] = is_free[i + 2] = is_free[i + 3] = 0;
    is_free[PLACES_MAX - 1] = 0;
    check_sums(PLACES_MAX, PLACES_MAX / 25 + 1);
    free(accounts);
}

/* Many accounts need few visits, once a look has told how many there are. */
CP_TEST(visits_do_not_grow_with_the_accounts)
{
    struct cp__wall_draw draw = {.random = 99};

    make_accounts();
    memset(is_free, 0, sizeof is_free);
    cp__wall_draw(&draw, PLACES_MAX, at);
    visits = 0;
    cp__wall_draw(&draw, PLACES_MAX, at);
    CHECK(visits <= 64);
    CHECK_EQ(draw.n, CP__WALL_DRAWN_MAX);
    free(accounts);
}
