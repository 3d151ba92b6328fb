/*
 * What differs by instruction set. Each folder beside this file implements it under the same file names; the
 * build puts one of them, arch/$(ARCH), on the include path.
 *
 *   registers.h   where a signal found the program, and what a return address is
 *   caller.c      what the code there says about its caller
 *   context.h     a suspended flow of control, and switching between two
 */
#ifndef COUNTERPOINT_ARCH_H
#define COUNTERPOINT_ARCH_H

#include <stdbool.h>
#include <stdint.h>

/* The registers that unwinding starts from. */
struct cp__registers {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;
    uintptr_t lr; /* the link register, where calls leave the return address in one; else 0 */
};

#include "registers.h" // IWYU pragma: export

/*
 * What the registers will be when the function that regs are in has returned, where its code tells: needed
 * where the function has no frame, not yet or not any more. False where it does not; in code that keeps frame
 * pointers the frame pointer is then the function's own. Of the stack it reads [regs->sp, hi) only, and of
 * the code what the processor is about to fetch: regs->pc must have been reached by running.
 */
bool cp__caller_from_handler(const struct cp__registers *regs, uintptr_t hi, struct cp__registers *caller);

#endif
