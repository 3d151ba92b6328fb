/* AArch64: included by arch/arch.h only. */
#include <asm/perf_regs.h>
#include <ucontext.h>

/* What cp__caller_from_handler() says is by the code. */
#define CP__READS_CODE 1

/* The frame pointer's number in call-frame information. */
#define CP__FP_NUMBER 29

/* The bits of sp and pc among the registers that perf_event_open(2) records, in this order. */
#define CP__PERF_REGS ((uint64_t)1 << PERF_REG_ARM64_SP | (uint64_t)1 << PERF_REG_ARM64_PC)
/* How long the instruction of a system call is: to restart the call, the kernel sets pc back by that. */
#define CP__SYSCALL_SIZE 4

/* Where the signal whose ucontext this is found its thread. */
static inline struct cp__registers cp__registers_from_handler(const void *ucontext)
{
    const mcontext_t *machine = &((const ucontext_t *)ucontext)->uc_mcontext;

    return (struct cp__registers){
        .pc = machine->pc, .sp = machine->sp, .fp = machine->regs[29], .lr = machine->regs[30]};
}

/* The address in what was saved as a return address: without the signature that a processor with pointer
 * authentication has put into its upper bits. To others the instruction is a nop. */
static inline uintptr_t cp__code_address_from_handler(uintptr_t saved)
{
    register uintptr_t x30 __asm__("x30") = saved;

    __asm__("hint #7" : "+r"(x30)); /* xpaclri */
    return x30;
}

/* ---- Protection keys ------------------------------------------------------------------------- */

/* Linux 6.12 and later have protection keys on processors with FEAT_S1POE; they are not known here. */
static inline bool cp__has_keys(void)
{
    return false;
}

static inline uint32_t cp__keys_from_handler(void)
{
    return 0;
}

static inline void cp__set_keys_from_handler(uint32_t keys)
{
    (void)keys;
}

static inline uint32_t cp__readable_keys(uint32_t keys)
{
    return keys;
}
