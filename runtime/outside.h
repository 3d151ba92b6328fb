/* Changes that other threads make to an M's handles. They disable events, because the events may leave their
 * own thread no time to do that. */
#ifndef COUNTERPOINT_RUNTIME_OUTSIDE_H
#define COUNTERPOINT_RUNTIME_OUTSIDE_H

#include "m.h"

/* Disables m's events whose config no slot holds any more. Returns false if m is just changing its handles;
 * the caller must then look at m again. Under the runtime lock. */
bool cp__outside_disable_unwanted(struct cp__m *m);

#endif
