/* See arch.h. Of this processor's instructions nothing is known, so nothing is replaced. */
#ifndef COUNTERPOINT_ARCH_RAW_EXIT_H
#define COUNTERPOINT_ARCH_RAW_EXIT_H

#include <stdint.h>

static const unsigned char cp__raw_exit_code[1] = {0};
#define CP__RAW_EXIT_UNKNOWN 1

static inline void cp__raw_exit_write_jump(unsigned char *code, uintptr_t target)
{
    (void)code;
    (void)target;
}

#define CP__RAW_EXIT_HOOK(hook, on_exit, is_taken, stack_end) _Static_assert(1, "")

#endif
