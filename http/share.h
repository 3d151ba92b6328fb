/* What all requests of a process share: a turn for work that uses a whole CPU, and places for requests that
 * wait long. */
#ifndef COUNTERPOINT_HTTP_SHARE_H
#define COUNTERPOINT_HTTP_SHARE_H

#include "exchange.h"

/* ---- Turns ----------------------------------------------------------------------------------- */

/*
 * Reading symbols, listing all Gs and asking the kernel about each event use a whole CPU, and symbols also
 * take tens of megabytes. Therefore only one request of the process does such work at a time. Waiting
 * requests get the turn in the order in which they came, and the tables of symbols are freed before the next
 * turn begins.
 */

enum { CP__HTTP_TURN_WAITERS = 4 };

/* What a turn is wanted for. A profile has already been recorded, and may always wait; a lookup may only
 * wait if fewer than CP__HTTP_TURN_WAITERS others do. */
enum cp__http_turn_for { CP__TURN_LOOKUP, CP__TURN_PROFILE };

/* Takes the turn. Returns 0; -EBUSY if too many others wait; -ETIMEDOUT if the turn does not come within
 * cp__http_turn_wait_ms; -ECANCELED if the client goes away. If exchange is NULL, there is no client that
 * can go away. */
int cp__http_turn_take(const struct cp__exchange *exchange, enum cp__http_turn_for what);
/* Gives the turn to the next that waits. */
void cp__http_turn_give(void);

/* Takes the turn for a lookup. Returns true if the request has the turn. Otherwise *result is what to
 * return, and the request has been answered with status 503, unless its client has gone. */
bool cp__http_turn_or_refuse(struct cp__exchange *exchange, int *result);

/* Milliseconds that a request waits for the turn at most. Tests set fewer. */
extern unsigned cp__http_turn_wait_ms;
/* Returns how many requests wait for the turn now. For tests. */
unsigned cp__http_turn_waiters(void);

/* ---- Places ---------------------------------------------------------------------------------- */

/* A request that waits for seconds occupies a place meanwhile: CP__PLACE_SLOT for a profile, CP__PLACE_DELTA
 * for the difference of two states. */
enum cp__http_place { CP__PLACE_SLOT, CP__PLACE_DELTA, CP__HTTP_PLACES };

enum { CP__HTTP_DELTAS = 4 }; /* places for deltas */

/* Takes a place of that kind. Returns false if max places are taken. */
bool cp__http_place_take(enum cp__http_place place, unsigned max);
/* Gives a place back. */
void cp__http_place_give(enum cp__http_place place);

#endif
