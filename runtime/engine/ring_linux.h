/* The ring that an M's events write to. All but the first run on the M. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_RING_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_RING_LINUX_H

#include "runtime/m.h"
#include "runtime/moment.h"

/* Once, before the first M. */
void cp__ring_prepare(void);

/* Makes the event fd a member of m's ring, which is made where there is none, larger where the event's
 * records hold chains; 0 or a negative errno value. */
int cp__ring_join_from_handler(struct cp__m *m, int fd, bool has_chains);
/* A member less; the last one takes the ring with it. */
void cp__ring_leave_from_handler(struct cp__ring *ring);
/* A bit for each slot whose event is throttled, by what has been read and what waits in the ring. */
uint32_t cp__ring_throttled_from_handler(const struct cp__m *m);
/* The first call says that the library itself causes the records from now on, the second one that it has
 * caused the records until now; see own_begin and own_end of struct cp__ring. */
void cp__ring_own_begins_from_handler(struct cp__ring *ring);
void cp__ring_own_ends_from_handler(struct cp__ring *ring);
/* Records what the ring holds, or adds it to moment. */
void cp__ring_drain_from_handler(struct cp__m *m, struct cp__moment *moment);

#endif
