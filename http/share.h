/* What all requests to the endpoint share of the process that they are answered in: turns at what takes all
 * of a CPU, and places for what waits long. */
#ifndef COUNTERPOINT_HTTP_SHARE_H
#define COUNTERPOINT_HTTP_SHARE_H

#include "exchange.h"

/* ---- Turns ----------------------------------------------------------------------------------- */

/*
 * Reading symbols, listing all Gs and asking the kernel about each event take all of a CPU, and symbols take
 * tens of megabytes beside it. One request of the process does such work at a time, those that wait get their
 * turn in the order in which they came, and the tables of symbols are freed before the next one begins.
 */

enum { CP__HTTP_TURN_WAITERS = 4 };

/* Who may wait: a profile that has been recorded always may, anything else only beside fewer than
 * CP__HTTP_TURN_WAITERS others. */
enum cp__http_turn_for { CP__TURN_LOOKUP, CP__TURN_PROFILE };

/* Returns 0 with the turn; -EBUSY if too many wait; -ETIMEDOUT if the turn did not come within
 * cp__http_turn_wait_ms; -ECANCELED if the client went away. exchange may be NULL: nobody goes away. */
int cp__http_turn_take(const struct cp__exchange *exchange, enum cp__http_turn_for what);
void cp__http_turn_give(void);

/* Takes a turn for a lookup. True with the turn; otherwise *result is what to return, and the request has
 * been answered with 503, unless its client went away. */
bool cp__http_turn_or_refuse(struct cp__exchange *exchange, int *result);

/* How long a turn is waited for; tests make it short. */
extern unsigned cp__http_turn_wait_ms;
/* How many wait now; for tests. */
unsigned cp__http_turn_waiters(void);

/* ---- Places ---------------------------------------------------------------------------------- */

/* A request that waits for seconds occupies a place meanwhile. */
enum cp__http_place { CP__PLACE_SLOT, CP__PLACE_DELTA, CP__HTTP_PLACES };

enum { CP__HTTP_DELTAS = 4 }; /* at a time */

/* False if max are taken. */
bool cp__http_place_take(enum cp__http_place place, unsigned max);
void cp__http_place_give(enum cp__http_place place);

#endif
