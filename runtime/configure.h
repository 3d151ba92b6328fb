/* Bringing an M's handles in line with the slots, which runs on the M itself. */
#ifndef COUNTERPOINT_RUNTIME_CONFIGURE_H
#define COUNTERPOINT_RUNTIME_CONFIGURE_H

#include "m.h"
#include "moment.h"

/* Closes the handles whose config no slot holds any more, and opens those that the slots ask for. What
 * was counted and has no sample yet gets one with the stack of regs. SIGPROF is blocked on the calling
 * thread, which is m's. Returns false, and m stays behind, if another thread has the claim. */
bool cp__configure_from_handler(struct cp__m *m, const struct cp__registers *regs, enum cp__since since);

/* Does the same outside the handler; mask is what cp__os_block_from_handler() returned. */
bool cp__configure(struct cp__m *m, uint64_t mask);

#endif
