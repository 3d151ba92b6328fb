/* Asks valgrind, as its own valgrind.h does. */
#ifndef COUNTERPOINT_ARCH_VALGRIND_H
#define COUNTERPOINT_ARCH_VALGRIND_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether valgrind runs the program. The instructions change no register, except that valgrind takes
 * them for a request, whose arguments are at rax and whose result goes into rdx. */
static inline bool cp__runs_under_valgrind(void)
{
    const uint64_t request[6] = {0x1001}; /* VG_USERREQ__RUNNING_ON_VALGRIND */
    uint64_t result;

    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "=d"(result)
                     : "a"(request), "0"((uint64_t)0)
                     : "cc", "memory");
    return result != 0;
}

#endif
