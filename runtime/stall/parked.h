/* The stack of a G that waits on its M, read by another thread. */
#ifndef COUNTERPOINT_RUNTIME_STALL_PARKED_H
#define COUNTERPOINT_RUNTIME_STALL_PARKED_H

#include "runtime/g_account.h"

/*
 * Writes the call chain of the account's G to frames, if the G waits and has told of that: an address in the
 * call of cp_wait_begin(), then return addresses, by frame pointers. Returns the number of frames, at most
 * max. The G may go on at any time, and its stack be unmapped: each word is read by a system call that cannot
 * fault, and 0 is the result if the G went on meanwhile.
 */
unsigned cp__parked_stack(const struct cp__account *account, uint64_t g_id, uintptr_t *frames, unsigned max);

#endif
