/*
 * See context.h. The unwind information is exact at every instruction. The canonical frame address is defined
 * by the stack pointer throughout, so it moves to the other stack in the same instruction as the stack
 * pointer; a frame of the same layout lies there. The frame pointer follows one instruction later. In
 * between, the frame pointer points outside the stack, and a walk along frame records stops there.
 */

#define FRAME 176

    .text

/* void cp__context_switch(struct cp__context *from, struct cp__context *to) */
    .p2align 4
    .globl  cp__context_switch
    .hidden cp__context_switch
    .type   cp__context_switch, @function
cp__context_switch:
    .cfi_startproc
    hint    #34             /* bti c */
    stp     x29, x30, [sp, -FRAME]!
    .cfi_def_cfa_offset FRAME
    .cfi_offset x29, -FRAME
    .cfi_offset x30, -FRAME + 8
    mov     x29, sp
    stp     x19, x20, [sp, 16]
    .cfi_offset x19, -FRAME + 16
    .cfi_offset x20, -FRAME + 24
    stp     x21, x22, [sp, 32]
    .cfi_offset x21, -FRAME + 32
    .cfi_offset x22, -FRAME + 40
    stp     x23, x24, [sp, 48]
    .cfi_offset x23, -FRAME + 48
    .cfi_offset x24, -FRAME + 56
    stp     x25, x26, [sp, 64]
    .cfi_offset x25, -FRAME + 64
    .cfi_offset x26, -FRAME + 72
    stp     x27, x28, [sp, 80]
    .cfi_offset x27, -FRAME + 80
    .cfi_offset x28, -FRAME + 88
    stp     d8, d9, [sp, 96]
    .cfi_offset d8, -FRAME + 96
    .cfi_offset d9, -FRAME + 104
    stp     d10, d11, [sp, 112]
    .cfi_offset d10, -FRAME + 112
    .cfi_offset d11, -FRAME + 120
    stp     d12, d13, [sp, 128]
    .cfi_offset d12, -FRAME + 128
    .cfi_offset d13, -FRAME + 136
    stp     d14, d15, [sp, 144]
    .cfi_offset d14, -FRAME + 144
    .cfi_offset d15, -FRAME + 152
    mrs     x9, fpcr
    str     x9, [sp, 160]
    mov     x10, sp
    str     x10, [x0]

    ldr     x10, [x1]
    mov     sp, x10
    mov     x29, sp
    ldr     x10, [sp, 160]
    cmp     x10, x9         /* a write takes much longer than a compare */
    b.eq    1f
    msr     fpcr, x10
1:  ldp     d14, d15, [sp, 144]
    .cfi_restore d14
    .cfi_restore d15
    ldp     d12, d13, [sp, 128]
    .cfi_restore d12
    .cfi_restore d13
    ldp     d10, d11, [sp, 112]
    .cfi_restore d10
    .cfi_restore d11
    ldp     d8, d9, [sp, 96]
    .cfi_restore d8
    .cfi_restore d9
    ldp     x27, x28, [sp, 80]
    .cfi_restore x27
    .cfi_restore x28
    ldp     x25, x26, [sp, 64]
    .cfi_restore x25
    .cfi_restore x26
    ldp     x23, x24, [sp, 48]
    .cfi_restore x23
    .cfi_restore x24
    ldp     x21, x22, [sp, 32]
    .cfi_restore x21
    .cfi_restore x22
    ldp     x19, x20, [sp, 16]
    .cfi_restore x19
    .cfi_restore x20
    ldp     x29, x30, [sp], FRAME
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size   cp__context_switch, . - cp__context_switch

/* A new context begins here. It has no caller: the unwind information declares the return address undefined
 * and x29 is 0, so every unwinder stops here. */
    .p2align 4
    .globl  cp__context_entry
    .hidden cp__context_entry
    .type   cp__context_entry, @function
cp__context_entry:
    .cfi_startproc
    .cfi_undefined x30
    nop
    mov     x0, x20
    blr     x19
    brk     #1000
    .cfi_endproc
    .size   cp__context_entry, . - cp__context_entry

    .section .note.GNU-stack, "", @progbits

/* Every target of an indirect branch in this file begins with bti. A return needs no bti at its target. */
    .section .note.gnu.property, "a"
    .p2align 3
    .long   4              /* size of the name */
    .long   16             /* size of the property */
    .long   5              /* NT_GNU_PROPERTY_TYPE_0 */
    .asciz  "GNU"
    .long   0xc0000000     /* GNU_PROPERTY_AARCH64_FEATURE_1_AND */
    .long   4
    .long   1              /* BTI */
    .long   0              /* padding to 8 bytes */
