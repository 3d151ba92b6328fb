/* Brings other threads' Ms in line with the slots, whether these threads run, sleep, or block their
 * signals. No thread is interrupted or woken for that. */
#ifndef COUNTERPOINT_RUNTIME_OUTSIDE_H
#define COUNTERPOINT_RUNTIME_OUTSIDE_H

#include "m.h"

/* If m's thread has ended by a raw system call, so that nothing has detached m, closes m's handles and makes
 * m GONE: an event that was opened for m's thread id would be an event on a stranger, if the id is used
 * again. Returns whether m was found gone. If the caller has no reference, m may be freed then. Under the
 * runtime lock. */
bool cp__outside_find_gone(struct cp__m *m);
/* Opens and closes m's handles as the slots ask for, if m is behind. Returns false if m is just changing
 * its handles itself, or is in its handler: the caller looks again, or leaves m to a later pass. m is not
 * the calling thread's. Under the runtime lock. If a slot runs, the caller delays forks. */
bool cp__outside_bring_in_line(struct cp__m *m);
/* Tries once more to open m's event in slot, which was refused. Leaves m without its event in slot, so that
 * another M can have one, if m's thread has still not run since the event was armed. Both return false if
 * nothing was changed: m may be changing its handles itself, or be in its handler. Under the runtime lock.
 * The caller delays forks. */
bool cp__outside_try_again(struct cp__m *m, int slot);
bool cp__outside_leave_out(struct cp__m *m, int slot);
/* Returns whether m has the slot's event, and m's thread has not run since the event was armed. Under the
 * runtime lock. */
bool cp__outside_has_slept(const struct cp__m *m, int slot);
/* Takes the samples of an m whose thread blocks its signals: gives m its ring if the thread has not taken
 * the first signal of an event, and reads the ring. Under the runtime lock. The caller delays forks. */
void cp__outside_hear(struct cp__m *m);
/* Brings all Ms but the calling thread's in line, and waits until that is done, for longest_ns at most. If
 * it is not done then, counts the Ms that still hold one of the given slots in the slots' figures. Returns
 * whether there are none. Not under the runtime lock. */
bool cp__outside_settle(uint32_t slots, uint64_t longest_ns);
/* If the calling thread is an M, makes the M look at the slots now: cp__outside_settle() leaves that M
 * alone. */
void cp__outside_look_at_slots(void);
/* How long a stop waits. Tests of what happens then set less. */
extern unsigned cp__settle_ms;

#endif
