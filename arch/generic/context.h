/*
 * A suspended flow of control, and the switch between two flows, by the C library's ucontext. Processors that
 * have no folder of their own use this file. arch/amd64/context.h has the same interface. A switch costs a
 * system call, because the C library also exchanges the signal masks.
 */
#ifndef COUNTERPOINT_CONTEXT_H
#define COUNTERPOINT_CONTEXT_H

#include <ucontext.h>

#include "arch/arch.h"

/* The registers are stored on the suspended flow's own stack. */
struct cp__context {
    ucontext_t *saved;
    struct cp__registers caller; /* the registers of the caller of cp__context_switch() */
};

/*
 * Suspends the caller into *from and continues *to on the same thread. The call returns when another flow
 * switches to *from, possibly on another thread; so a caller must not keep addresses of thread-local
 * variables (errno's included) across the call.
 */
void cp__context_switch(struct cp__context *from, struct cp__context *to);

/*
 * Initialises *context so that a switch to it calls entry(arg) on the stack [stack_lo, stack_hi), with the
 * caller's signal mask and floating-point modes. entry must not return. Chains of frame pointers on that
 * stack end with a frame pointer of 0.
 */
void cp__context_init(struct cp__context *context, void *stack_lo, void *stack_hi, void (*entry)(void *),
                      void *arg);

/* Returns the registers with which a suspended context continues. Unwinding starts from them. */
static inline struct cp__registers cp__context_registers(const struct cp__context *context)
{
    return context->caller;
}

/* Writes all registers that a function preserves for its caller. Unwinders that use tables need them. */
void cp__context_save(const struct cp__context *context, ucontext_t *to);

#endif
