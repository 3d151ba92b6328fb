/* x86-64: included by arch/arch.h only. */
#include <string.h>
#include <ucontext.h>

/* Where the signal whose ucontext this is found its thread. */
static inline struct cp__registers cp__registers_from_handler(const void *ucontext)
{
    const greg_t *gregs = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    return (struct cp__registers){
        .pc = (uintptr_t)gregs[REG_RIP], .sp = (uintptr_t)gregs[REG_RSP], .fp = (uintptr_t)gregs[REG_RBP]};
}

/*
 * Where the frame pointer still, or again, belongs to the caller: at a function's first instructions and at
 * its ret. True where pc stands at one; *slot is then the address of the return address. Reads the bytes at
 * pc, which the processor has just been executing.
 */
static inline bool cp__return_slot_from_handler(const struct cp__registers *regs, uintptr_t *slot)
{
    static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    static const unsigned char prologue[] = {0x55, 0x48, 0x89, 0xe5}; /* push %rbp; mov %rsp,%rbp */
    const unsigned char *pc = (const unsigned char *)regs->pc;

    *slot = regs->sp;
    if (pc[0] == 0xc3 || memcmp(pc, prologue, sizeof prologue) == 0)
        return true;
    if (memcmp(pc, endbr64, sizeof endbr64) == 0)
        return memcmp(pc + sizeof endbr64, prologue, sizeof prologue) == 0;
    *slot = regs->sp + sizeof(uintptr_t); /* between the two */
    return memcmp(pc, prologue + 1, sizeof prologue - 1) == 0;
}
