/* Reaching Ms that have not looked at the slots since these changed. */
#ifndef COUNTERPOINT_RUNTIME_KICK_H
#define COUNTERPOINT_RUNTIME_KICK_H

#include "m.h"

/* Kicks the Ms that have run since they were first found behind. Under the runtime lock. */
void cp__kick_stale(void);

/* Kicks until every M that runs has looked at the slots. Ms that sleep are left alone. Not under the runtime
 * lock. */
void cp__kick_until_settled(void);

/* Whether a kick may yet reach m. Under the runtime lock. */
bool cp__kick_is_under_way(const struct cp__m *m);

#endif
