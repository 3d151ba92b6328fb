/* AArch64: included by arch/arch.h only. */
#include <ucontext.h>

/* Where the signal whose ucontext this is found its thread. */
static inline struct cp__registers cp__registers_from_handler(const void *ucontext)
{
    const mcontext_t *machine = &((const ucontext_t *)ucontext)->uc_mcontext;

    return (struct cp__registers){.pc = machine->pc, .sp = machine->sp, .fp = machine->regs[29]};
}
