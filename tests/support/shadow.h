/*
 * The judge of call chains, for code that runs one instruction at a time (step.h): a shadow stack of the
 * calls that were made and have not returned. It needs no call-frame information. What lies outside of the
 * function in which stepping begins, code with call-frame information, is the library's own chain there.
 */
#ifndef COUNTERPOINT_TESTS_SHADOW_H
#define COUNTERPOINT_TESTS_SHADOW_H

#include "chains.h"
#include "step.h"

#if defined(__x86_64__)
#define SHADOW_IS_KNOWN 1

/* Returns whether the instruction at pc is a call: by a distance, or through a register or memory. */
static inline bool shadow_is_call(const uint8_t *at)
{
    while (*at == 0xf2 || *at == 0x66 || *at == 0x3e || *at == 0x67 || *at == 0x2e)
        at++;
    if ((*at & 0xf0) == 0x40)
        at++;
    return *at == 0xe8 || (*at == 0xff && (at[1] >> 3 & 7) == 2);
}
#else
#define SHADOW_IS_KNOWN 0
static inline bool shadow_is_call(const uint8_t *at)
{
    (void)at;
    return false;
}
#endif

struct shadow {
    struct chain base; /* where stepping began */
    uintptr_t last_pc; /* of the last instruction; 0: none has run */
    uintptr_t last_sp;
    unsigned n;
    struct {
        uintptr_t at; /* where the stack has the return address */
        uintptr_t to;
    } calls[MAX_DEPTH];
};

/* Follows the instruction that has run before this stop. */
static inline void shadow_follow(struct shadow *shadow, const struct cp__stack *stack, const void *ucontext)
{
    struct cp__registers regs = cp__registers_from_handler(ucontext);
    uintptr_t top = *(const uintptr_t *)regs.sp;

    if (shadow->last_pc == 0) {
        find_ours(ucontext, stack, &shadow->base);
        CHECK(shadow->base.flags == 0 && shadow->base.n > 1);
    } else if (regs.sp == shadow->last_sp - sizeof top && top - shadow->last_pc <= 15 &&
               shadow_is_call((const uint8_t *)shadow->last_pc)) {
        CHECK(shadow->n < MAX_DEPTH);
        shadow->calls[shadow->n].at = regs.sp;
        shadow->calls[shadow->n++].to = top;
    } else {
        while (shadow->n > 0 && shadow->calls[shadow->n - 1].at < regs.sp)
            shadow->n--;
    }
    shadow->last_pc = regs.pc;
    shadow->last_sp = regs.sp;
}

/* Fills *chain with the chain at this stop. */
static inline void shadow_find(const struct shadow *shadow, const void *ucontext, struct chain *chain)
{
    chain->n = 0;
    chain->frames[chain->n++] = cp__registers_from_handler(ucontext).pc;
    for (unsigned i = shadow->n; i > 0 && chain->n < MAX_DEPTH; i--)
        chain->frames[chain->n++] = shadow->calls[i - 1].to;
    for (unsigned i = 1; i < shadow->base.n && chain->n < MAX_DEPTH; i++)
        chain->frames[chain->n++] = shadow->base.frames[i];
}

#endif
