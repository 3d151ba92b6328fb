/*
 * What differs between instruction sets. Each folder beside this file implements the interface below under
 * the same file names; the build puts one folder, arch/$(ARCH), on the include path.
 *
 *     registers.h   the registers at which a signal interrupted the program, how a return address is stored,
 *                   and which memory the handler may read
 *     caller.c      finds the caller of an interrupted function by reading the function's instructions
 *     context.h     a suspended flow of control, and the switch between two flows
 *     spin.h        what a thread that spins tells the processor
 *     valgrind.h    whether valgrind runs the program
 *     raw_exit.h    the code by which Go's runtime ends a process, and a jump in its place (preload/)
 *     watchpoint.h  what the processor's debug registers can watch
 *     counters.h    which of its counters a program can read by an instruction
 */
#ifndef COUNTERPOINT_ARCH_H
#define COUNTERPOINT_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

/* The registers from which unwinding starts. */
struct cp__registers {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;
    uintptr_t lr; /* the link register, on processors whose calls put the return address there; else 0 */
    const mcontext_t *machine; /* all registers of interrupted code; NULL if only the ones above are known */
};

#include "registers.h" // IWYU pragma: export

struct cp__text;

/* Answers a question: can the code at pc be read? If the code can be read, the function sets the range of
 * *text to one that contains pc, and that range covers size bytes from pc if all of these bytes can be read.
 * Which memory is code is known above this room, so whoever wants code to be read brings the function. Safe
 * in a signal handler. */
typedef bool cp__text_fn(struct cp__text *text, uintptr_t pc, size_t size);

/* A range of code, [lo, hi), whose bytes can be read, and who tells what else can be. The range is empty
 * before the first question. */
struct cp__text {
    cp__text_fn *at_from_handler;
    uintptr_t lo;
    uintptr_t hi;
};

/* Asks that question. Looks into *text first, because most questions concern the range that the last answer
 * found. */
static inline bool cp__text_has_from_handler(struct cp__text *text, uintptr_t pc, size_t size)
{
    return (pc >= text->lo && pc < text->hi && text->hi - pc >= size) ||
           text->at_from_handler(text, pc, size);
}

/* What the code ahead tells of a function's caller. */
enum cp__caller {
    CP__CALLER_UNKNOWN, /* nothing, or the code cannot be read */
    /* Nothing, but the code makes a call, and has stored the link register for it. Only processors that have
     * one say so. */
    CP__CALLER_STORED,
    CP__CALLER_FOUND,
    CP__CALLER_FOUND_ABOVE, /* found, but the caller's stack pointer may lie above caller->sp */
    CP__CALLER_NONE,        /* the code never returns: it ends in a call that a halt follows */
};

/*
 * Computes the registers that the caller will have when the function of regs has returned, if the function's
 * code tells them. Unwinding needs this if the function has no frame, has not made its frame yet, or has
 * already removed it. If the code does not tell the registers, and keeps frame pointers, regs->fp points at
 * the function's own frame; but nothing tells whether the code keeps frame pointers.
 *
 * regs may also be those of a call that has not returned: regs->pc is the return address, regs->sp the stack
 * pointer behind the call, and regs->lr is 0.
 *
 * The function reads only [regs->sp, hi) of the stack. It reads the code that the processor would fetch next,
 * as far as text_at allows. The program must have reached regs->pc by running.
 */
enum cp__caller cp__caller_from_handler(const struct cp__registers *regs, uintptr_t hi, cp__text_fn *text_at,
                                        struct cp__registers *caller);

/* Returns whether a call may end at pc, a return address: false if what stands before it is none. */
bool cp__may_be_behind_call_from_handler(uintptr_t pc, cp__text_fn *text_at);

/* The end of a function that goes on with another context: from `loaded` on, the stack is the other one; from
 * `pushed` on, the address to go on at is on top of it; the function ends at `end`. All 0: unknown. */
struct cp__switch {
    uintptr_t loaded;
    uintptr_t pushed;
    uintptr_t end;
};
/* Looks for that in setcontext() or swapcontext(). Not for signal handlers. */
struct cp__switch cp__find_switch(uintptr_t function, cp__text_fn *text_at);

/* Returns whether the code at pc, in a function that leaves for another stack frame instead of returning
 * (`__builtin_eh_return()`, in the compiler's unwinder), is about to leave: it makes at most one more
 * call. The function's own frame may hold the registers of that other frame then. */
bool cp__leaves_stack_from_handler(uintptr_t pc, cp__text_fn *text_at);

#endif
