/* Which accounts a look at all of them draws. */
#ifndef COUNTERPOINT_RUNTIME_WAIT_WALL_DRAW_H
#define COUNTERPOINT_RUNTIME_WAIT_WALL_DRAW_H

#include <stddef.h>
#include <stdint.h>

/* How many accounts a look takes at most. */
#define CP__WALL_DRAWN_MAX 16u
/* How many places of accounts it visits at most: most of them may be free. */
#define CP__WALL_VISITS_MAX 1024u

struct cp__account;

struct cp__wall_draw {
    uint64_t random; /* not 0 */
    double living;   /* how many accounts there are, as far as earlier looks tell; 0: none was made */

    /* Filled by cp__wall_draw(). */
    const struct cp__account *drawn[CP__WALL_DRAWN_MAX];
    size_t n;
    double each; /* each of them stands for so many accounts */
};

/* Returns the account at a place; NULL: the place is free. */
typedef const struct cp__account *cp__wall_place_fn(size_t place);

/*
 * Draws from so many places. Each place is as likely to be visited as every other one, and each account that
 * is found as likely to be taken: so each account adds 1 in the mean. If all places are visited and there are
 * no more than CP__WALL_DRAWN_MAX accounts, all of them are taken, and stand for themselves.
 */
void cp__wall_draw(struct cp__wall_draw *draw, size_t places, cp__wall_place_fn *at);

#endif
