/* Finding a thread's call chain from inside its signal handler. */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_UNWIND_H
#define COUNTERPOINT_RUNTIME_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"

/* The stack that the interrupted code ran on: [lo, hi). What its first frame's pointer points at ends at
 * most slack below hi. */
struct cp__stack {
    uintptr_t lo;
    uintptr_t hi;
    uintptr_t slack;
};

/* Where the calling thread's stack is. */
struct cp__stack cp__thread_stack(void);

static inline bool cp__stack_holds(const struct cp__stack *stack, uintptr_t address)
{
    return address >= stack->lo && address < stack->hi;
}

/* What a chain lacks. */
#define CP__CHAIN_TRUNCATED 1u
#define CP__CHAIN_INCOMPLETE 8u

/*
 * Writes the chain to frames: the interrupted instruction, then return addresses, innermost first. The first
 * caller is found by the code that was interrupted where that tells (arch/arch.h), the others by frame
 * pointers, each checked to lie above the last one and inside the stack: no memory is read outside [regs->sp,
 * stack->hi), and code without frame pointers costs frames, never a fault. Returns how many frames there are,
 * from 1 to max, which is at least 2. *flags is CP__CHAIN_TRUNCATED where the chain goes on,
 * CP__CHAIN_INCOMPLETE where it broke off before the stack's first frame, else 0.
 */
unsigned cp__unwind_from_handler(const struct cp__registers *regs, const struct cp__stack *stack,
                                 uintptr_t *frames, unsigned max, unsigned *flags);

/* The same for the callers of the function whose frame pointer is given, by frame pointers alone; return
 * addresses, from 0 to max. */
unsigned cp__unwind_callers(const void *frame_pointer, const struct cp__stack *stack, uintptr_t *frames,
                            unsigned max);

#endif
