/* The ring that an M's events write to. All calls but cp__ring_prepare() run on the M. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_RING_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_RING_LINUX_H

#include "perf_m_linux.h"
#include "runtime/moment.h"

/* Called once, before the first event. */
void cp__ring_prepare(void);

/* Makes event number which of the slot a member of m's ring; 0 or a negative errno value. The first member
 * makes the ring, a larger one if the event's records hold call chains. */
int cp__ring_join_from_handler(struct cp__m *m, int slot, int which, bool has_chains);
/* Takes one member away. With the last member the ring is closed. */
void cp__ring_leave_from_handler(struct cp__ring *ring);
/* Returns a bit for each slot whose event is throttled, by the records that have been read and those that
 * wait in the ring. */
uint32_t cp__ring_throttled_from_handler(const struct cp__m *m);
/* The records between these two calls are the library's own: the calls set own_begin and own_end of struct
 * cp__ring. */
void cp__ring_own_begins_from_handler(struct cp__ring *ring);
void cp__ring_own_ends_from_handler(struct cp__ring *ring);
/* Reads the records in the ring, and adds their periods to moment. */
void cp__ring_drain_from_handler(struct cp__m *m, struct cp__moment *moment);

#endif
