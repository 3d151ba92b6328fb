/*
 * See context.h. The unwind information is exact at every instruction: the canonical frame address is given
 * by the stack pointer all the way, so it moves to the other stack together with it, where a frame of the
 * same layout lies. The frame pointer follows one instruction later; in between it points outside the
 * stack, where a walk along frame pointers stops.
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

/* Where a new context begins. It has no caller: its return address is undefined, which ends every unwinding
 * here. */
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

/* Every target of an indirect branch here begins with endbr64 (IBT). A shadow stack would have to be
 * switched, too. */
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
