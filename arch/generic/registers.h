/* Any processor whose registers the C library shows: included by arch/arch.h only. */
#include <ucontext.h>

/* Where the signal whose ucontext this is found its thread. */
static inline struct cp__registers cp__registers_from_handler(const void *ucontext)
{
    const mcontext_t *machine = &((const ucontext_t *)ucontext)->uc_mcontext;

#if defined(__x86_64__)
    return (struct cp__registers){.pc = (uintptr_t)machine->gregs[REG_RIP],
                                  .sp = (uintptr_t)machine->gregs[REG_RSP],
                                  .fp = (uintptr_t)machine->gregs[REG_RBP]};
#elif defined(__aarch64__)
    return (struct cp__registers){.pc = machine->pc, .sp = machine->sp, .fp = machine->regs[29]};
#else
#error "Say here where this processor's ucontext has pc, sp and fp."
#endif
}
