/* What the server's other routes do: each waits for one of the usual reasons, so that profiles of waits can
 * be tried. */
#ifndef COUNTERPOINT_EXAMPLES_SERVER_WAITS_H
#define COUNTERPOINT_EXAMPLES_SERVER_WAITS_H

#include "server_work.h"

#include <stdbool.h>

/* Makes what the routes share. Returns false if there is no memory. */
bool waits_start(void);
/* No request runs any more. */
void waits_end(void);

/* Each function answers one request after ms milliseconds, or later. */
void wait_reserve(struct work *w, unsigned ms); /* one at a time: under a lock */
void wait_fetch(struct work *w, unsigned ms);   /* two at a time: a place in a small channel each */
void wait_sleep(struct work *w, unsigned ms);
void wait_poll(struct work *w, unsigned ms); /* looks each half millisecond whether the time has come */

#endif
