/*
 * A suspended flow of control, and switching between two; AArch64, the procedure call standard of Linux. The
 * interface is that of arch/amd64/context.h.
 *
 * A flow of control is suspended by cp__context_switch() only, a function call: what has to be kept is what
 * the standard lets a caller rely on. It is stored on the flow's own stack, so that the context is no more
 * than where that is.
 */
#ifndef COUNTERPOINT_CONTEXT_H
#define COUNTERPOINT_CONTEXT_H

#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "arch/arch.h"

/* What can be expected of every instruction of it, and not only of its calls. */
#define CP__CONTEXT_IS_ASSEMBLY 1

/* What cp__context_switch() leaves on the stack, lowest address first. context.S knows this layout. */
struct cp__context_frame {
    uint64_t fp; /* x29 and x30: a frame record */
    uint64_t lr;
    uint64_t x19_to_x28[10];
    uint64_t d8_to_d15[8];
    uint64_t fpcr;
    uint64_t unused;
};

struct cp__context {
    struct cp__context_frame *frame;
};

/* Where a new context begins: calls x19(x20) as the outermost frame. */
void cp__context_entry(void);

/*
 * Suspends the caller into *from and goes on with *to, on the same thread; returns when something switches to
 * *from, maybe on another thread: addresses of thread-local variables (errno's too) must not be kept across
 * it. Signals may come at any instruction: the stack pointer changes in one, and the unwind information is
 * right at all of them.
 */
void cp__context_switch(struct cp__context *from, struct cp__context *to);

/*
 * Makes *context one that will call entry(arg) on the stack [stack_lo, stack_hi), with the caller's
 * floating-point modes. entry must not return. Frame-pointer chains on that stack end with a frame pointer of
 * 0.
 */
static inline void cp__context_init(struct cp__context *context, void *stack_lo, void *stack_hi,
                                    void (*entry)(void *), void *arg)
{
    uintptr_t top = (uintptr_t)stack_hi & ~(uintptr_t)15;
    struct cp__context_frame *frame = (struct cp__context_frame *)(top - sizeof *frame);

    (void)stack_lo;
    memset(frame, 0, sizeof *frame);
    __asm__ volatile("mrs %0, fpcr" : "=r"(frame->fpcr));
    frame->x19_to_x28[0] = (uintptr_t)entry;
    frame->x19_to_x28[1] = (uintptr_t)arg;
    /* Past its first instruction, as a return address is, so that unwinding a context that has not begun
     * finds it. */
    frame->lr = (uintptr_t)cp__context_entry + 4;
    context->frame = frame;
}

/* Where a suspended context goes on: what unwinding it starts from. */
static inline struct cp__registers cp__context_registers(const struct cp__context *context)
{
    const struct cp__context_frame *frame = context->frame;

    return (struct cp__registers){.pc = frame->lr, .sp = (uintptr_t)(frame + 1), .fp = frame->fp};
}

/* The same with all registers that a function keeps for its caller, as unwinders by tables want them. */
static inline void cp__context_save(const struct cp__context *context, ucontext_t *to)
{
    const struct cp__context_frame *frame = context->frame;

    memcpy(&to->uc_mcontext.regs[19], frame->x19_to_x28, sizeof frame->x19_to_x28);
    to->uc_mcontext.regs[29] = frame->fp;
    to->uc_mcontext.regs[30] = frame->lr;
    to->uc_mcontext.sp = (uintptr_t)(frame + 1);
    to->uc_mcontext.pc = frame->lr;
}

#endif
