/* See arch.h. */
#ifndef COUNTERPOINT_ARCH_RAW_EXIT_H
#define COUNTERPOINT_ARCH_RAW_EXIT_H

#include <stdint.h>
#include <string.h>

/* mov 0x8(%rsp),%edi; mov $SYS_exit_group,%eax; syscall; ret */
static const unsigned char cp__raw_exit_code[] = {0x8b, 0x7c, 0x24, 0x08, 0xb8, 0xe7,
                                                  0x00, 0x00, 0x00, 0x0f, 0x05, 0xc3};

/* movabs $target,%rax; jmp *%rax */
static inline void cp__raw_exit_write_jump(unsigned char *code, uintptr_t target)
{
    code[0] = 0x48;
    code[1] = 0xb8;
    memcpy(code + 2, &target, sizeof target);
    code[10] = 0xff;
    code[11] = 0xe0;
}

/* Takes the argument from the stack, as the function did, and calls on a stack of its own: the caller's may
 * have no room. The first caller goes on; the others wait for the end of the process, which it brings about.
 */
#define CP__RAW_EXIT_HOOK(hook, on_exit, is_taken, stack_end)                                                \
    asm(".text\n.p2align 4\n.type " #hook ", @function\n" #hook ":\n"                                        \
        ".cfi_startproc\n.cfi_undefined rip\nendbr64\n"                                                      \
        "movl 8(%rsp), %edi\nmovl $1, %eax\nxchgl %eax, " #is_taken "(%rip)\ntestl %eax, %eax\njnz 1f\n"     \
        "movq " #stack_end "@GOTPCREL(%rip), %rsp\nxorl %ebp, %ebp\ncall " #on_exit "\n"                     \
        "1: movl $34, %eax\nsyscall\njmp 1b\n" /* pause() */                                                 \
        ".cfi_endproc\n.size " #hook ", .-" #hook "\n")

#endif
