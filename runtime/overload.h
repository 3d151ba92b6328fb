/* Disables events whose samples leave an M next to no time. */
#ifndef COUNTERPOINT_RUNTIME_OVERLOAD_H
#define COUNTERPOINT_RUNTIME_OVERLOAD_H

#include "m.h"

/* Looks at what samples took of m's CPU time since the last look; m's CPU clock shows cpu_ns. If they took
 * nearly all of it, twice in a row, disables from outside m's costliest events. Under the runtime lock; m
 * is LIVE. */
void cp__overload_look(struct cp__m *m, uint64_t cpu_ns);

/* Returns whether a clock's records leave their thread no time: so many of them came in ns, of which
 * multiples stand for more than one period. What a sample costs need not be known for that. */
bool cp__overload_has_no_breaks_from_handler(uint64_t records, uint64_t multiples, uint64_t ns);

/* Returns the CPU time of m without samples of slot, because the event was stopped: disabled for its cost, or
 * by the kernel at its limit. 0 if the event was not stopped. Under the runtime lock, or on the M. */
uint64_t cp__overload_ns_from_handler(const struct cp__m *m, int slot);
/* Ends the time without samples: m's event is about to be closed. On the M, with the claim. */
void cp__overload_end_from_handler(struct cp__m *m, int slot);

#endif
