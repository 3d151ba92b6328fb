/*
 * A suspended flow of control, and switching between two; x86-64, System V ABI. arch/generic has the same
 * interface.
 *
 * A flow of control is suspended by cp__context_switch() only, a function call: what has to be kept is what
 * the ABI lets a caller rely on. It is pushed onto the flow's own stack, so that the context is no more than
 * where that is.
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

/* Where a new context begins: calls rbx(r12) as the outermost frame. */
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
    uintptr_t top = ((uintptr_t)stack_hi & ~(uintptr_t)15) - 16;
    struct cp__context_frame *frame = (struct cp__context_frame *)(top - sizeof *frame);

    (void)stack_lo;
    memset(frame, 0, sizeof *frame + 16);
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(frame->mxcsr), "=m"(frame->x87_control));
    frame->rbx = (uintptr_t)entry;
    frame->r12 = (uintptr_t)arg;
    /* Past its first instruction, as a return address is, so that unwinding a context that has not begun
     * finds it. */
    frame->rip = (uintptr_t)cp__context_entry + 1;
    context->frame = frame;
}

/* Where a suspended context goes on: what unwinding it starts from. */
static inline struct cp__registers cp__context_registers(const struct cp__context *context)
{
    const struct cp__context_frame *frame = context->frame;

    return (struct cp__registers){.pc = frame->rip, .sp = (uintptr_t)(frame + 1), .fp = frame->rbp};
}

/* The same with all registers that a function keeps for its caller, as unwinders by tables want them. */
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
