/* Bringing an M's handles in line with the slots, which runs on the M itself. */
#ifndef COUNTERPOINT_RUNTIME_CONFIGURE_H
#define COUNTERPOINT_RUNTIME_CONFIGURE_H

#include "m.h"
#include "moment.h"

/* Stops what is no longer wanted, starts what is newly wanted. What was counted but not yet delivered is
 * recorded with the stack of regs. SIGPROF is blocked on the calling thread, which is m's. False, and m is
 * left behind, if another thread has the claim. */
bool cp__configure_from_handler(struct cp__m *m, const struct cp__registers *regs, enum cp__since since);

/* The same outside the handler; mask is what cp__os_block_from_handler() returned. */
bool cp__configure(struct cp__m *m, uint64_t mask);

#endif
