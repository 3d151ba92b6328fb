/*
 * The code around a block's copies, which is copied to CP__IMAGE (image.c). No register and no stack
 * outlives a block, so all of it is at fixed addresses (layout.h):
 *
 *     head            times dependent additions, if the clock's ticks are no cycles; sets memory and
 *                     registers, reads the clock, and jumps to the first copy or to the middle one
 *     the copies
 *     tail            reads the clock, notes both, and goes to head, or ends
 *
 * There is one of each for each clock. An int3 ends the run: the monitor is told.
 */
#include "block/layout.h"

#define SAVED(offset) CP__SAVED + offset

    .section .rodata

/* Reads a clock into edx:eax when all before it is done, and before anything behind it begins. No flags
 * change. */
.macro read_tsc
    lfence
    rdtsc
    lfence
.endm
.macro read_rdpru
    movl    $1, %ecx
    lfence
    .byte   0x0f, 0x01, 0xfd
    lfence
.endm

.macro begin name
    .p2align 4, 0x90
    .globl  \name
    .hidden \name
    .type   \name, @object
\name:
.endm
.macro end name
    .globl  \name\()_end
    .hidden \name\()_end
\name\()_end:
    .size   \name, . - \name
.endm

/* An addition of two registers is no move that a processor makes while it renames registers. */
.macro calibrate
    movl    SAVED(CP__SAVED_INDEX), %ebx
    movl    %ebx, %ecx
    andl    $1, %ecx
    movl    $(CP__CALIBRATION_ADDS / 16), %esi
    shll    %cl, %esi
    shll    $4, %ebx
    xorl    %edi, %edi
    read_tsc
    movl    %eax, SAVED(CP__SAVED_CALIBRATIONS)(%rbx)
    movl    %edx, SAVED(CP__SAVED_CALIBRATIONS + 4)(%rbx)
    .p2align 5, 0x90
1:
    .rept   16
    addq    %rdi, %rdi
    .endr
    subl    $1, %esi
    jnz     1b
    read_tsc
    movl    %eax, SAVED(CP__SAVED_CALIBRATIONS + 8)(%rbx)
    movl    %edx, SAVED(CP__SAVED_CALIBRATIONS + 12)(%rbx)
.endm
/* The core's own counter counts cycles. */
.macro no_calibration
.endm

.macro set_memory
    cld
    movl    $CP__PHYSICAL, %edi
    movl    SAVED(CP__SAVED_PAGE_WORDS), %ecx
    movl    $CP__WORD, %eax
    rep     stosq
.endm

/* All but rax, rcx and rdx. */
.macro set_registers
    movl    SAVED(CP__SAVED_XSTATE_MASK), %eax
    movl    SAVED(CP__SAVED_XSTATE_MASK + 4), %edx
    xrstor64 SAVED(CP__SAVED_XSTATE)
    movl    $(CP__SAVED + CP__SAVED_FLAGS), %esp
    popfq
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 3), %rbx
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 4), %rsp
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 5), %rbp
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 6), %rsi
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 7), %rdi
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 8), %r8
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 9), %r9
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 10), %r10
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 11), %r11
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 12), %r12
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 13), %r13
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 14), %r14
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 15), %r15
.endm
.macro set_other_registers
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 0), %rax
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 1), %rcx
    movq    SAVED(CP__SAVED_REGISTERS + 8 * 2), %rdx
.endm

/* Mapping: what is before and behind the block is the monitor's. */
begin cp__harness_map_head
    set_memory
    set_registers
    set_other_registers
    int3
end cp__harness_map_head
begin cp__harness_map_tail
    int3
end cp__harness_map_tail

.macro harness clock, read, calibrate
begin cp__harness_\clock\()_head
    \calibrate
    set_memory
    set_registers
    \read
    movl    %eax, SAVED(CP__SAVED_BEGIN)
    movl    %edx, SAVED(CP__SAVED_BEGIN + 4)
    set_other_registers
    jmp     *SAVED(CP__SAVED_ENTRY)
end cp__harness_\clock\()_head

begin cp__harness_\clock\()_tail
    \read
    cld
    movl    SAVED(CP__SAVED_INDEX), %ecx
    movl    %ecx, %edi
    shll    $4, %edi
    movl    %eax, SAVED(CP__SAVED_TIMINGS + 8)(%rdi)
    movl    %edx, SAVED(CP__SAVED_TIMINGS + 12)(%rdi)
    movq    SAVED(CP__SAVED_BEGIN), %rax
    movq    %rax, SAVED(CP__SAVED_TIMINGS)(%rdi)
    addl    $1, %ecx
    movl    %ecx, SAVED(CP__SAVED_INDEX)
    cmpl    SAVED(CP__SAVED_HALF), %ecx
    jne     2f
    movq    SAVED(CP__SAVED_SHORT_ENTRY), %rax
    movq    %rax, SAVED(CP__SAVED_ENTRY)
2:
    cmpl    SAVED(CP__SAVED_END), %ecx
    jae     3f
    jmp     *SAVED(CP__SAVED_HEAD)
3:
    int3
end cp__harness_\clock\()_tail
.endm

    harness tsc, read_tsc, calibrate
    harness rdpru, read_rdpru, no_calibration

/* Makes the system call that registers say. */
begin cp__harness_stub
    syscall
    int3
end cp__harness_stub

    .section .note.GNU-stack, "", @progbits
