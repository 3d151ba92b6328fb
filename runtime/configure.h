/* Makes an M's handles agree with the slots: on the M itself, or from outside. */
#ifndef COUNTERPOINT_RUNTIME_CONFIGURE_H
#define COUNTERPOINT_RUNTIME_CONFIGURE_H

#include "m.h"
#include "moment.h"

/* Closes the handles whose config no slot holds any more, and opens the handles that the slots ask for.
 * Periods that were counted and have no sample yet get a sample with the stack of the caller. The calling
 * thread is m's, and has the library's signals blocked; mask is the result of cp__os_block_from_handler().
 * Returns false if another thread has the claim; m stays behind then. */
bool cp__configure(struct cp__m *m, uint64_t mask);

/* Makes m LEAVING, and does the same as soon as no other thread has the claim: m has no handle after that,
 * and no signal of one is pending. */
void cp__configure_leave(struct cp__m *m, uint64_t mask);

/* Does the same for another thread's m. The caller has the runtime lock and the claim CHANGING, and m's
 * handler keeps off. If a slot runs, the caller delays forks (cp__fork_delay()). Gives the claim back. The
 * caller has its signals blocked (cp__os_block_from_handler()): the caller may be an M whose page faults are
 * sampled, and the kernel begins the first write to a ring's page anew as long as a signal is pending. */
void cp__configure_outside(struct cp__m *m);

/* Do the same, and beside that, try once more to open m's event in slot, which was refused, or close the
 * event so that another M can have one. */
void cp__configure_again(struct cp__m *m, int slot);
void cp__configure_without(struct cp__m *m, int slot);

#endif
