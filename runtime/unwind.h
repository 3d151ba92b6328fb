/* Finding a thread's call chain from inside its signal handler. */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_H
#define COUNTERPOINT_RUNTIME_UNWIND_H

#include "arch/arch.h"
#include "runtime.h"

/* The stack that the interrupted code ran on: [lo, hi). */
struct cp__stack {
    uintptr_t lo;
    uintptr_t hi;
};

static inline bool cp__stack_holds(const struct cp__stack *stack, uintptr_t address)
{
    return address >= stack->lo && address < stack->hi;
}

/*
 * Writes the chain to frames: the interrupted instruction, then return addresses, innermost first. Follows
 * frame pointers, each checked to lie above the last one and inside the stack, so that no memory is read
 * outside [regs->sp, stack->hi); code without them costs frames, never a fault. Returns how many frames there
 * are, at least 1 and at most max; *truncated where the chain goes on.
 */
unsigned cp__unwind_from_handler(const struct cp__registers *regs, const struct cp__stack *stack,
                                 uintptr_t *frames, unsigned max, bool *truncated);

#endif
