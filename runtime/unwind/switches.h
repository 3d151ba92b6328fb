/*
 * The C library's functions that go on with another context: setcontext() and swapcontext().
 *
 * When they have loaded the stack pointer, their rows name a word of the other stack, which may be anything;
 * and when they have pushed the address to go on at, that may be the beginning of a function.
 */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_SWITCHES_H
#define COUNTERPOINT_RUNTIME_UNWIND_SWITCHES_H

#include <stdbool.h>
#include <stdint.h>

/* Finds the functions, before the first M. */
void cp__switches_prepare(void);
/* Returns whether pc is in one of them, behind the load. */
bool cp__switches_hold_from_handler(uintptr_t pc);
/* Returns whether the code at pc has pushed the address to go on at, too. */
bool cp__switches_have_pushed_from_handler(uintptr_t pc);

#endif
