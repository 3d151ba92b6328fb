/* Reaches Ms that have not looked at the slots since the slots changed. */
#ifndef COUNTERPOINT_RUNTIME_KICK_H
#define COUNTERPOINT_RUNTIME_KICK_H

#include "m.h"

/* What a reader does with each of its passes: kicks the Ms that run and are behind, and disables events that
 * cost an M too much. The cost of a pass depends on what the process did since the last pass, not on the
 * number of Ms. Under the runtime lock. */
void cp__kick_pass(void);
/* Disables, from outside, the events that no slot holds any more, and kicks until every M that runs has
 * looked at the slots. Ms that sleep are left alone. Returns false if it gave up after 2 s and Ms still hold
 * one of the given slots; the figures of the slots tell which. Not under the runtime lock. */
bool cp__kick_until_settled(uint32_t slots);

#endif
