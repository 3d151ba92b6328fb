/* Asks valgrind, as its own valgrind.h does. */
#ifndef COUNTERPOINT_ARCH_VALGRIND_H
#define COUNTERPOINT_ARCH_VALGRIND_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether valgrind runs the program. The instructions change no register, except that valgrind takes
 * them for a request, whose arguments are at x4 and whose result goes into x3. */
static inline bool cp__runs_under_valgrind(void)
{
    const uint64_t request[6] = {0x1001}; /* VG_USERREQ__RUNNING_ON_VALGRIND */
    register uint64_t result __asm__("x3") = 0;
    register const uint64_t *arguments __asm__("x4") = request;

    __asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\t"
                     "orr x10, x10, x10"
                     : "+r"(result)
                     : "r"(arguments)
                     : "cc", "memory");
    return result != 0;
}

#endif
