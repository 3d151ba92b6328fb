/* The ring that an M's events write to. All calls run on the M, or on another thread with the claim
 * CHANGING. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_RING_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_RING_LINUX_H

#include "perf_m_linux.h"
#include "runtime/moment.h"

/* Makes m's ring if there is none, and keeps it until cp__ring_leave_from_handler(). A large ring is for
 * records that hold call chains, or wait for long. Returns 0 or a negative errno value. */
int cp__ring_hold_from_handler(struct cp__m *m, bool is_large);
/* Makes event number which of the slot a member of m's ring, which is there. Returns 0 or a negative errno
 * value. */
int cp__ring_join_from_handler(struct cp__m *m, int slot, int which);
/* Ends that again for an event that goes on. */
void cp__ring_part_from_handler(struct cp__m *m, int slot, int which);
/* Takes one member, or holder, away. With the last one the ring is closed. */
void cp__ring_leave_from_handler(struct cp__ring *ring);
/* Returns whether m's thread has had a moment of CPU time since the oldest sample in the ring was made. A
 * thread that has just lost its CPU hears of its signal when it goes on. */
bool cp__ring_is_overdue(const struct cp__m *m);
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
