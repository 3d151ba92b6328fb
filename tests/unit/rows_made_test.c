/* Call-frame information that compilers and linkers write rarely, and stacks that do not lead on. The tests
 * make both. */
#include <dlfcn.h>
#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "runtime/unwind/code.h"
#include "runtime/unwind/rows.h"
#include "runtime/unwind/unwind.h"
#include "tests/support/test.h"

/* ---- Information that is made ---------------------------------------------------------------- */

#define CODE 0x100000 /* where the code lies that the information is about, and how much there is */
#define CODE_SIZE 0x1000
#define LEB(n) ((n)&0x7f) /* a signed number of one byte */

static struct {
    uint8_t bytes[2048];
    size_t n;
} section;

static void put(const void *data, size_t size)
{
    CHECK(section.n + size <= sizeof section.bytes);
    memcpy(section.bytes + section.n, data, size);
    section.n += size;
}

static void put_number(uint64_t number, size_t size)
{
    put(&number, size);
}

/* A function has a program of two operations, with one operand each. */
struct made {
    uint64_t lo, size; /* from CODE on */
    uint8_t program[4];
};

/* Writes the entry that all functions have in common: addresses have 8 bytes, and the CFA is 8 bytes above
 * the stack pointer. */
static void put_common(void)
{
    static const uint8_t bytes[] = {
        1, 'z', 'R', 0, 1, LEB(-8), CP__RETURN_NUMBER, 1, DW_EH_PE_absptr, DW_CFA_def_cfa, CP__SP_NUMBER, 8};

    put_number(4 + sizeof bytes, 4);
    put_number(0, 4);
    put(bytes, sizeof bytes);
}

static void put_function(const struct made *made, size_t common)
{
    put_number(4 + 8 + 8 + 1 + sizeof made->program, 4);
    put_number(section.n - common, 4);
    put_number(CODE + made->lo, 8);
    put_number(made->size, 8);
    put_number(0, 1);
    put(made->program, sizeof made->program);
}

/* Makes the rows of functions, whose table is sorted as a linker sorts it. */
static const struct cp__rows *rows_of(const struct made *made, size_t n)
{
    bool is_over_budget;
    static const uint8_t forms[] = {1, DW_EH_PE_absptr, DW_EH_PE_udata4, DW_EH_PE_absptr};
    const struct cp__cfi_source source = {.lo = section.bytes,
                                          .hi = section.bytes + sizeof section.bytes,
                                          .header = section.bytes,
                                          .header_end = section.bytes + sizeof section.bytes,
                                          .code_lo = CODE,
                                          .code_hi = CODE + CODE_SIZE};
    const size_t header = sizeof forms + 8 + 4 + 16 * n;
    uint64_t entries[16];
    size_t common;

    section.n = common = header;
    put_common();
    for (size_t i = 0; i < n; i++) {
        entries[i] = (uintptr_t)section.bytes + section.n;
        put_function(&made[i], common);
    }
    put_number(0, 4);
    section.n = 0;
    put(forms, sizeof forms);
    put_number((uintptr_t)section.bytes + common, 8);
    put_number(n, 4);
    for (size_t i = 0; i < n; i++) {
        put_number(CODE + made[i].lo, 8);
        put_number(entries[i], 8);
    }
    return cp__rows_make(&source, &is_over_budget);
}

/* Returns how far above the stack pointer the CFA is; -1: unknown. */
static int cfa_at(const struct cp__rows *rows, uint64_t at)
{
    const struct cp__rule *rule = cp__rows_find_from_handler(rows, at);

    return rule->cfa_from == CP__SP_NUMBER ? rule->cfa : -1;
}

/* The offsets of these operations are in the CIE's unit. */
CP_TEST(signed_offsets_are_multiples)
{
    static const struct made made[] = {
        {0, 32, {DW_CFA_def_cfa_offset_sf, LEB(-2), DW_CFA_nop, DW_CFA_nop}},
        {32, 32, {DW_CFA_def_cfa_sf, CP__SP_NUMBER, LEB(-3), DW_CFA_nop}},
        {64, 32, {DW_CFA_offset_extended_sf, CP__FP_NUMBER, LEB(-4), DW_CFA_nop}},
        {96, 32, {DW_CFA_def_cfa_offset, 16, DW_CFA_nop, DW_CFA_nop}},
    };
    const struct cp__rows *rows = rows_of(made, 4);

    CHECK(rows != NULL);
    CHECK_EQ(cfa_at(rows, 0), 16);
    CHECK_EQ(cfa_at(rows, 40), 24);
    CHECK_EQ(cfa_at(rows, 64), 8);
    CHECK_EQ(cp__rows_find_from_handler(rows, 64)->fp_value, 32);
    CHECK_EQ(cfa_at(rows, 127), 16);
}

/* A linker leaves the entries of functions that it has dropped, or of which it has kept one of two. */
CP_TEST(the_first_of_two_descriptions_counts)
{
    static const struct made made[] = {
        {(uint64_t)-CODE,
         32,
         {DW_CFA_def_cfa_offset, 80, DW_CFA_nop, DW_CFA_nop}}, /* dropped: at address 0 */
        {0, 32, {DW_CFA_def_cfa_offset, 16, DW_CFA_nop, DW_CFA_nop}},
        {0, 32, {DW_CFA_def_cfa_offset, 24, DW_CFA_nop, DW_CFA_nop}},
        {16, 8, {DW_CFA_def_cfa_offset, 32, DW_CFA_nop, DW_CFA_nop}},
        {24, 0, {DW_CFA_def_cfa_offset, 40, DW_CFA_nop, DW_CFA_nop}},
        {64, 32, {DW_CFA_def_cfa_offset, 48, DW_CFA_nop, DW_CFA_nop}},
        {128, CODE_SIZE, {DW_CFA_def_cfa_offset, 56, DW_CFA_nop, DW_CFA_nop}}, /* beyond the code's end */
    };
    const struct cp__rows *rows = rows_of(made, sizeof made / sizeof made[0]);

    CHECK(rows != NULL);
    for (uint64_t at = 0; at < 256; at++)
        CHECKF(cfa_at(rows, at) == (at < 32   ? 16
                                    : at < 64 ? -1
                                    : at < 96 ? 48
                                              : -1),
               "%d at %d", cfa_at(rows, at), (int)at);
}

/* ---- Objects --------------------------------------------------------------------------------- */

/* Builds a library, NAME.so, whose function has a frame of `offset` bytes. */
static void build_library(const char *name, int offset)
{
    free(test_command(NULL,
                      "cd %s && printf '%%s\\n' .text '.globl frame' "
                      ".cfi_startproc nop nop nop nop '.cfi_def_cfa_offset %d' frame: nop nop nop nop "
                      "ret .cfi_endproc > %s.s && gcc -shared -nostdlib -Wl,--build-id -o %s.so %s.s",
                      test_dir(), offset, name, name, name));
}

/* Loads the library, and returns how large the frame is by the rows. */
static int frame_in_library(const char *name, void **object)
{
    struct cp__code_range range = {.size = 0};
    uintptr_t frame;
    char path[300];

    snprintf(path, sizeof path, "%s/%s.so", test_dir(), name);
    *object = dlopen(path, RTLD_NOW);
    CHECKF(*object != NULL, "%s", dlerror());
    frame = (uintptr_t)dlsym(*object, "frame");
    cp__code_update();
    CHECK(cp__code_find_from_handler(frame, &range));
    CHECK(range.rows != NULL);
    return cfa_at(range.rows, frame - range.origin);
}

/* Two versions of a library may have code of the same size. */
CP_TEST(two_libraries_have_their_own_rows)
{
    void *object;

    build_library("one", 64);
    build_library("other", 96);
    CHECK_EQ(frame_in_library("one", &object), 64);
    CHECK_EQ(frame_in_library("other", &object), 96);
    CHECK_EQ(frame_in_library("one", &object), 64);
}

/* The new version has the place and the number of the old file. */
CP_TEST(a_library_that_was_written_over_has_rows_of_its_own)
{
    void *object;

    build_library("one", 64);
    build_library("other", 96);
    CHECK_EQ(frame_in_library("one", &object), 64);
    CHECK_EQ(dlclose(object), 0);
    cp__code_update();
    free(test_command(NULL, "cd %s && cat other.so > one.so", test_dir()));
    CHECK_EQ(frame_in_library("one", &object), 96);
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number

/* As on processors with a link register, the information says that the return address was not saved yet. The
 * code ahead makes a call that may never return, so the function has made its frame record before. */
extern const char early_code[] __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n"
        "early_code:\n"
        "\t.cfi_startproc simple\n"
        "\t.cfi_def_cfa " TEXT(CP__SP_NUMBER) ", 8\n"
                                              "\tnop\n"
                                              "\t.cfi_offset " TEXT(CP__RETURN_NUMBER) ", -8\n"
#if defined(__x86_64__)
                                                                                       "\tcall *%rax\n"
#elif defined(__aarch64__)
                                                                                       "\tblr x0\n"
#endif
                                                                                       "\tnop\n"
                                                                                       "\t.cfi_endproc\n"
                                                                                       "\t.popsection");

/* The information says that the caller's frame is below this function's own. */
extern const char backward_code[] __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n"
        "backward_code:\n"
        "\t.cfi_startproc simple\n"
        "\t.cfi_def_cfa " TEXT(CP__SP_NUMBER) ", -8\n"
                                              "\tnop\n"
                                              "\t.cfi_endproc\n"
                                              "\t.popsection");

enum { N_WORDS = 16, SP_AT = 4, FP_AT = 8 };
static uintptr_t words[N_WORDS];

/* Walks from code that was interrupted at pc. No word of the stack is an address of code, except the one that
 * the frame pointer tells. Returns the number of frames. */
static unsigned walk_from(const void *pc, uintptr_t slack, uintptr_t frames[8], unsigned *flags)
{
    struct cp__stack stack = {.lo = (uintptr_t)words, .hi = (uintptr_t)(words + N_WORDS), .slack = slack};
    const struct cp__registers regs = {
        .pc = (uintptr_t)pc, .sp = (uintptr_t)&words[SP_AT], .fp = (uintptr_t)&words[FP_AT]};

    for (unsigned i = 0; i < N_WORDS; i++)
        words[i] = 16;
    words[FP_AT + 1] = (uintptr_t)early_code + 1;
    cp__code_update();
    return cp__unwind_from_handler(&regs, &stack, NULL, frames, 8, flags, NULL);
}

CP_TEST(a_rule_that_comes_too_early_is_not_followed)
{
    uintptr_t frames[8];
    unsigned flags, n = walk_from(early_code, 0, frames, &flags);

    CHECK(n >= 2);
    CHECK_EQ(frames[1], words[FP_AT + 1]);
}

/* At the function's first instruction its information is right, and what stands there is no return
 * address. */
CP_TEST(a_chain_that_breaks_where_rows_should_lead_on_is_marked)
{
    uintptr_t frames[8];
    unsigned flags;

    CHECK_EQ(walk_from((const void *)(uintptr_t)walk_from, 0, frames, &flags), 1);
    CHECK((flags & CP__CHAIN_INCOMPLETE) != 0);
}

/* Where the first function of a G ends is known to some bytes only, and the stack pointer may be in them. */
CP_TEST(a_chain_that_breaks_near_the_end_of_a_stack_is_marked)
{
    uintptr_t frames[8];
    unsigned flags;

    CHECK_EQ(walk_from(backward_code, sizeof words, frames, &flags), 1);
    CHECK_EQ(flags, CP__CHAIN_INCOMPLETE);
}
