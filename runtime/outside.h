/* What other threads do to an M's handles: they disable events, which a thread may have no time left to do.
 * */
#ifndef COUNTERPOINT_RUNTIME_OUTSIDE_H
#define COUNTERPOINT_RUNTIME_OUTSIDE_H

#include "m.h"

/* Disables m's events that no slot holds any more. False if m is just changing its handles, so that it has
 * to be looked at again. Under the runtime lock. */
bool cp__outside_disable_unwanted(struct cp__m *m);

#endif
