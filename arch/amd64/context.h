/*
 * A suspended flow of control, and the switch between two flows, for x86-64 and the System V ABI.
 * arch/generic has the same interface.
 *
 * A flow of control is suspended only by cp__context_switch(), which is a function call. So only the
 * registers that the ABI preserves across a call must be saved. cp__context_switch() pushes them onto the
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
    uint32_t mxcsr;
    uint16_t x87_control;
    uint16_t unused;
    uint64_t r15;
    uint64_t r14;
    uint64_t r13;
    uint64_t r12;
    uint64_t rbx;
    uint64_t rbp;
    uint64_t rip;
};

struct cp__context {
    struct cp__context_frame *frame;
};

/* A new context begins here: the function calls rbx(r12) as the outermost frame. */
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
    uintptr_t top = ((uintptr_t)stack_hi & ~(uintptr_t)15) - 16;
    struct cp__context_frame *frame = (struct cp__context_frame *)(top - sizeof *frame);

    (void)stack_lo;
    memset(frame, 0, sizeof *frame + 16);
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(frame->mxcsr), "=m"(frame->x87_control));
    frame->rbx = (uintptr_t)entry;
    frame->r12 = (uintptr_t)arg;
    /* The address is past the first instruction, like a return address, so that unwinders find
     * cp__context_entry() in a context that has not begun. */
    frame->rip = (uintptr_t)cp__context_entry + 1;
    context->frame = frame;
}

/* Returns the registers with which a suspended context continues. Unwinding starts from them. */
static inline struct cp__registers cp__context_registers(const struct cp__context *context)
{
    const struct cp__context_frame *frame = context->frame;

    return (struct cp__registers){.pc = frame->rip, .sp = (uintptr_t)(frame + 1), .fp = frame->rbp};
}

/* Writes all registers that a function preserves for its caller. Unwinders that use tables need them. */
static inline void cp__context_save(const struct cp__context *context, ucontext_t *to)
{
    const struct cp__context_frame *frame = context->frame;
    greg_t *regs = to->uc_mcontext.gregs;

    regs[REG_RBX] = (greg_t)frame->rbx;
    regs[REG_RBP] = (greg_t)frame->rbp;
    regs[REG_R12] = (greg_t)frame->r12;
    regs[REG_R13] = (greg_t)frame->r13;
    regs[REG_R14] = (greg_t)frame->r14;
    regs[REG_R15] = (greg_t)frame->r15;
    regs[REG_RSP] = (greg_t)(frame + 1);
    regs[REG_RIP] = (greg_t)frame->rip;
}

#endif
