/*
 * What differs by instruction set. Each folder beside this file implements it under the same file names; the
 * build puts one of them, arch/$(ARCH), on the include path.
 *
 *   registers.h   where a signal found the program, and how a caller is found before a frame exists
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
};

#include "registers.h" // IWYU pragma: export

#endif
