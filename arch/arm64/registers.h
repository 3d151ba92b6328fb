/* The registers of AArch64. Only arch/arch.h includes this file. */
#include <asm/perf_regs.h>
#include <signal.h>
#include <ucontext.h>

/* cp__caller_from_handler() reads code on this processor. */
#define CP__READS_CODE 1

/* The numbers of registers in call-frame information. */
#define CP__FP_NUMBER 29
#define CP__SP_NUMBER 31
#define CP__RETURN_NUMBER 30 /* the link register */

/* Functions that leave for another stack frame save the first so many registers, and no others do: the
 * compiler's unwinder passes them to the code that catches. */
#define CP__LEAVING_REGISTERS 4

/* Returns the number of the i-th register beside the frame pointer that a function saves if it uses it:
 * x19 to x28. There are ten; for a larger i the result is the number of no register. */
static inline unsigned cp__kept_number(unsigned i)
{
    return i < 10 ? 19 + i : UINT8_MAX;
}

/* Code may use this many bytes below the stack pointer; a signal leaves them alone. */
#define CP__RED_ZONE 0

/* How far above the stack pointer the ucontext is when the handler of a signal has returned. */
#define CP__SIGNAL_CONTEXT sizeof(siginfo_t)
/* What the kernel has a handler return to, the code of rt_sigreturn(2), and where its second instruction
 * begins. */
#define CP__SIGNAL_RETURN                                                                                    \
    {                                                                                                        \
        0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4                                                             \
    } /* mov x8, #139; svc #0 */
#define CP__SIGNAL_RETURN_SECOND 4

/* Whether a frame record, at which a frame pointer points, lies at the upper end of its frame. */
#define CP__RECORD_ENDS_FRAME 0

/* The bits of sp and pc in the register set that perf_event_open(2) can record. Records hold them in this
 * order. */
#define CP__PERF_REGS ((uint64_t)1 << PERF_REG_ARM64_SP | (uint64_t)1 << PERF_REG_ARM64_PC)
/* The size of a system call's instruction. To restart a system call, the kernel sets pc back by this size. */
#define CP__SYSCALL_SIZE 4

/* Returns the registers at which a signal interrupted its thread; ucontext is the handler's third
 * argument. */
static inline struct cp__registers cp__registers_from_handler(const void *ucontext)
{
    const mcontext_t *machine = &((const ucontext_t *)ucontext)->uc_mcontext;

    return (struct cp__registers){.pc = machine->pc,
                                  .sp = machine->sp,
                                  .fp = machine->regs[29],
                                  .lr = machine->regs[30],
                                  .machine = machine};
}

/* Finds the value of the register that has this number in call-frame information. Returns false if no such
 * register is in *machine. */
static inline bool cp__register_from_handler(const mcontext_t *machine, unsigned number, uintptr_t *value)
{
    if (number > CP__SP_NUMBER)
        return false;
    *value = number == CP__SP_NUMBER ? machine->sp : machine->regs[number];
    return true;
}

/* Returns whether a function that begins with these four bytes is known to begin with a push. */
static inline bool cp__begins_with_push(const uint8_t code[4])
{
    (void)code;
    return false;
}

/* Returns the address that a saved return address holds, without the signature that a processor with pointer
 * authentication puts into the upper bits. On other processors the instruction is a nop. */
static inline uintptr_t cp__code_address_from_handler(uintptr_t saved)
{
    register uintptr_t x30 __asm__("x30") = saved;

    __asm__("hint #7" : "+r"(x30)); /* xpaclri */
    return x30;
}

/* Returns the registers at the place of the call, to walk from there. */
static inline __attribute__((always_inline)) struct cp__registers cp__registers_here(void)
{
    struct cp__registers regs = {.lr = 0};

    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29"
                     : "=&r"(regs.pc), "=&r"(regs.sp), "=&r"(regs.fp));
    return regs;
}

/* ---- Protection keys ------------------------------------------------------------------------- */

/* Linux 6.12 and later have protection keys on processors with FEAT_S1POE. This file does not support
 * them. */
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
