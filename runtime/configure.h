/* Makes an M's handles agree with the slots. This runs on the M itself. */
#ifndef COUNTERPOINT_RUNTIME_CONFIGURE_H
#define COUNTERPOINT_RUNTIME_CONFIGURE_H

#include "m.h"
#include "moment.h"

/* Closes the handles whose config no slot holds any more, and opens the handles that the slots ask for.
 * Periods that were counted and have no sample yet get a sample with the stack of regs. The calling thread is
 * m's, and has the library's signals
 * blocked. Returns false if another thread has the claim; m stays behind then. */
bool cp__configure_from_handler(struct cp__m *m, const struct cp__registers *regs, enum cp__since since);

/* Does the same outside the handler. mask is the result of cp__os_block_from_handler(). */
bool cp__configure(struct cp__m *m, uint64_t mask);

#endif
