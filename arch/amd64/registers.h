/* x86-64: included by arch/arch.h only. */
#include <ucontext.h>

/* What cp__caller_from_handler() says is by the code. */
#define CP__READS_CODE 1

/* The frame pointer's number in call-frame information. */
#define CP__FP_NUMBER 6

/* Where the signal whose ucontext this is found its thread. */
static inline struct cp__registers cp__registers_from_handler(const void *ucontext)
{
    const greg_t *gregs = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    return (struct cp__registers){
        .pc = (uintptr_t)gregs[REG_RIP], .sp = (uintptr_t)gregs[REG_RSP], .fp = (uintptr_t)gregs[REG_RBP]};
}

/* The address in what was saved as a return address. */
static inline uintptr_t cp__code_address_from_handler(uintptr_t saved)
{
    return saved;
}
