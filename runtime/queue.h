/*
 * The queue of a slot holds the Ms that have appended samples for it since its reader took them off, so that
 * a pass of the reader costs what was sampled, not how many Ms there are. An M appends, then exchanges its
 * is_in for 1, and if that was 0 pushes itself: a compare-and-swap of the queue's head. The reader takes the
 * whole queue off with one exchange, so that there is no ABA; for each M it takes next, exchanges is_in for
 * 0, then reads the buffer. Of the two exchanges of is_in one comes first: if the reader's does, the M
 * pushes itself once more; if the M's does, the reader sees what the M has appended. An M in a queue is not
 * freed; the queues of slots that are free, whose Ms were late, are emptied whenever an M may be freed.
 */
#ifndef COUNTERPOINT_RUNTIME_QUEUE_H
#define COUNTERPOINT_RUNTIME_QUEUE_H

#include "m.h"

/* m, the calling thread's, has appended samples for slot: the slot's next reader is to look at it. */
void cp__queue_push_from_handler(struct cp__m *m, int slot);
/* Wakes the readers in cp_slots_wait(). */
void cp__slots_wake_from_handler(void);

/* Takes the whole queue of slot off; its first M, or NULL. One thread at a time for a slot. */
struct cp__m *cp__queue_take(int slot);
/* The M after m in a queue that was taken off. From here on m may be pushed again; what m has appended before
 * that can be read. */
struct cp__m *cp__queue_next(struct cp__m *m, int slot);
/* Takes the Ms off the queues of slots that have no reader. Under the runtime lock. */
void cp__queues_empty_free(void);
/* In the child of a fork: all queues are empty. */
void cp__queues_forget(void);

#endif
