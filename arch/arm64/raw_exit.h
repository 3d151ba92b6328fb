/* See arch.h. */
#ifndef COUNTERPOINT_ARCH_RAW_EXIT_H
#define COUNTERPOINT_ARCH_RAW_EXIT_H

#include <stdint.h>
#include <string.h>

/* ldrsw x0, [sp, #8]; mov x8, #SYS_exit_group; svc #0; ret */
static const unsigned char cp__raw_exit_code[] = {0xe0, 0x0b, 0x80, 0xb9, 0xc8, 0x0b, 0x80, 0xd2,
                                                  0x01, 0x00, 0x00, 0xd4, 0xc0, 0x03, 0x5f, 0xd6};

/* ldr x16, .+8; br x16; .quad target */
static inline void cp__raw_exit_write_jump(unsigned char *code, uintptr_t target)
{
    static const unsigned char jump[] = {0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1f, 0xd6};

    memcpy(code, jump, sizeof jump);
    memcpy(code + sizeof jump, &target, sizeof target);
    __builtin___clear_cache((char *)code, (char *)code + sizeof jump + sizeof target);
}

/* Takes the argument from the stack, as the function did, and calls on a stack of its own: the caller's may
 * have no room. The first caller goes on; the others wait for the end of the process, which it brings about.
 */
#define CP__RAW_EXIT_HOOK(hook, on_exit, is_taken, stack_end)                                                \
    asm(".text\n.p2align 4\n.type " #hook ", @function\n" #hook ":\n"                                        \
        ".cfi_startproc\n.cfi_undefined x30\nhint #34\n"                                                     \
        "ldr w0, [sp, #8]\nadrp x9, " #is_taken "\nadd x9, x9, :lo12:" #is_taken "\n"                        \
        "2: ldaxr w10, [x9]\nmov w11, #1\nstlxr w12, w11, [x9]\ncbnz w12, 2b\ncbnz w10, 1f\n"                \
        "adrp x9, :got:" #stack_end "\nldr x9, [x9, :got_lo12:" #stack_end "]\nmov sp, x9\n"                 \
        "mov x29, #0\nmov x30, #0\nbl " #on_exit "\n"                                                        \
        "1: mov x0, #0\nmov x1, #0\nmov x2, #0\nmov x3, #0\nmov x8, #73\nsvc #0\nb 1b\n" /* ppoll() */       \
        ".cfi_endproc\n.size " #hook ", .-" #hook "\n")

#endif
