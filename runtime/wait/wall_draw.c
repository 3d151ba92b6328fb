#include "wall_draw.h"

#include "weight.h"

/* So many accounts should be found, so that the most are taken nearly always. */
#define FOUND_AIM (2.0 * CP__WALL_DRAWN_MAX)
#define VISITS_MIN 64.0

/* Returns how many places to visit. That depends on earlier looks alone: what this one finds must not decide
 * how far it goes. */
static size_t visits_for(const struct cp__wall_draw *draw, size_t places)
{
    double visits = draw->living > 0 ? FOUND_AIM * (double)places / draw->living : CP__WALL_VISITS_MAX;

    if (visits < VISITS_MIN)
        visits = VISITS_MIN;
    if (visits > CP__WALL_VISITS_MAX)
        visits = CP__WALL_VISITS_MAX;
    return visits < (double)places ? (size_t)visits : places;
}

static size_t below(uint64_t *random, size_t bound)
{
    return (size_t)((unsigned __int128)cp__wait_random(random) * bound >> 64);
}

/* The n-th account was found. Keeps each of those that were found with the same probability. */
static void keep_some(struct cp__wall_draw *draw, const struct cp__account *account, size_t n)
{
    size_t place;

    if (draw->n < CP__WALL_DRAWN_MAX) {
        draw->drawn[draw->n++] = account;
        return;
    }
    place = below(&draw->random, n);
    if (place < CP__WALL_DRAWN_MAX)
        draw->drawn[place] = account;
}

/* Visits a random place of each `step` places. The last ones are fewer, and a place beyond them is none. */
void cp__wall_draw(struct cp__wall_draw *draw, size_t places, cp__wall_place_fn *at)
{
    const size_t visits = visits_for(draw, places), step = places == 0 ? 1 : (places + visits - 1) / visits;
    size_t found = 0;

    draw->n = 0;
    for (size_t first = 0; first < places; first += step) {
        const size_t place = first + (step == 1 ? 0 : below(&draw->random, step));
        const struct cp__account *account = place < places ? at(place) : NULL;

        if (account != NULL)
            keep_some(draw, account, ++found);
    }
    draw->each = draw->n == 0 ? 0 : (double)step * (double)found / (double)draw->n;
    draw->living = (double)step * (found == 0 ? 0.5 : (double)found);
}
