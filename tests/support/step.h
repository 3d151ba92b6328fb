/*
 * Runs the calling thread one instruction at a time, with a SIGTRAP before each instruction:
 *
 *     step_prepare()      call it first, when all code has been loaded
 *     step_from_here()    in the thread: steps begin here
 *     step_to_here()      in the thread: steps end here
 *     step_arrive(uc)     first in the handler: returns false if this stop is not for the test
 *     step_on(uc)         last in the handler: continue to the next instruction
 *     step_off(uc)        last in the handler: no more steps
 *     step_is_call(pc)    whether the instruction at pc is a call, of 4 bytes; only if STEP_KNOWS_CALLS
 */
#ifndef COUNTERPOINT_TESTS_STEP_H
#define COUNTERPOINT_TESTS_STEP_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "arch/arch.h"

#if defined(__x86_64__)
#define STEP_IS_KNOWN 1
#define STEP_TRAP_FLAG 0x100 /* the flag of EFLAGS that raises SIGTRAP after each instruction */

static inline void step_prepare(void)
{
}

static inline __attribute__((always_inline)) void step_from_here(void)
{
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t" /* skips the red zone */
                     "pushfq\n\torq %0, (%%rsp)\n\tpopfq\n\t"
                     "leaq 128(%%rsp), %%rsp"
                     :
                     : "i"(STEP_TRAP_FLAG)
                     : "memory", "cc");
}

static inline __attribute__((always_inline)) void step_to_here(void)
{
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
                     "pushfq\n\tandq %0, (%%rsp)\n\tpopfq\n\t"
                     "leaq 128(%%rsp), %%rsp"
                     :
                     : "i"(~STEP_TRAP_FLAG)
                     : "memory", "cc");
}

static inline bool step_arrive(ucontext_t *uc)
{
    (void)uc;
    return true;
}

static inline void step_on(ucontext_t *uc)
{
    (void)uc; /* the flag stays set */
}

static inline void step_off(ucontext_t *uc)
{
    uc->uc_mcontext.gregs[REG_EFL] &= ~STEP_TRAP_FLAG;
}

#elif defined(__aarch64__)
#define STEP_IS_KNOWN 1
#define STEP_BREAK(number) (0xd4200000u | (number) << 5) /* brk */
#define STEP_FROM 0x5701
#define STEP_TO 0x5702
#define STEP_HERE 0x5703

/* Only the kernel, for a debugger, can make this processor stop after each instruction. So a brk replaces the
 * next instruction, or both instructions that can be next, until one of them is reached. */
static struct {
    uint32_t *at;
    uint32_t instruction;
} step_planted[2];
static unsigned step_planted_count;

static inline __attribute__((always_inline)) void step_from_here(void)
{
    __asm__ volatile("brk %0" : : "i"(STEP_FROM) : "memory");
}

static inline __attribute__((always_inline)) void step_to_here(void)
{
    __asm__ volatile("brk %0" : : "i"(STEP_TO) : "memory");
}

/* The code that can be written: all code except the kernel's vDSO, which would read the clock for ever if
 * single steps take longer than the kernel's ticks. Each object's code is made writable as a whole, because
 * libunwind does not find the names of code of which only a part is writable. */
static struct {
    uintptr_t lo;
    uintptr_t hi;
} step_code[64];
static unsigned step_code_count;

static int step_open(struct dl_phdr_info *object, size_t info_size, void *arg)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    (void)info_size, (void)arg;
    if (object->dlpi_addr == getauxval(AT_SYSINFO_EHDR))
        return 0;
    for (int i = 0; i < object->dlpi_phnum && step_code_count < 64; i++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[i];
        uintptr_t lo = (object->dlpi_addr + header->p_vaddr) & -page;
        uintptr_t hi = (object->dlpi_addr + header->p_vaddr + header->p_memsz + page - 1) & -page;

        if (header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0 ||
            mprotect((void *)lo, hi - lo, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
            continue;
        step_code[step_code_count].lo = lo;
        step_code[step_code_count++].hi = hi;
    }
    return 0;
}

static inline void step_prepare(void)
{
    step_code_count = 0;
    dl_iterate_phdr(step_open, NULL);
}

static void step_write(uint32_t *at, uint32_t instruction)
{
    *at = instruction;
    __builtin___clear_cache((char *)at, (char *)(at + 1));
}

/* Replaces the instruction at pc by a brk. Returns false if the code there cannot be written. */
static bool step_plant(uintptr_t pc)
{
    uint32_t *at = (uint32_t *)pc;
    unsigned i = 0;

    while (i < step_code_count && (pc < step_code[i].lo || pc >= step_code[i].hi))
        i++;
    if (i == step_code_count)
        return false;
    step_planted[step_planted_count].at = at;
    step_planted[step_planted_count++].instruction = *at;
    step_write(at, STEP_BREAK(STEP_HERE));
    return true;
}

static inline bool step_arrive(ucontext_t *uc)
{
    uint32_t instruction;

    while (step_planted_count > 0) {
        step_planted_count--;
        step_write(step_planted[step_planted_count].at, step_planted[step_planted_count].instruction);
    }
    instruction = *(const uint32_t *)uc->uc_mcontext.pc;
    if (instruction != STEP_BREAK(STEP_FROM) && instruction != STEP_BREAK(STEP_TO))
        return true;
    uc->uc_mcontext.pc += 4;
    if (instruction == STEP_BREAK(STEP_FROM))
        step_plant(uc->uc_mcontext.pc);
    return false;
}

static intptr_t step_offset(uint32_t in, unsigned lowest, unsigned width)
{
    return (int32_t)(in << (32 - lowest - width)) >> (32 - width) << 2;
}

#define STEP_KNOWS_CALLS 1
static bool step_is_call(uintptr_t pc)
{
    uint32_t in = *(const uint32_t *)pc;

    return (in & 0xfc000000) == 0x94000000 || (in & 0xfefff000) == 0xd63f0000; /* bl, blr */
}

/* Continues to the next instruction. Code that cannot be written runs in one step, until it has returned. So
 * do loops that wait for an exclusive store, because a signal makes the store fail; all such loops are
 * functions of their own. */
static inline void step_on(ucontext_t *uc)
{
    const mcontext_t *machine = &uc->uc_mcontext;
    uintptr_t pc = machine->pc, next = pc + 4;
    uint32_t in = *(const uint32_t *)pc;

    if ((in & 0x7c000000) == 0x14000000) { /* b, bl */
        next = pc + (uintptr_t)step_offset(in, 0, 26);
    } else if ((in & 0xff000000) == 0x54000000 || (in & 0x7e000000) == 0x34000000) { /* b.cond; cbz, cbnz */
        step_plant(pc + (uintptr_t)step_offset(in, 5, 19));
    } else if ((in & 0x7e000000) == 0x36000000) { /* tbz, tbnz */
        step_plant(pc + (uintptr_t)step_offset(in, 5, 14));
    } else if ((in & 0xfe000000) == 0xd6000000) { /* br, blr, ret, and their authenticating forms */
        next =
            cp__code_address_from_handler(machine->regs[(in & 0xfffffbff) == 0xd65f0bff ? 30 : in >> 5 & 31]);
    } else if ((in & 0x3fc00000) == 0x08400000) { /* a load before an exclusive store */
        next = machine->regs[30];
    }
    if (!step_plant(next))
        step_plant(step_is_call(pc) ? pc + 4 : cp__code_address_from_handler(machine->regs[30]));
}

static inline void step_off(ucontext_t *uc)
{
    (void)uc; /* no brk is in place */
}

#else
#define STEP_IS_KNOWN 0
static inline void step_prepare(void)
{
}
static inline void step_from_here(void)
{
}
static inline void step_to_here(void)
{
}
static inline bool step_arrive(ucontext_t *uc)
{
    (void)uc;
    return false;
}
static inline void step_on(ucontext_t *uc)
{
    (void)uc;
}
static inline void step_off(ucontext_t *uc)
{
    (void)uc;
}
#endif

#ifndef STEP_KNOWS_CALLS
#define STEP_KNOWS_CALLS 0
static inline bool step_is_call(uintptr_t pc)
{
    (void)pc;
    return false;
}
#endif

#endif
