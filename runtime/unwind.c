#include "unwind.h"

/* What a frame pointer points at. */
struct frame {
    uintptr_t fp; /* the caller's */
    uintptr_t pc; /* where it goes on */
};

#define LOWEST_CODE 4096 /* nothing is mapped below; a pc there has already faulted */

/* The frame at fp, where it lies whole between floor and the stack's end. */
static const struct frame *frame_at(uintptr_t fp, uintptr_t floor, const struct cp__stack *stack)
{
    if (fp < floor || fp % sizeof(uintptr_t) != 0 || fp > stack->hi - sizeof(struct frame))
        return NULL;
    return (const struct frame *)fp;
}

/* The stack belongs to another function's frame, maybe one that a sanitizer has fenced. */
__attribute__((no_sanitize("address", "thread", "undefined"))) unsigned
cp__unwind_from_handler(const struct cp__registers *regs, const struct cp__stack *stack, uintptr_t *frames,
                        unsigned max, bool *truncated)
{
    uintptr_t floor = regs->sp;
    uintptr_t slot;
    const struct frame *frame;
    unsigned n = 0;

    *truncated = false;
    frames[n++] = regs->pc;
    if (!cp__stack_holds(stack, regs->sp) || regs->pc < LOWEST_CODE)
        return n;
    if (cp__return_slot_from_handler(regs, &slot) && slot <= stack->hi - sizeof(uintptr_t)) {
        uintptr_t pc = *(const uintptr_t *)slot;

        if (pc >= LOWEST_CODE)
            frames[n++] = pc;
        floor = slot + sizeof(uintptr_t);
    }
    for (frame = frame_at(regs->fp, floor, stack); frame != NULL && frame->pc >= LOWEST_CODE;
         frame = frame_at(frame->fp, (uintptr_t)(frame + 1), stack)) {
        if (n == max) {
            *truncated = true;
            break;
        }
        frames[n++] = frame->pc;
    }
    return n;
}
