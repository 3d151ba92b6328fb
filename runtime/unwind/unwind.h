/* Finding a thread's call chain from inside its signal handler. */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_UNWIND_H
#define COUNTERPOINT_RUNTIME_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"

/* The stack that the interrupted code ran on, [lo, hi). The frame record of the stack's first frame ends at
 * most `slack` bytes below hi. */
struct cp__stack {
    uintptr_t lo;
    uintptr_t hi;
    uintptr_t slack;
};

/* Returns the calling thread's stack. Not for signal handlers. */
struct cp__stack cp__thread_stack(void);

static inline bool cp__stack_holds(const struct cp__stack *stack, uintptr_t address)
{
    return address >= stack->lo && address < stack->hi;
}

struct cp__unwind_cache;

/* What a chain lacks: CP__CHAIN_TRUNCATED says that more frames exist than fit, CP__CHAIN_INCOMPLETE says
 * that the chain broke off before the stack's first frame. */
#define CP__CHAIN_TRUNCATED 1u
#define CP__CHAIN_INCOMPLETE 8u

/*
 * Writes the call chain to frames: the address of the interrupted instruction, then return addresses,
 * innermost first. The rows of the mapped objects (rows.h) tell callers. If the code has no rows, the
 * interrupted code tells the first caller if it can (arch/arch.h), and frame pointers tell the others. Each
 * stack pointer and frame pointer is checked to lie above the last one and inside the stack, so the function
 * reads no memory outside [regs->sp, stack->hi), and code without rows and frame pointers costs frames but
 * never a fault. The cache, which may be NULL, remembers how return addresses led on; see cache.h.
 *
 * Returns the number of frames, from 1 to max; max must be at least 2. *flags is CP__CHAIN_TRUNCATED,
 * CP__CHAIN_INCOMPLETE or 0.
 */
unsigned cp__unwind_from_handler(const struct cp__registers *regs, const struct cp__stack *stack,
                                 struct cp__unwind_cache *cache, uintptr_t *frames, unsigned max,
                                 unsigned *flags);

/* Writes the return addresses of the function whose frame pointer is given, and of its callers, by frame
 * pointers alone. Returns their number, from 0 to max. */
unsigned cp__unwind_callers(const void *frame_pointer, const struct cp__stack *stack, uintptr_t *frames,
                            unsigned max);

#endif
