/*
 * A suspended flow of control, and switching between two, by the C library's ucontext; for processors that
 * have no folder of their own. The interface is that of arch/amd64/context.h. A switch costs a system call,
 * because the library also exchanges the signal masks.
 */
#ifndef COUNTERPOINT_CONTEXT_H
#define COUNTERPOINT_CONTEXT_H

#include <ucontext.h>

#include "arch/arch.h"

/* The registers are kept on the suspended flow's own stack. */
struct cp__context {
    ucontext_t *saved;
    struct cp__registers caller; /* of cp__context_switch() */
};

/*
 * Suspends the caller into *from and goes on with *to, on the same thread; returns when something switches to
 * *from, maybe on another thread: addresses of thread-local variables (errno's too) must not be kept across
 * it.
 */
void cp__context_switch(struct cp__context *from, struct cp__context *to);

/*
 * Makes *context one that will call entry(arg) on the stack [stack_lo, stack_hi), with the caller's signal
 * mask and floating-point modes. entry must not return. Frame-pointer chains on that stack end with a frame
 * pointer of 0.
 */
void cp__context_init(struct cp__context *context, void *stack_lo, void *stack_hi, void (*entry)(void *),
                      void *arg);

/* Where a suspended context goes on: what unwinding it starts from. */
static inline struct cp__registers cp__context_registers(const struct cp__context *context)
{
    return context->caller;
}

/* The same with all registers that a function keeps for its caller, as unwinders by tables want them. */
void cp__context_save(const struct cp__context *context, ucontext_t *to);

#endif
