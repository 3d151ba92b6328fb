/* Notices events that the kernel has disabled at their limit, and renews limits that no handler renews. */
#ifndef COUNTERPOINT_RUNTIME_ENDED_H
#define COUNTERPOINT_RUNTIME_ENDED_H

#include "engine.h"
#include "m.h"

/* Looks at m's events without new records, when m's CPU clock shows cpu_ns. Tells of those that have
 * reached their limit, and lets them count again. Under the runtime lock; m is LIVE. */
void cp__ended_look(struct cp__m *m, uint64_t cpu_ns);

/* Returns for how much of its thread's CPU time the slot's event has not counted, beside what was told
 * before, if it has counted for time_enabled. With the claim. */
uint64_t cp__ended_missed_from_handler(const struct cp__m *m, int slot, uint64_t time_enabled);

/* Tells of an event that does not count for how much of its thread's CPU time it has not done so, beside what
 * was told before, if that is `least` or more. With the claim. */
void cp__ended_tell_from_handler(struct cp__m *m, int slot, uint64_t least, const struct cp__ending *ending);

#endif
