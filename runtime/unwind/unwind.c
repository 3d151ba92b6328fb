#include "unwind.h"

#include "code.h"

/* The two words at which a frame pointer points. */
struct frame {
    uintptr_t fp; /* the caller's frame pointer */
    uintptr_t pc; /* the return address, as the function saved it */
};

/* Returns whether pc can be a return address. A word that is no address of code is none: the chain has left
 * the frames. An address of the stack itself is none either, even if the stack is executable. */
static bool is_code(uintptr_t pc, const struct cp__stack *stack, struct cp__code_range *last)
{
    return cp__code_holds_from_handler(last, pc) && !cp__stack_holds(stack, pc);
}

/* Returns the frame at fp, or NULL if the frame is not completely between floor and the stack's end. */
static const struct frame *frame_at(uintptr_t fp, uintptr_t floor, const struct cp__stack *stack)
{
    if (fp < floor || fp % sizeof(uintptr_t) != 0 || fp >= stack->hi || stack->hi - fp < sizeof(struct frame))
        return NULL;
    return (const struct frame *)fp;
}

/* Returns the address at which a caller continues, from the word that a frame has saved; 0 if that is no
 * code. */
static uintptr_t caller_of(uintptr_t saved, const struct cp__stack *stack, struct cp__code_range *last)
{
    uintptr_t pc = cp__code_address_from_handler(saved);

    return is_code(pc, stack, last) ? pc : 0;
}

/* Returns whether a chain that led up to top has reached the stack's first frame. A frame pointer of 0 would
 * not prove it, because code that uses the register for something else may store zeros too. */
static bool is_at_end(const struct cp__stack *stack, uintptr_t top)
{
    return stack->hi - top <= stack->slack;
}

/* The attribute: the stack holds frames of other functions, and a sanitizer may have fenced parts of these
 * frames. */
__attribute__((no_sanitize("address", "thread", "undefined"))) unsigned
cp__unwind_from_handler(const struct cp__registers *regs, const struct cp__stack *stack, uintptr_t *frames,
                        unsigned max, unsigned *flags)
{
    struct cp__code_range range = {.size = 0};
    struct cp__registers caller;
    const struct frame *frame;
    uintptr_t top, pc;
    unsigned n = 0;

    *flags = 0;
    frames[n++] = regs->pc;
    if (!cp__stack_holds(stack, regs->sp))
        return n;
    *flags = CP__CHAIN_INCOMPLETE;
    if (!is_code(regs->pc, stack, &range))
        return n;
    if (!cp__caller_from_handler(regs, stack->hi, &caller))
        caller = *regs;
    else if (is_code(caller.pc, stack, &range))
        frames[n++] = caller.pc;
    else
        return n;
    top = caller.sp;
    for (frame = frame_at(caller.fp, top, stack);
         frame != NULL && (pc = caller_of(frame->pc, stack, &range)) != 0;
         frame = frame_at(frame->fp, top, stack)) {
        if (n == max) {
            *flags = CP__CHAIN_TRUNCATED;
            return n;
        }
        frames[n++] = pc;
        top = (uintptr_t)(frame + 1);
    }
    if (is_at_end(stack, top))
        *flags = 0;
    return n;
}

__attribute__((no_sanitize("address", "thread", "undefined"))) unsigned
cp__unwind_callers(const void *frame_pointer, const struct cp__stack *stack, uintptr_t *frames, unsigned max)
{
    struct cp__code_range range = {.size = 0};
    const struct frame *frame = frame_at((uintptr_t)frame_pointer, stack->lo, stack);
    uintptr_t pc;
    unsigned n = 0;

    while (n < max && frame != NULL && (pc = caller_of(frame->pc, stack, &range)) != 0) {
        frames[n++] = pc;
        frame = frame_at(frame->fp, (uintptr_t)(frame + 1), stack);
    }
    return n;
}
