/*
 * The queue of a slot holds the Ms that have appended samples for the slot since its reader took them off. So
 * a pass of the reader costs in proportion to the samples, and not to the number of Ms.
 *
 * An M appends a sample and exchanges its is_in for 1. If is_in was 0, the M pushes itself by a
 * compare-and-swap of the queue's head. The reader takes the whole queue off by one exchange, so there is no
 * ABA problem. For each M the reader loads next, exchanges is_in for 0, and then reads the buffer. One of the
 * two exchanges of is_in comes first. If the reader's is first, the M pushes itself again. If the M's is
 * first, the reader sees what the M has appended.
 *
 * An M in a queue is not freed. The queues of free slots may hold Ms that were late, so these queues are
 * emptied whenever an M may be freed.
 */
#ifndef COUNTERPOINT_RUNTIME_QUEUE_H
#define COUNTERPOINT_RUNTIME_QUEUE_H

#include "m.h"

/* Puts the calling thread's m, which has appended samples for slot, into the queue of slot. */
void cp__queue_push_from_handler(struct cp__m *m, int slot);
/* Wakes the readers in cp_slots_wait(). */
void cp__slots_wake_from_handler(void);

/* Takes the whole queue of slot off and returns its first M, or NULL. Only one thread at a time may do that
 * for a slot. */
struct cp__m *cp__queue_take(int slot);
/* Returns the M after m in a queue that was taken off. From here on m may be pushed again; what m appended
 * before that can be read. */
struct cp__m *cp__queue_next(struct cp__m *m, int slot);
/* Takes all Ms off the queues of slots that have no reader. Under the runtime lock. */
void cp__queues_empty_free(void);
/* In the child of a fork: all queues are empty. */
void cp__queues_forget(void);

#endif
