/* Events that turn out to cost an M more than half of its time. */
#ifndef COUNTERPOINT_RUNTIME_OVERLOAD_H
#define COUNTERPOINT_RUNTIME_OVERLOAD_H

#include "m.h"

/* Looks at what samples cost m since the last look, and disables from outside the costliest of m's events
 * if they cost more than half of m's CPU time. Under the runtime lock; m is LIVE. */
void cp__overload_look(struct cp__m *m);

/* The CPU time of m that has no samples of slot because the event was disabled for its cost; 0: the event
 * was not disabled. Under the runtime lock, or on the M. */
uint64_t cp__overload_ns_from_handler(const struct cp__m *m, int slot);

#endif
