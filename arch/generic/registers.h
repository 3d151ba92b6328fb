/* The registers of any processor whose registers the C library shows. Only arch/arch.h includes this file. */
#include <signal.h>
#include <ucontext.h>

/* The numbers of registers in call-frame information; how many of the first ones functions save that leave
 * for another stack frame; whether a frame record, at which a frame pointer points, lies at the upper end
 * of its frame; how many bytes below the stack pointer code may use; and how far above the stack pointer the
 * ucontext is when the handler of a signal has returned, to which code, and where the second instruction of
 * that code begins. */
#if defined(__x86_64__)
#define CP__FP_NUMBER 6
#define CP__SP_NUMBER 7
#define CP__RETURN_NUMBER 16
#define CP__LEAVING_REGISTERS 2
#define CP__RECORD_ENDS_FRAME 1
#define CP__RED_ZONE 128
#define CP__SIGNAL_CONTEXT 0
#define CP__SIGNAL_RETURN                                                                                    \
    {                                                                                                        \
        0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05                                                          \
    } /* mov $15, %rax; syscall */
#define CP__SIGNAL_RETURN_SECOND 7
#elif defined(__aarch64__)
#define CP__FP_NUMBER 29
#define CP__SP_NUMBER 31
#define CP__RETURN_NUMBER 30
#define CP__LEAVING_REGISTERS 4
#define CP__RECORD_ENDS_FRAME 0
#define CP__RED_ZONE 0
#define CP__SIGNAL_CONTEXT sizeof(siginfo_t)
#define CP__SIGNAL_RETURN                                                                                    \
    {                                                                                                        \
        0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4                                                             \
    } /* mov x8, #139; svc #0 */
#define CP__SIGNAL_RETURN_SECOND 4
#endif

/* The same constants as in the other folders of arch/. On a processor that is not named here, perf's records
 * do not tell where the samples were taken. */
#if defined(__x86_64__)
#include <asm/perf_regs.h>
#define CP__PERF_REGS ((uint64_t)1 << PERF_REG_X86_SP | (uint64_t)1 << PERF_REG_X86_IP)
#define CP__SYSCALL_SIZE 2
#elif defined(__aarch64__)
#include <asm/perf_regs.h>
#define CP__PERF_REGS ((uint64_t)1 << PERF_REG_ARM64_SP | (uint64_t)1 << PERF_REG_ARM64_PC)
#define CP__SYSCALL_SIZE 4
#else
#define CP__PERF_REGS 0
#define CP__SYSCALL_SIZE 0
#endif

/* Returns the number of no register: no others than those of cp__registers_from_handler() are followed. */
static inline unsigned cp__kept_number(unsigned i)
{
    (void)i;
    return UINT8_MAX;
}

/* Returns the registers at which a signal interrupted its thread; ucontext is the handler's third
 * argument. */
static inline struct cp__registers cp__registers_from_handler(const void *ucontext)
{
    const mcontext_t *machine = &((const ucontext_t *)ucontext)->uc_mcontext;

#if defined(__x86_64__)
    return (struct cp__registers){.pc = (uintptr_t)machine->gregs[REG_RIP],
                                  .sp = (uintptr_t)machine->gregs[REG_RSP],
                                  .fp = (uintptr_t)machine->gregs[REG_RBP]};
#elif defined(__aarch64__)
    return (struct cp__registers){
        .pc = machine->pc, .sp = machine->sp, .fp = machine->regs[29], .lr = machine->regs[30]};
#else
#error "Say here where this processor's ucontext has pc, sp and fp."
#endif
}

/* Returns false: this file names no other registers than those of cp__registers_from_handler(). */
static inline bool cp__register_from_handler(const mcontext_t *machine, unsigned number, uintptr_t *value)
{
    (void)machine;
    (void)number;
    (void)value;
    return false;
}

/* Returns whether a function that begins with these four bytes is known to begin with a push. */
static inline bool cp__begins_with_push(const uint8_t code[4])
{
    (void)code;
    return false;
}

/* Returns the address that a saved return address holds, without the signature that an arm64 processor with
 * pointer authentication puts into the upper bits. */
static inline uintptr_t cp__code_address_from_handler(uintptr_t saved)
{
#if defined(__aarch64__)
    register uintptr_t x30 __asm__("x30") = saved;

    __asm__("hint #7" : "+r"(x30)); /* xpaclri */
    return x30;
#else
    return saved;
#endif
}

/* Returns the registers at the place of the call, to walk from there. */
static inline __attribute__((always_inline)) struct cp__registers cp__registers_here(void)
{
    struct cp__registers regs = {.lr = 0};

#if defined(__x86_64__)
    __asm__ volatile("leaq 0(%%rip), %0\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2"
                     : "=&r"(regs.pc), "=&r"(regs.sp), "=&r"(regs.fp));
#elif defined(__aarch64__)
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29"
                     : "=&r"(regs.pc), "=&r"(regs.sp), "=&r"(regs.fp));
#else
#error "Say here how this processor's registers are read."
#endif
    return regs;
}

/* ---- Protection keys ------------------------------------------------------------------------- */

/* This file supports no protection keys. */
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
