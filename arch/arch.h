/*
 * What differs by instruction set. Each folder beside this file implements it under the same file names; the
 * build puts one of them, arch/$(ARCH), on the include path.
 *
 *   registers.h   where a signal found the program, what a return address is, and which memory can be read
 *   caller.c      what the code there says about its caller
 *   context.h     a suspended flow of control, and switching between two
 */
#ifndef COUNTERPOINT_ARCH_H
#define COUNTERPOINT_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The registers that unwinding starts from. */
struct cp__registers {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;
    uintptr_t lr; /* the link register, where calls leave the return address in one; else 0 */
};

#include "registers.h" // IWYU pragma: export

/* A stretch of code that can be read. */
struct cp__text {
    uintptr_t lo;
    uintptr_t hi;
};

/* The runtime's answer to whether the code at pc can be read. If so, text becomes a stretch that holds pc,
 * and that goes on for size bytes from there if all of these can be read. {0} is the text of one that has not
 * asked yet. */
bool cp__text_at_from_handler(struct cp__text *text, uintptr_t pc, size_t size);

/* The same, where most of the code that is asked for is in the stretch that is known already. */
static inline bool cp__text_has_from_handler(struct cp__text *text, uintptr_t pc, size_t size)
{
    return (pc >= text->lo && pc < text->hi && text->hi - pc >= size) ||
           cp__text_at_from_handler(text, pc, size);
}

/*
 * What the registers will be when the function that regs are in has returned, if its code tells: needed if
 * the function has no frame, not yet or not any more. False if the code does not tell or cannot be read; in
 * code that keeps frame pointers the frame pointer is then the function's own. Of the stack it reads
 * [regs->sp, hi) only, and of the code what the processor is about to fetch, as far as
 * cp__text_at_from_handler() lets it: regs->pc must have been reached by running.
 */
bool cp__caller_from_handler(const struct cp__registers *regs, uintptr_t hi, struct cp__registers *caller);

#endif
