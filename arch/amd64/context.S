/*
 * See context.h. The unwind information is exact at every instruction. The canonical frame address is defined
 * by the stack pointer throughout, so it moves to the other stack in the same instruction as the stack
 * pointer; a frame of the same layout lies there. The frame pointer follows one instruction later. In
 * between, the frame pointer points outside the stack, and a walk along frame pointers stops there.
 */

    .text

/* void cp__context_switch(struct cp__context *from, struct cp__context *to) */
    .p2align 4
    .globl  cp__context_switch
    .hidden cp__context_switch
    .type   cp__context_switch, @function
cp__context_switch:
    .cfi_startproc
    endbr64
    pushq   %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq    %rsp, %rbp
    pushq   %rbx
    .cfi_def_cfa_offset 24
    .cfi_offset %rbx, -24
    pushq   %r12
    .cfi_def_cfa_offset 32
    .cfi_offset %r12, -32
    pushq   %r13
    .cfi_def_cfa_offset 40
    .cfi_offset %r13, -40
    pushq   %r14
    .cfi_def_cfa_offset 48
    .cfi_offset %r14, -48
    pushq   %r15
    .cfi_def_cfa_offset 56
    .cfi_offset %r15, -56
    subq    $8, %rsp
    .cfi_def_cfa_offset 64
    stmxcsr (%rsp)
    fnstcw  4(%rsp)
    movq    %rsp, (%rdi)

    movq    (%rsi), %rsp
    leaq    48(%rsp), %rbp
    ldmxcsr (%rsp)
    fldcw   4(%rsp)
    addq    $8, %rsp
    .cfi_def_cfa_offset 56
    popq    %r15
    .cfi_def_cfa_offset 48
    .cfi_restore %r15
    popq    %r14
    .cfi_def_cfa_offset 40
    .cfi_restore %r14
    popq    %r13
    .cfi_def_cfa_offset 32
    .cfi_restore %r13
    popq    %r12
    .cfi_def_cfa_offset 24
    .cfi_restore %r12
    popq    %rbx
    .cfi_def_cfa_offset 16
    .cfi_restore %rbx
    popq    %rbp
    .cfi_def_cfa_offset 8
    .cfi_restore %rbp
    ret
    .cfi_endproc
    .size   cp__context_switch, . - cp__context_switch

/* A new context begins here. It has no caller: the unwind information declares the return address undefined,
 * so every unwinder stops here. */
    .p2align 4
    .globl  cp__context_entry
    .hidden cp__context_entry
    .type   cp__context_entry, @function
cp__context_entry:
    .cfi_startproc
    .cfi_undefined %rip
    nop
    xorl    %ebp, %ebp
    movq    %r12, %rdi
    callq   *%rbx
    ud2
    .cfi_endproc
    .size   cp__context_entry, . - cp__context_entry

    .section .note.GNU-stack, "", @progbits

/* Every target of an indirect branch in this file begins with endbr64 (IBT). The code does not switch shadow
 * stacks, so the note does not claim support for them. */
    .section .note.gnu.property, "a"
    .p2align 3
    .long   4              /* size of the name */
    .long   16             /* size of the property */
    .long   5              /* NT_GNU_PROPERTY_TYPE_0 */
    .asciz  "GNU"
    .long   0xc0000002     /* GNU_PROPERTY_X86_FEATURE_1_AND */
    .long   4
    .long   1              /* IBT */
    .long   0              /* padding to 8 bytes */
