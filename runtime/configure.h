/* Bringing an M's handles in line with the slots, which runs on the M itself. */
#ifndef COUNTERPOINT_RUNTIME_CONFIGURE_H
#define COUNTERPOINT_RUNTIME_CONFIGURE_H

#include "m.h"
#include "moment.h"
#include "os.h"

/* Stops what is no longer wanted, starts what is newly wanted. What was counted but not yet delivered is
 * recorded with the stack of regs. SIGPROF is blocked on the calling thread, which is m's. False, and m is
 * left behind, if another thread has the claim. */
bool cp__configure_from_handler(struct cp__m *m, const struct cp__registers *regs, enum cp__since since);

/* The same outside the handler; mask is what cp__os_block_from_handler() returned. */
bool cp__configure(struct cp__m *m, uint64_t mask);

/* Adds what a SIGPROF stands for to moment; false where it is not ours. */
bool cp__classify_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment);

/* Takes the SIGPROFs that are pending on the calling thread, which is m's and has it blocked; foreign ones
 * are left. */
void cp__take_pending_from_handler(struct cp__m *m, struct cp__moment *moment);

/* The handler of SIGPROF. */
void cp__on_sigprof_from_handler(int signal, siginfo_t *info, void *ucontext);

#endif
