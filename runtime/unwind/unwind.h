/* Finding a thread's call chain from inside its signal handler. */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_UNWIND_H
#define COUNTERPOINT_RUNTIME_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"

/* A stack that the thread runs code on, [lo, hi). The frame of the stack's first function ends at most
 * `slack` bytes below hi. */
struct cp__stack {
    uintptr_t lo;
    uintptr_t hi;
    uintptr_t slack;
    bool ends_there;        /* whatever ends in these bytes is the first function's frame */
    bool may_grow;          /* the kernel makes the stack larger: lo may be lower by now */
    bool is_open;           /* nobody has told of the stack: hi is as far as it is known to be readable */
    struct cp__stack *next; /* another stack of the thread; NULL: there is no more */
};

/* Returns the calling thread's stack. Not for signal handlers. */
struct cp__stack cp__thread_stack(void);

static inline bool cp__stack_holds(const struct cp__stack *stack, uintptr_t address)
{
    return address >= stack->lo && address < stack->hi;
}

/* Returns whether a chain whose last frame begins at top has left the frame of the stack's first function. */
static inline bool cp__has_left_first(const struct cp__stack *stack, uintptr_t top)
{
    return stack->ends_there && stack->hi - top <= stack->slack;
}

struct cp__unwind_cache;

/* What a chain lacks: CP__CHAIN_TRUNCATED says that more frames exist than fit, CP__CHAIN_INCOMPLETE says
 * that frames may be missing, inside the chain or at its outer end. CP__CHAIN_FOREIGN says the same of a
 * chain that has ended on a stack that nobody told of. CP__CHAIN_NEW_CODE says why: the chain has come to
 * an address that is in no mapping of code that the table knows. */
#define CP__CHAIN_TRUNCATED 1u
#define CP__CHAIN_FOREIGN 2u
#define CP__CHAIN_INCOMPLETE 8u
#define CP__CHAIN_NEW_CODE 32u /* beside CP__CHAIN_INCOMPLETE */

/*
 * Writes the call chain to frames: the address of the interrupted instruction, then return addresses,
 * innermost first. The rows of the mapped objects (rows.h) tell callers. If code has no rows, the code ahead
 * of it tells its caller if it can (arch/arch.h). Else its frame pointer is tried; nothing proves that the
 * code keeps frame pointers, so the chain counts as incomplete then. Each stack pointer and frame pointer is
 * checked to lie above the last one and inside the stack, so the function reads no memory outside [regs->sp,
 * stack->hi), and code without rows and frame pointers costs frames but never a fault. The cache, which may
 * be NULL, remembers how return addresses led on; see cache.h.
 *
 * `stacks` is the list of the stacks that the thread is known to have. Code on one of them may be a handler
 * that interrupted code on another one, or be called from another one. If the stack pointer is in none of
 * them, the pages above it are taken for the stack, as far as the walk needs them and the kernel can read
 * them.
 *
 * A chain is complete if every step was told by rows or code, and the last function has no caller: by its
 * rows, because it ends where the stack's first function does, or because the return address that it is told
 * to have lies outside the stack or is no code.
 *
 * Returns the number of frames, from 1 to max; max must be at least 2. *flags is CP__CHAIN_TRUNCATED,
 * CP__CHAIN_INCOMPLETE, with or without CP__CHAIN_NEW_CODE, CP__CHAIN_FOREIGN, or 0. *reached, if it is not
 * NULL, is the stack of the list that the last frame is on; NULL: on none.
 */
unsigned cp__unwind_from_handler(const struct cp__registers *regs, struct cp__stack *stacks,
                                 struct cp__unwind_cache *cache, uintptr_t *frames, unsigned max,
                                 unsigned *flags, const struct cp__stack **reached);

/* The same from a call that has not returned, whatever the thread runs meanwhile: regs are those with which
 * the caller goes on. frames[0] is an address in the call. No register but pc, sp and fp is known, so the
 * caller of a function whose rule needs another one is unknown. */
unsigned cp__unwind_call(const struct cp__registers *regs, struct cp__stack *stacks,
                         struct cp__unwind_cache *cache, uintptr_t *frames, unsigned max, unsigned *flags);

/* Returns the stack of the list that sp is in; NULL: none. */
struct cp__stack *cp__stack_find_from_handler(struct cp__stack *stacks, uintptr_t sp);

/* Writes the return addresses of the function whose frame pointer is given, and of its callers, by frame
 * pointers alone. Returns their number, from 0 to max. */
unsigned cp__unwind_callers(const void *frame_pointer, const struct cp__stack *stack, uintptr_t *frames,
                            unsigned max);

#endif
