/* The registers of x86-64. Only arch/arch.h includes this file. */
#include <asm/perf_regs.h>
#include <cpuid.h>
#include <ucontext.h>

/* cp__caller_from_handler() reads code on this processor. */
#define CP__READS_CODE 1

/* The frame pointer's register number in call-frame information. */
#define CP__FP_NUMBER 6

/* The bits of sp and pc in the register set that perf_event_open(2) can record. Records hold them in this
 * order. */
#define CP__PERF_REGS ((uint64_t)1 << PERF_REG_X86_SP | (uint64_t)1 << PERF_REG_X86_IP)
/* The size of a system call's instruction. To restart a system call, the kernel sets pc back by this size. */
#define CP__SYSCALL_SIZE 2

/* Returns the registers at which a signal interrupted its thread; ucontext is the handler's third
 * argument. */
static inline struct cp__registers cp__registers_from_handler(const void *ucontext)
{
    const greg_t *gregs = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    return (struct cp__registers){
        .pc = (uintptr_t)gregs[REG_RIP], .sp = (uintptr_t)gregs[REG_RSP], .fp = (uintptr_t)gregs[REG_RBP]};
}

/* Returns the address that a saved return address holds. */
static inline uintptr_t cp__code_address_from_handler(uintptr_t saved)
{
    return saved;
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
