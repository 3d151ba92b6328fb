/* The registers of x86-64. Only arch/arch.h includes this file. */
#include <asm/perf_regs.h>
#include <cpuid.h>
#include <ucontext.h>

/* cp__caller_from_handler() reads code on this processor. */
#define CP__READS_CODE 1

/* The numbers of registers in call-frame information. */
#define CP__FP_NUMBER 6
#define CP__SP_NUMBER 7
#define CP__RETURN_NUMBER 16 /* what holds the return address, and in the interrupted function the pc */

/* Functions that leave for another stack frame save the first so many registers, and no others do: the
 * compiler's unwinder passes them to the code that catches. */
#define CP__LEAVING_REGISTERS 2

/* Returns the number of the i-th register beside the frame pointer that a function saves if it uses it: rbx,
 * r12 to r15. There are five; for a larger i the result is the number of no register. */
static inline unsigned cp__kept_number(unsigned i)
{
    return i == 0 ? 3 : i < 5 ? 11 + i : UINT8_MAX;
}

/* Code may use this many bytes below the stack pointer; a signal leaves them alone. */
#define CP__RED_ZONE 128

/* How far above the stack pointer the ucontext is when the handler of a signal has returned. */
#define CP__SIGNAL_CONTEXT 0
/* What the kernel has a handler return to, the code of rt_sigreturn(2), and where its second instruction
 * begins. */
#define CP__SIGNAL_RETURN                                                                                    \
    {                                                                                                        \
        0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05                                                          \
    } /* mov $15, %rax; syscall */
#define CP__SIGNAL_RETURN_SECOND 7

/* Whether a frame record, at which a frame pointer points, lies at the upper end of its frame. */
#define CP__RECORD_ENDS_FRAME 1

/* The bits of sp and pc in the register set that perf_event_open(2) can record. Records hold them in this
 * order. */
#define CP__PERF_REGS ((uint64_t)1 << PERF_REG_X86_SP | (uint64_t)1 << PERF_REG_X86_IP)
/* The size of a system call's instruction. To restart a system call, the kernel sets pc back by this size. */
#define CP__SYSCALL_SIZE 2

/* Returns the registers at which a signal interrupted its thread; ucontext is the handler's third
 * argument. */
static inline struct cp__registers cp__registers_from_handler(const void *ucontext)
{
    const mcontext_t *machine = &((const ucontext_t *)ucontext)->uc_mcontext;

    return (struct cp__registers){.pc = (uintptr_t)machine->gregs[REG_RIP],
                                  .sp = (uintptr_t)machine->gregs[REG_RSP],
                                  .fp = (uintptr_t)machine->gregs[REG_RBP],
                                  .machine = machine};
}

/* Finds the value of the register that has this number in call-frame information. Returns false if no such
 * register is in *machine. */
static inline bool cp__register_from_handler(const mcontext_t *machine, unsigned number, uintptr_t *value)
{
    static const uint8_t places[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                     REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                     REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

    if (number >= sizeof places)
        return false;
    *value = (uintptr_t)machine->gregs[places[number]];
    return true;
}

/* Returns whether a function that begins with these four bytes begins with a push. */
static inline bool cp__begins_with_push(const uint8_t code[4])
{
    return (code[0] & 0xf8) == 0x50 || (code[0] == 0x41 && (code[1] & 0xf8) == 0x50);
}

/* Returns the address that a saved return address holds. */
static inline uintptr_t cp__code_address_from_handler(uintptr_t saved)
{
    return saved;
}

/* Returns the registers at the place of the call, to walk from there. */
static inline __attribute__((always_inline)) struct cp__registers cp__registers_here(void)
{
    struct cp__registers regs = {.lr = 0};

    __asm__ volatile("leaq 0(%%rip), %0\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2"
                     : "=&r"(regs.pc), "=&r"(regs.sp), "=&r"(regs.fp));
    return regs;
}

/* ---- Protection keys ------------------------------------------------------------------------- */

/* Returns whether the kernel uses the processor's protection keys. */
static inline bool cp__has_keys(void)
{
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;

    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_OSPKE) != 0;
}

/* Returns the calling thread's rights: two bits for each key, "no access" and "no writing". */
static inline uint32_t cp__keys_from_handler(void)
{
    uint32_t keys, edx;

    __asm__ volatile(".byte 0x0f, 0x01, 0xee" : "=a"(keys), "=d"(edx) : "c"(0)); /* rdpkru */
    return keys;
}

static inline void cp__set_keys_from_handler(uint32_t keys)
{
    __asm__ volatile(".byte 0x0f, 0x01, 0xef" : : "a"(keys), "d"(0), "c"(0) : "memory"); /* wrpkru */
}

/* Returns the same rights, with the right to read added for every key. */
static inline uint32_t cp__readable_keys(uint32_t keys)
{
    return keys & 0xaaaaaaaa;
}
