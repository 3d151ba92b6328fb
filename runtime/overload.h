/* Disables events that cost an M more than half of its time. */
#ifndef COUNTERPOINT_RUNTIME_OVERLOAD_H
#define COUNTERPOINT_RUNTIME_OVERLOAD_H

#include "m.h"

/* Compares what samples cost m since the last look with m's CPU time. If they cost more than half of it,
 * disables from outside m's costliest events. Under the runtime lock; m is LIVE. */
void cp__overload_look(struct cp__m *m);

/* Returns the CPU time of m without samples of slot, because the event was disabled for its cost; 0 if the
 * event was not disabled. Under the runtime lock, or on the M. */
uint64_t cp__overload_ns_from_handler(const struct cp__m *m, int slot);

#endif
