/*
 * arm64's part of caller_test: where cp__caller_from_handler() finds the return address for pieces of code
 * that the test makes up.
 */
#include <string.h>

#include "runtime/unwind/code.h"
#include "runtime/unwind/unwind.h"
#include "tests/support/lone_page.h"

/* Where the return address is if it is in no word of the stack. */
enum { LINK = -1, LOST = -2 };
/* A word of the stack has a value that tells its index. The stack pointer points to word 8, the frame pointer
 * to word 16. */
enum { SP_AT = 8, FP_AT = 16, SAME = 0 };
#define IN_LINK 0x400000

struct code {
    const void *begin;
    size_t size;
};
/* Assembles a piece of code. */
#define CODE(text)                                                                                           \
    ({                                                                                                       \
        struct code code_;                                                                                   \
        __asm__(".pushsection .rodata\n.balign 4\n771:\n" text "\n772:\n.popsection\n"                       \
                "adrp %0, 771b\nadd %0, %0, :lo12:771b\nmov %1, #772b - 771b"                                \
                : "=r"(code_.begin), "=r"(code_.size));                                                      \
        code_;                                                                                               \
    })

static uintptr_t *stack;
static char *code_end;

static struct cp__registers make_stack(void)
{
    stack = lone_page();
    for (uintptr_t i = 0; i < WORDS; i++)
        stack[i] = 0x100000 + i;
    code_end = (char *)lone_page() + WORDS * sizeof(uintptr_t);
    return (struct cp__registers){
        .sp = (uintptr_t)&stack[SP_AT], .fp = (uintptr_t)&stack[FP_AT], .lr = IN_LINK};
}

static enum cp__caller find_caller(const struct cp__registers *regs, uintptr_t hi,
                                   struct cp__registers *caller)
{
    return cp__caller_from_handler(regs, hi, cp__text_at_from_handler, caller);
}

/* return_at and fp_at are the indices of the words that have the return address and the caller's frame
 * pointer (SAME: the register still has it); sp_at is the index of the word that the caller's stack pointer
 * points to. */
static void check_code(const char *what, struct code code, struct cp__registers regs, int return_at,
                       int fp_at, int sp_at)
{
    struct cp__registers caller;
    bool found;

    regs.pc = (uintptr_t)memcpy(code_end - code.size, code.begin, code.size);
    found = find_caller(&regs, (uintptr_t)&stack[WORDS], &caller) >= CP__CALLER_FOUND;
    CHECKF(found == (return_at != LOST), "%s: found %d", what, found);
    if (!found)
        return;
    CHECKF(caller.pc == (return_at == LINK ? IN_LINK : 0x100000u + (unsigned)return_at), "%s: %#lx", what,
           caller.pc);
    CHECKF(caller.fp == (fp_at == SAME ? regs.fp : stack[fp_at]), "%s: %#lx", what, caller.fp);
    CHECKF(caller.sp == (uintptr_t)&stack[sp_at], "%s: %#lx", what, caller.sp);
}
#define PIECE(text, return_at, fp_at, sp_at) check_code(text, CODE(text), regs, return_at, fp_at, sp_at)
#define LOSES(text) check_code(text, CODE(text), regs, LOST, SAME, SAME)

CP_TEST(ways_out_of_a_function_are_followed)
{
    struct cp__registers regs = make_stack();

    PIECE("ret", LINK, SAME, 8);
    PIECE("hint #29; ret // autiasp", LINK, SAME, 8);
    PIECE(".inst 0xd65f0bff // retaa", LINK, SAME, 8);
    PIECE(".inst 0xd65f0fff // retab", LINK, SAME, 8);
    LOSES("ret x1");
    PIECE("ldp x29, x30, [sp], #16; ret", 9, 8, 10);
    PIECE("ldp x29, x30, [sp, #32]; add sp, sp, #64; ret", 13, 12, 16);
    PIECE("ldp x29, x30, [sp]; sub sp, sp, #64; add sp, sp, #128; ret", 9, 8, 16);
    PIECE("ldr x30, [sp], #16; ret", 8, SAME, 10);
    PIECE("ldr x30, [sp, #24]!; ret", 11, SAME, 11);
    PIECE("ldur x30, [sp, #8]; ldr x29, [sp, #16]; ret", 9, 10, 8);
    PIECE("ldp x19, x30, [sp], #32; ret", 9, SAME, 12);
    PIECE("ldp x30, x19, [sp, #16]!; ret", 10, SAME, 10);
    PIECE("mov sp, x29; ldp x29, x30, [sp], #16; ret", 17, 16, 18);
    PIECE("sub sp, x29, #16; ldp x29, x30, [sp, #16]; add sp, sp, #32; ret", 17, 16, 18);
    PIECE("ldp x29, x30, [x29]; ret", 17, 16, 8);
    PIECE("ldr x30, [x0]; mov x30, x1; ldr x29, [x1, #8]!; ret", LINK, SAME, 8);
}

CP_TEST(ways_into_a_function_are_followed_back)
{
    struct cp__registers regs = make_stack();

    PIECE("stp x29, x30, [sp, #-32]!; bl .", LINK, SAME, 8);
    PIECE("hint #25; sub sp, sp, #64; stp x29, x30, [sp, #48]; bl . // paciasp", LINK, SAME, 8);
    PIECE("mov x12, #0x5000; sub sp, sp, x12; stp x29, x30, [sp]; bl .", LINK, SAME, 8);
    PIECE("str x30, [sp, #-16]!; bl .", LINK, SAME, 8);
    PIECE("stp x19, x30, [sp, #-32]!; bl .", LINK, SAME, 8);
    PIECE("stp x30, x19, [sp, #-32]!; bl .", LINK, SAME, 8);
    LOSES("stp x29, x30, [x0]; bl .");
    LOSES("stp x30, x29, [sp]; bl .");
    LOSES("stp x29, x28, [sp, #-16]!; bl .");
    LOSES("str x30, [sp, #8]; bl . // what the register was used for");
    LOSES("mov x29, sp; bl . // there is no record");
    stack[SP_AT] = regs.fp;
    LOSES("mov x29, sp; bl . // only half a one");
    stack[SP_AT] = 0;
    stack[SP_AT + 1] = IN_LINK;
    LOSES("mov x29, sp; bl . // the other half");
    stack[SP_AT] = regs.fp;
    stack[SP_AT + 1] = IN_LINK;
    PIECE("mov x29, sp; bl .", LINK, SAME, 10);
    PIECE("str x19, [sp, #16]; mov x29, sp; bl .", LINK, SAME, 10);
    stack[SP_AT + 4] = regs.fp;
    stack[SP_AT + 5] = IN_LINK;
    PIECE("add x29, sp, #32; bl .", LINK, SAME, 14);
}

CP_TEST(stack_pointers_are_followed)
{
    struct cp__registers regs = make_stack();

    PIECE("sub sp, sp, #1, lsl #12; add sp, sp, #1, lsl #12; ret", LINK, SAME, 8);
    PIECE("sub sp, sp, #1, lsl #12; add sp, sp, #4095; add sp, sp, #17; ret", LINK, SAME, 10);
    PIECE("add sp, sp, #16; cmp sp, #16; cmn sp, #1; tst x0, #7; ret", LINK, SAME, 10);
    PIECE("str x0, [sp, #-16]!; ldr x0, [sp], #16; ret", LINK, SAME, 8);
    PIECE("stp d8, d9, [sp, #-16]!; ldp q0, q1, [sp], #32; ret", LINK, SAME, 10);
    PIECE("stp w0, w1, [sp, #-8]!; ldpsw x0, x1, [sp], #24; ldp s0, s1, [sp], #8; ret", LINK, SAME, 11);
    PIECE("str q0, [sp], #16; ldrb w0, [sp], #16; stp x0, x1, [sp, #16]; ret", LINK, SAME, 12);
    PIECE("add sp, sp, x12; ret", LINK, SAME, 8);
    PIECE("and sp, x9, #-16; ret", LINK, SAME, 8);
    LOSES("sub sp, sp, x12; ldp x29, x30, [sp], #16; ret");
    LOSES("add sp, sp, x12; add sp, sp, #16; ldp x29, x30, [sp]; ret");
    LOSES("and sp, x9, #-16; ldr x30, [sp], #16; ret");
    LOSES("mov sp, x9; ldr x30, [sp], #16; ret");
    LOSES("add wsp, wsp, #16; ldr x30, [sp], #16; ret");
    LOSES("ld1 {v0.16b}, [sp], #16; ldr x30, [sp], #16; ret");
    LOSES("ld1 {v0.b}[1], [sp], #1; ldr x30, [sp], #16; ret");
    LOSES(".inst 0xd92007ff; ldr x30, [sp], #16; ret // stg sp, [sp], #0");
    LOSES(".inst 0x918003ff; ldr x30, [sp], #16; ret // addg sp, sp, #0, #0");
}

CP_TEST(ways_through_a_function_are_followed)
{
    struct cp__registers regs = make_stack();

    PIECE("nop; mrs x0, tpidr_el0; dmb ish; mul x0, x0, x1; fadd d0, d0, d1; ldr x0, .; ret", LINK, SAME, 8);
    LOSES("bl .; ret");
    LOSES("blr x0; ret");
    LOSES("svc #0; ret");
    LOSES("brk #0; ret");
    LOSES(".inst 0; ret // udf");
    LOSES("br x0; ret");
    LOSES("br x16; ret");
    LOSES(".inst 0xd61f0a1f; ret // braaz x16");
    PIECE("b 1f; .inst 0; 1: ret", LINK, SAME, 8);
    PIECE("b.eq 1f; .inst 0; 1: ret", LINK, SAME, 8);
    PIECE("cbz x0, 1f; bl .; 1: ldr x30, [sp], #16; ret", 8, SAME, 10);
    PIECE("cbnz w0, 1f; bl .; 1: ldr x30, [sp], #16; ret", 8, SAME, 10);
    PIECE("tbz x0, #40, 1f; bl .; 1: ldr x30, [sp], #16; ret", 8, SAME, 10);
    PIECE("tbnz w0, #3, 1f; bl .; 1: ldr x30, [sp], #16; ret", 8, SAME, 10);
    PIECE("1: b.ne 2f; b 1b; 2: ret // a loop that a jump leaves", LINK, SAME, 8);
    PIECE("1: b.ne 2f; b.mi 3f; nop; 3: b 1b; 2: ret // which has two ways", LINK, SAME, 8);
    LOSES("b . // for ever");
    LOSES("1: b.eq 1b; b 1b");
}

/* A return address is not taken from below the stack pointer or from a word that crosses the stack's end. */
CP_TEST(return_addresses_outside_the_stack_are_not_taken)
{
    struct cp__registers regs = make_stack();
    struct cp__registers caller;

    regs.sp = (uintptr_t)&stack[WORDS - 2];
    PIECE("ldp x29, x30, [sp], #16; ret", WORDS - 1, WORDS - 2, WORDS);
    LOSES("ldp x29, x30, [sp, #8]; ret");
    PIECE("ldr x30, [sp, #8]; ret", WORDS - 1, SAME, WORDS - 2);
    regs.pc = (uintptr_t)(code_end - 8);
    /* only half of the word is on the stack */
    CHECK(!find_caller(&regs, (uintptr_t)&stack[WORDS] - 4, &caller));
    LOSES("ldp x29, x30, [sp, #16]; ret");
    LOSES("ldp x29, x30, [sp, #-16]; ret");
    LOSES("add sp, sp, #32; ret");
    LOSES("sub sp, sp, #16; ret");
    for (int i = 0; i < 4; i++) {
        const uintptr_t bad[] = {(uintptr_t)&stack[WORDS - 1], (uintptr_t)&stack[WORDS - 3],
                                 (uintptr_t)&stack[WORDS - 2] + 4, UINTPTR_MAX - 7};

        regs.fp = bad[i];
        LOSES("ldp x29, x30, [x29]; ret");
    }
    regs.sp += 4;
    LOSES("ldr x30, [sp]; ret");
    regs.pc = (uintptr_t)(code_end - 2); /* the last instruction of each piece, a ret */
    CHECK(!find_caller(&regs, (uintptr_t)&stack[WORDS], &caller));
    regs.pc -= 2;
    CHECK(find_caller(&regs, (uintptr_t)&stack[WORDS], &caller));
}

static void check_stub(const char *what, struct code code, bool is_stub)
{
    struct cp__registers regs = make_stack();
    struct cp__registers caller;

    for (size_t at = 0; at < code.size; at += 4) { /* interrupts the piece at each of its instructions */
        bool found;

        regs.pc = (uintptr_t)memcpy(code_end - code.size, code.begin, code.size) + at;
        found = find_caller(&regs, (uintptr_t)&stack[WORDS], &caller) >= CP__CALLER_FOUND;
        CHECKF(found == is_stub, "%s: +%zu", what, at);
        CHECK(!is_stub || caller.pc == IN_LINK);
    }
}
#define STUB(text, is_stub) check_stub(text, CODE(text), is_stub)

CP_TEST(stubs_of_linkers_are_known)
{
    STUB("adrp x16, .; ldr x17, [x16, #16]; add x16, x16, #16; br x17", true);
    STUB("hint #34; adrp x16, .; ldr x17, [x16, #16]; add x16, x16, #16; br x17", true);
    STUB("adrp x16, .; add x16, x16, #16; br x16", true);
    STUB("adrp x16, .; ldr x17, [x16, #16]; add x16, x16, #16; br x16", false);
    STUB("adrp x16, .; ldr x17, [x0, #16]; add x16, x16, #16; br x17", false);
    STUB("adrp x16, .; ldr x17, [x16, #16]; add x17, x17, #16; br x17", false);
    STUB("adrp x17, .; add x16, x16, #16; br x16", false);
}

static enum cp__caller told_by(struct code code, bool is_behind_call)
{
    struct cp__registers regs = make_stack(), caller;

    if (is_behind_call)
        regs.lr = 0;
    regs.pc = (uintptr_t)memcpy(code_end - code.size, code.begin, code.size);
    return find_caller(&regs, (uintptr_t)&stack[WORDS], &caller);
}
#define TOLD_BY(text, is_behind_call) told_by(CODE(text), is_behind_call)

/* A return tells the stack pointer; a record may lie in the middle of its frame. Behind a call, the link
 * register must be loaded before the code returns; before a call, it has been stored. */
CP_TEST(the_code_tells_how_much_it_knows)
{
    CHECK_EQ(TOLD_BY("ret", false), CP__CALLER_FOUND);
    CHECK_EQ(TOLD_BY("ret", true), CP__CALLER_UNKNOWN);
    CHECK_EQ(TOLD_BY("ldp x29, x30, [sp], #16; ret", true), CP__CALLER_FOUND);
    CHECK_EQ(TOLD_BY("stp x29, x30, [sp, #16]; mov x29, sp; ret", false), CP__CALLER_FOUND_ABOVE);
    CHECK_EQ(TOLD_BY("bl .", false), CP__CALLER_STORED);
    CHECK_EQ(TOLD_BY("blr x1", false), CP__CALLER_STORED);
    CHECK_EQ(TOLD_BY("br x1", false), CP__CALLER_UNKNOWN);
}

/* The page before the stub's may not be mapped, so it must not be read. */
CP_TEST(a_stub_may_begin_a_page)
{
    struct cp__registers regs = make_stack();
    struct cp__registers caller;
    uint32_t *page = lone_page();

    page[0] = 0xd61f0220; /* br x17 */
    regs.pc = (uintptr_t)page;
    CHECK(!find_caller(&regs, (uintptr_t)&stack[WORDS], &caller));
}
