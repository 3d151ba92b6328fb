#include "unwind.h"

/* What a frame pointer points at. */
struct frame {
    uintptr_t fp; /* the caller's */
    uintptr_t pc; /* where it goes on */
};

#define LOWEST_CODE 4096 /* nothing is mapped below; a pc there has already faulted */

/* A word that is no address of code of this process is no return address: the chain has left the frames. The upper half
 * of the address space is the kernel's. */
static bool is_code(uintptr_t pc, const struct cp__stack *stack)
{
    return pc >= LOWEST_CODE && (intptr_t)pc > 0 && !cp__stack_holds(stack, pc);
}

/* The frame at fp, where it lies whole between floor and the stack's end. */
static const struct frame *frame_at(uintptr_t fp, uintptr_t floor, const struct cp__stack *stack)
{
    if (fp < floor || fp % sizeof(uintptr_t) != 0 || fp > stack->hi - sizeof(struct frame))
        return NULL;
    return (const struct frame *)fp;
}

/* The stack is other functions' frames, maybe such that a sanitizer has fenced. */
__attribute__((no_sanitize("address", "thread", "undefined"))) unsigned
cp__unwind_from_handler(const struct cp__registers *regs, const struct cp__stack *stack, uintptr_t *frames,
                        unsigned max, bool *truncated)
{
    struct cp__registers caller = *regs;
    const struct frame *frame;
    unsigned n = 0;

    *truncated = false;
    frames[n++] = regs->pc;
    if (!cp__stack_holds(stack, regs->sp) || !is_code(regs->pc, stack))
        return n;
    if (cp__caller_from_handler(regs, stack->hi, &caller)) {
        if (!is_code(caller.pc, stack))
            return n;
        frames[n++] = caller.pc;
    } else {
        caller = *regs;
    }
    for (frame = frame_at(caller.fp, caller.sp, stack); frame != NULL && is_code(frame->pc, stack);
         frame = frame_at(frame->fp, (uintptr_t)(frame + 1), stack)) {
        if (n == max) {
            *truncated = true;
            break;
        }
        frames[n++] = frame->pc;
    }
    return n;
}
