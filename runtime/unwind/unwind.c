#include "unwind.h"

#include "code.h"

/* What a frame pointer points at. */
struct frame {
    uintptr_t fp; /* the caller's */
    uintptr_t pc; /* where it goes on, as saved */
};

/* A word that is no address of code is no return address: the chain has left the frames. So is an address of
 * the stack itself, even if the stack is executable. */
static bool is_code(uintptr_t pc, const struct cp__stack *stack, struct cp__code_range *last)
{
    return cp__code_holds_from_handler(last, pc) && !cp__stack_holds(stack, pc);
}

/* The frame at fp, where it lies whole between floor and the stack's end. */
static const struct frame *frame_at(uintptr_t fp, uintptr_t floor, const struct cp__stack *stack)
{
    if (fp < floor || fp % sizeof(uintptr_t) != 0 || fp >= stack->hi || stack->hi - fp < sizeof(struct frame))
        return NULL;
    return (const struct frame *)fp;
}

/* Where a caller goes on, by what a frame has saved of it; 0 if that is no code. */
static uintptr_t caller_of(uintptr_t saved, const struct cp__stack *stack, struct cp__code_range *last)
{
    uintptr_t pc = cp__code_address_from_handler(saved);

    return is_code(pc, stack, last) ? pc : 0;
}

/* Whether a chain that led up to top has come to the stack's first frame. A frame pointer of 0 would not
 * tell: code that uses the register otherwise leaves zeros there too. */
static bool is_at_end(const struct cp__stack *stack, uintptr_t top)
{
    return stack->hi - top <= stack->slack;
}

/* The stack is other functions' frames, maybe such that a sanitizer has fenced. */
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
