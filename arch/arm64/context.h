/*
 * A suspended flow of control, and the switch between two flows, for AArch64 and the procedure call standard
 * of Linux. arch/amd64/context.h has the same interface.
 *
 * A flow of control is suspended only by cp__context_switch(), which is a function call. So only the
 * registers that the standard preserves across a call must be saved. cp__context_switch() stores them on the
 * flow's own stack, and the context holds only their address.
 */
#ifndef COUNTERPOINT_CONTEXT_H
#define COUNTERPOINT_CONTEXT_H

#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "arch/arch.h"

/* Unwinding works at every instruction of cp__context_switch(), not only at calls. Tests rely on this
 * constant. */
#define CP__CONTEXT_IS_ASSEMBLY 1

/* What cp__context_switch() leaves on the stack, lowest address first. context.S depends on this layout. */
struct cp__context_frame {
    uint64_t fp; /* x29 and x30 form a frame record */
    uint64_t lr;
    uint64_t x19_to_x28[10];
    uint64_t d8_to_d15[8];
    uint64_t fpcr;
    uint64_t unused;
};

struct cp__context {
    struct cp__context_frame *frame;
};

/* A new context begins here: the function calls x19(x20) as the outermost frame. */
void cp__context_entry(void);

/*
 * Suspends the caller into *from and continues *to on the same thread. The call returns when another flow
 * switches to *from, possibly on another thread; so a caller must not keep addresses of thread-local
 * variables (errno's included) across the call.
 *
 * A signal may arrive at any instruction: one instruction changes the stack pointer, and the unwind
 * information is correct at all of them.
 */
void cp__context_switch(struct cp__context *from, struct cp__context *to);

/* Initialises *context so that a switch to it calls entry(arg) on the stack [stack_lo, stack_hi), with the
 * caller's floating-point modes. entry must not return. Chains of frame pointers on that stack end with a
 * frame pointer of 0. */
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
    /* The address is past the first instruction, like a return address, so that unwinders find
     * cp__context_entry() in a context that has not begun. */
    frame->lr = (uintptr_t)cp__context_entry + 4;
    context->frame = frame;
}

/* Returns the registers with which a suspended context continues. Unwinding starts from them. */
static inline struct cp__registers cp__context_registers(const struct cp__context *context)
{
    const struct cp__context_frame *frame = context->frame;

    return (struct cp__registers){.pc = frame->lr, .sp = (uintptr_t)(frame + 1), .fp = frame->fp};
}

/* Writes all registers that a function preserves for its caller. Unwinders that use tables need them. */
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
