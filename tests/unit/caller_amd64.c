/*
 * amd64's part of caller_test: where cp__caller_from_handler() finds the return address for pieces of code
 * that the test makes up, and whether cp__decode_from_handler() finds the same lengths of instructions as
 * objdump.
 */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "runtime/unwind/code.h"
#include "runtime/unwind/unwind.h"
#include "tests/support/lone_page.h"

/* ---- Code ------------------------------------------------------------------------------------ */

#define LOST (-1)
enum { SP_AT = 8, FP_AT = 16, SAME = 0 };

/* A word of the stack has a value that tells its index. The stack pointer points to word 8, the frame pointer
 * to word 16. */
struct piece {
    const char *what;
    const char *code;
    size_t size;
    int return_at; /* the index of the word that has the return address */
    /* the index of the word that has the caller's frame pointer; SAME: the register still has it */
    int fp_at;
};
#define PIECE(what, code, return_at, fp_at)                                                                  \
    {                                                                                                        \
        what, code, sizeof(code) - 1, return_at, fp_at                                                       \
    }

static const struct piece pieces[] = {
    PIECE("ret", "\xc3", 8, SAME),
    PIECE("repz ret", "\xf3\xc3", 8, SAME),
    PIECE("bnd ret", "\xf2\xc3", 8, SAME),
    PIECE("ret $16", "\xc2\x10\x00", 8, SAME),
    PIECE("pop %rbp; ret", "\x5d\xc3", 9, 8),
    PIECE("leave; ret", "\xc9\xc3", 17, 16),
    PIECE("push %rbp; mov %rsp,%rbp", "\x55\x48\x89\xe5", 8, SAME),
    PIECE("push %rbp; mov %rsp,%rbp, the other way", "\x55\x48\x8b\xec", 8, SAME),
    PIECE("endbr64; push %rbp; xor %eax,%eax; mov %rsp,%rbp", "\xf3\x0f\x1e\xfa\x55\x31\xc0\x48\x89\xe5", 8,
          SAME),
    PIECE("mov %rsp,%rbp without a push; call", "\x48\x89\xe5\xe8\x00\x00\x00\x00", LOST, SAME),
    PIECE("push %r13; mov %rsp,%rbp; call", "\x41\x55\x48\x89\xe5\xe8\x00\x00\x00\x00", LOST, SAME),
    PIECE("push %r12; pop %r12; ret", "\x41\x54\x41\x5c\xc3", 8, SAME),
    PIECE("push %rbp; mov %rdi,%rbp; pop %rbp; ret", "\x55\x48\x89\xfd\x5d\xc3", 8, SAME),
    PIECE("push %rbx; pop %rbp; ret", "\x53\x5d\xc3", LOST, SAME),
    PIECE("add $24,%rsp; ret", "\x48\x83\xc4\x18\xc3", 11, SAME),
    PIECE("sub $1024,%rsp; add $1024,%rsp; ret",
          "\x48\x81\xec\x00\x04\x00\x00\x48\x81\xc4\x00\x04\x00\x00\xc3", 8, SAME),
    PIECE("sub $-128,%rsp; ret", "\x48\x83\xec\x80\xc3", 24, SAME),
    PIECE("cmp $1,%rsp; ret", "\x48\x83\xfc\x01\xc3", 8, SAME),
    PIECE("and $-16,%rsp; ret", "\x48\x83\xe4\xf0\xc3", 8, SAME),
    PIECE("and $-16,%esp; ret", "\x83\xe4\xf0\xc3", LOST, SAME),
    PIECE("add $8,%esp; ret", "\x83\xc4\x08\xc3", LOST, SAME),
    PIECE("add $8,%r12; ret", "\x49\x83\xc4\x08\xc3", 8, SAME),
    PIECE("sub %rax,%rsp; ret", "\x48\x29\xc4\xc3", LOST, SAME),
    PIECE("add %rax,%rsp, the other way; ret", "\x48\x03\xe0\xc3", LOST, SAME),
    PIECE("cmp %rax,%rsp; test %rsp,%rsp; ret", "\x48\x39\xc4\x48\x85\xe4\xc3", 8, SAME),
    PIECE("lea 8(%rsp),%rsp; ret", "\x48\x8d\x64\x24\x08\xc3", 9, SAME),
    PIECE("lea -8(%rbp),%rsp; pop %rbx; pop %rbp; ret", "\x48\x8d\x65\xf8\x5b\x5d\xc3", 17, 16),
    PIECE("lea -8(%r10),%rsp; ret", "\x49\x8d\x62\xf8\xc3", LOST, SAME),
    PIECE("lea (%rsp,%rax),%rsp; ret", "\x48\x8d\x24\x04\xc3", LOST, SAME),
    PIECE("lea 8(%rsp,%rax),%rdx; ret", "\x48\x8d\x54\x04\x08\xc3", 8, SAME),
    PIECE("mov %rbp,%rsp; pop %rbp; ret", "\x48\x89\xec\x5d\xc3", 17, 16),
    PIECE("mov %rbp,%rsp, the other way; pop %rbp; ret", "\x48\x8b\xe5\x5d\xc3", 17, 16),
    PIECE("mov %rdi,%rsp; ret", "\x48\x89\xfc\xc3", LOST, SAME),
    PIECE("mov %rsp,%rdi; ret", "\x48\x89\xe7\xc3", 8, SAME),
    PIECE("mov (%rsi),%rsp; ret", "\x48\x8b\x26\xc3", LOST, SAME),
    PIECE("mov (%rsp),%rdi; ret", "\x48\x8b\x3c\x24\xc3", 8, SAME),
    PIECE("mov 8(%rsp),%rbp; add $16,%rsp; ret", "\x48\x8b\x6c\x24\x08\x48\x83\xc4\x10\xc3", 10, 9),
    PIECE("pop %rsp; ret", "\x5c\xc3", LOST, SAME),
    PIECE("popw %ax; ret", "\x66\x58\xc3", LOST, SAME),
    PIECE("xchg %rax,%rsp; ret", "\x48\x94\xc3", LOST, SAME),
    PIECE("xchg %rdx,%rsp; ret", "\x48\x87\xe2\xc3", LOST, SAME),
    PIECE("xchg %rax,%r12; ret", "\x49\x94\xc3", 8, SAME),
    PIECE("mov $1,%esp; ret", "\xbc\x01\x00\x00\x00\xc3", LOST, SAME),
    PIECE("mov $1,%rsp; ret", "\x48\xc7\xc4\x01\x00\x00\x00\xc3", LOST, SAME),
    PIECE("imul $3,%rax,%rsp; ret", "\x48\x6b\xe0\x03\xc3", LOST, SAME),
    PIECE("inc %rsp; ret", "\x48\xff\xc4\xc3", LOST, SAME),
    PIECE("push $1; push $256; push 8(%rdi); pushf; popf; add $24,%rsp; ret",
          "\x6a\x01\x68\x00\x01\x00\x00\xff\x77\x08\x9c\x9d\x48\x83\xc4\x18\xc3", 8, SAME),
    PIECE(
        "vzeroupper; vpxor; evex; movabs twice; test $; imul; rep movsb; ret",
        "\xc5\xf8\x77\xc4\xe2\x79\x00\xc1\x62\xf1\x7c\x48\x10\x47\x01\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08"
        "\xf7\xc7\x01\x00\x00\x00\x66\x69\xc0\x01\x00\xf3\xa4\xc3",
        8, SAME),
    PIECE("call; ret", "\xe8\x00\x00\x00\x00\xc3", LOST, SAME),
    PIECE("call *%rax; ret", "\xff\xd0\xc3", LOST, SAME),
    PIECE("syscall; ret", "\x0f\x05\xc3", LOST, SAME),
    PIECE("ud2", "\x0f\x0b", LOST, SAME),
    PIECE("int3", "\xcc", LOST, SAME),
    PIECE("hlt", "\xf4", LOST, SAME),
    PIECE("xbegin; ret", "\xc7\xf8\x00\x00\x00\x00\xc3", LOST, SAME),
    PIECE("jmp *%rax", "\xff\xe0", LOST, SAME),
    PIECE("jmp *%rax; ret", "\xff\xe0\xc3", LOST, SAME),
    PIECE("jmp *(%rip)", "\xff\x25\x00\x00\x00\x00", LOST, SAME),
    PIECE("jmp over what is none; ret", "\xeb\x01\x06\xc3", 8, SAME),
    PIECE("jmp over what is none, far; ret", "\xe9\x01\x00\x00\x00\x06\xc3", 8, SAME),
    PIECE("je over ud2; ret", "\x74\x02\x0f\x0b\xc3", 8, SAME),
    PIECE("je, far, over a call; pop %rbp; ret", "\x0f\x84\x05\x00\x00\x00\xe8\x00\x00\x00\x00\x5d\xc3", 9,
          8),
    PIECE("a loop that a je leaves", "\x74\x02\xeb\xfc\xc3", 8, SAME),
    PIECE("a loop that has two ways, the inner one closed", "\x74\x06\x75\x02\xff\xc0\xeb\xf8\xc3", 8, SAME),
    PIECE("eight jne over a call, the last one farther",
          "\x75\x0e\x75\x0c\x75\x0a\x75\x08\x75\x06\x75\x04\x75\x02\x75\x05\xe8\x00\x00\x00\x00\xc3", 8,
          SAME),
    PIECE("nine jne: the walk remembers eight",
          "\x75\x10\x75\x0e\x75\x0c\x75\x0a\x75\x08\x75\x06\x75\x04\x75\x02\x75\x05\xe8\x00\x00\x00\x00\xc3",
          LOST, SAME),
    PIECE("a loop for ever", "\xeb\xfe", LOST, SAME),
    PIECE("a loop for ever, with je", "\x74\xfe\xeb\xfc", LOST, SAME),
};

static uintptr_t *stack;
static char *code_end;

static struct cp__registers make_stack(void)
{
    stack = lone_page();
    for (uintptr_t i = 0; i < WORDS; i++)
        stack[i] = 0x100000 + i;
    code_end = (char *)lone_page() + WORDS * sizeof(uintptr_t);
    return (struct cp__registers){.sp = (uintptr_t)&stack[SP_AT], .fp = (uintptr_t)&stack[FP_AT]};
}

static enum cp__caller find_caller(const struct cp__registers *regs, uintptr_t hi,
                                   struct cp__registers *caller)
{
    return cp__caller_from_handler(regs, hi, cp__text_at_from_handler, caller);
}

static void check_piece(const struct piece *piece, struct cp__registers regs)
{
    struct cp__registers caller;
    bool found;

    regs.pc = (uintptr_t)memcpy(code_end - piece->size, piece->code, piece->size);
    found = find_caller(&regs, (uintptr_t)&stack[WORDS], &caller);
    CHECKF(found == (piece->return_at != LOST), "%s: found %d", piece->what, found);
    if (!found)
        return;
    CHECKF(caller.pc == 0x100000u + (unsigned)piece->return_at, "%s: %#lx", piece->what, caller.pc);
    CHECKF(caller.sp == (uintptr_t)&stack[piece->return_at + 1], "%s: %#lx", piece->what, caller.sp);
    CHECKF(caller.fp == (piece->fp_at == SAME ? regs.fp : stack[piece->fp_at]), "%s: %#lx", piece->what,
           caller.fp);
}

CP_TEST(pieces_of_code_tell_who_called)
{
    struct cp__registers regs = make_stack();

    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        check_piece(&pieces[i], regs);
}

/* The program is interrupted between the push and the mov: the word on top of the stack is the caller's frame
 * pointer. */
CP_TEST(half_a_prologue_tells_who_called)
{
    const struct piece piece = PIECE("xor %eax,%eax; mov %rsp,%rbp", "\x31\xc0\x48\x89\xe5", 9, 8);
    struct cp__registers regs = make_stack();

    stack[SP_AT] = regs.fp;
    check_piece(&piece, regs);
}

/* Code that aligns its stack stores the old stack pointer where the new one points. */
CP_TEST(a_popped_stack_pointer_tells_who_called)
{
    const struct piece piece = PIECE("pop %rsp; pop %rbp; ret", "\x5c\x5d\xc3", 31, 30);
    struct cp__registers regs = make_stack();

    stack[SP_AT] = (uintptr_t)&stack[30];
    check_piece(&piece, regs);
}

/* Returns what the code tells if the word on top of the stack is behind a call, or is the call itself. */
static enum cp__caller told_by(const char *code, size_t size, bool is_behind_call)
{
    struct cp__registers regs = make_stack(), caller;
    char *calls = lone_page();

    memcpy(calls + 16, "\xff\x90\x38\x06\x00\x00", 6); /* call *0x638(%rax) */
    stack[SP_AT] = (uintptr_t)calls + 16 + (is_behind_call ? 6 : 0);
    regs.pc = (uintptr_t)memcpy(code_end - size, code, size);
    return find_caller(&regs, (uintptr_t)&stack[WORDS], &caller);
}
#define TOLD_BY(code, is_behind_call) told_by(code, sizeof(code) - 1, is_behind_call)

/* Behind a jump through a table of distances lies one of its targets. */
CP_TEST(a_jump_through_a_table_does_not_end_the_walk)
{
    CHECK_EQ(TOLD_BY("\x4c\x01\xd0\xff\xe0\xc3", true), CP__CALLER_FOUND); /* add %r10,%rax; jmp *%rax; ret */
    CHECK_EQ(TOLD_BY("\x4c\x03\xd0\x41\xff\xe2\xc3", true), CP__CALLER_FOUND); /* the other way, into r10 */
    CHECK_EQ(TOLD_BY("\x4c\x01\xd0\xff\xe0\xc3", false), CP__CALLER_UNKNOWN);
    CHECK_EQ(TOLD_BY("\x4c\x01\xd0\xff\xe2\xc3", true), CP__CALLER_UNKNOWN);     /* jmp *%rdx */
    CHECK_EQ(TOLD_BY("\x44\x01\xd0\xff\xe0\xc3", true), CP__CALLER_UNKNOWN);     /* add %r10d,%eax */
    CHECK_EQ(TOLD_BY("\x4c\x01\xd0\xff\xe0\x90\xc3", true), CP__CALLER_UNKNOWN); /* filling */
    CHECK_EQ(TOLD_BY("\x4c\x01\xd0\xff\x20\xc3", true), CP__CALLER_UNKNOWN);     /* jmp *(%rax) */
}

/* The sum has been made already when the jump is interrupted. */
CP_TEST(an_interrupted_jump_through_a_table_is_known_by_the_code_before)
{
    const char code[] = "\x4c\x01\xd0\xff\xe0\xc3", other[] = "\x4c\x01\xd1\xff\xe0\xc3";
    struct cp__registers regs = make_stack(), caller;
    char *calls = lone_page();

    memcpy(calls, "\x00\x00\xe8\x00\x00\x00\x00", 7); /* call */
    stack[SP_AT] = (uintptr_t)calls + 7;
    regs.pc = (uintptr_t)memcpy(code_end - 6, code, 6) + 3;
    CHECK_EQ(find_caller(&regs, (uintptr_t)&stack[WORDS], &caller), CP__CALLER_FOUND);
    memcpy(code_end - 6, other, 6); /* add %r10,%rcx */
    CHECK_EQ(find_caller(&regs, (uintptr_t)&stack[WORDS], &caller), CP__CALLER_UNKNOWN);
}

/* The first code of a program or a green thread halts behind a call. */
CP_TEST(code_that_halts_behind_a_call_has_no_caller)
{
    CHECK_EQ(TOLD_BY("\x31\xff\xe8\x00\x00\x00\x00\xf4", true), CP__CALLER_NONE);
    CHECK_EQ(TOLD_BY("\xff\xd0\xf4", true), CP__CALLER_NONE);
    CHECK_EQ(TOLD_BY("\xff\xd0\x90", true), CP__CALLER_UNKNOWN);
    CHECK_EQ(TOLD_BY("\x74\x00\xff\xd0\xf4", true), CP__CALLER_UNKNOWN); /* there is another way */
}

/* A return address is not taken from below the stack pointer or from a word that crosses the stack's end. */
CP_TEST(return_addresses_outside_the_stack_are_not_taken)
{
    struct cp__registers caller;
    const struct piece inside = PIECE("pop; ret", "\x58\xc3", WORDS - 1, SAME);
    const struct piece outside = PIECE("pop; pop; ret", "\x58\x58\xc3", LOST, SAME);
    const struct piece below = PIECE("sub $8,%rsp; ret", "\x48\x83\xec\x08\xc3", LOST, SAME);
    const struct piece leave = PIECE("leave; ret", "\xc9\xc3", LOST, SAME);
    const struct piece misaligned = PIECE("ret", "\xc3", LOST, SAME);
    struct cp__registers regs = make_stack();

    regs.sp = (uintptr_t)&stack[WORDS - 2];
    check_piece(&inside, regs);
    check_piece(&outside, regs);
    check_piece(&below, regs);
    regs.fp = (uintptr_t)&stack[WORDS - 1];
    check_piece(&leave, regs);
    regs.fp = (uintptr_t)&stack[WORDS - 3];
    check_piece(&leave, regs);
    regs.fp = UINTPTR_MAX - 7;
    check_piece(&leave, regs);
    regs.sp = (uintptr_t)&stack[WORDS - 1];
    regs.pc = (uintptr_t)(code_end - 1); /* the last instruction of each piece, a ret */
    CHECK(find_caller(&regs, (uintptr_t)&stack[WORDS], &caller));
    /* only half of the word is on the stack */
    CHECK(!find_caller(&regs, (uintptr_t)&stack[WORDS] - 4, &caller));
    regs.sp += 1;
    check_piece(&leave, regs);
    check_piece(&misaligned, regs);
}

static void check_stub(const char *block, size_t at, bool is_stub)
{
    const struct piece piece = {"a stub", block, 16, is_stub ? 8 : LOST, SAME};
    struct cp__registers regs = make_stack();
    struct cp__registers caller;

    check_piece(&piece, regs); /* from the piece's first instruction */
    regs.pc = (uintptr_t)(code_end - 16 + at);
    CHECK_EQ(find_caller(&regs, (uintptr_t)&stack[WORDS], &caller) == CP__CALLER_FOUND, is_stub);
}

CP_TEST(stubs_of_linkers_are_known)
{
    check_stub("\xff\x25\x01\x02\x03\x04\x68\x01\x00\x00\x00\xe9\x01\x02\x03\x04", 0, true);
    check_stub("\xff\x25\x01\x02\x03\x04\x66\x90\xff\x25\x01\x02\x03\x04\x66\x90", 8, true);
    check_stub("\xf3\x0f\x1e\xfa\xff\x25\x01\x02\x03\x04\x66\x0f\x1f\x44\x00\x00", 4, true);
    check_stub("\xf3\x0f\x1e\xfa\xf2\xff\x25\x01\x02\x03\x04\x0f\x1f\x44\x00\x00", 4, true);
    check_stub("\xff\x25\x01\x02\x03\x04\x66\x90\x55\x48\x89\xe5\x66\x90\x66\x90", 0, false);
    check_stub("\xff\x25\x01\x02\x03\x04\x68\x01\x00\x00\x00\xe8\x01\x02\x03\x04", 0, false);
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* Whether the decoder may refuse an instruction that objdump calls name: one that no function runs on its way
 * to its end, or bytes that are no instruction. */
static bool may_be_refused(const char *name)
{
    static const char *const refused[] = {"(bad)", "syscall", "ud2", "hlt", "int3"};

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (strncmp(name, refused[i], strlen(refused[i])) == 0)
            return true;
    return false;
}

/* Parses a line of objdump: the address, the bytes in hexadecimal, and the name. Returns the number of bytes;
 * 0 if the line is something else. */
static size_t parse_line(const char *line, uint8_t *bytes, const char **name)
{
    const char *at = strchr(line, '\t');
    size_t n = 0;
    unsigned byte;
    int taken;

    if (line[0] != ' ' || at == NULL)
        return 0;
    while (n < 16 && sscanf(at, " %2x%n", &byte, &taken) == 1 && at[0] != '\0') {
        bytes[n++] = (uint8_t)byte;
        at += taken;
        if (at[0] != ' ' || at[1] == ' ' || at[1] == '\t')
            break;
    }
    *name = strchr(at, '\t') == NULL ? "" : strchr(at, '\t') + 1;
    return n;
}

struct tally {
    long decoded;
    long refused;
};

static void check_line(const char *line, struct tally *tally)
{
    uint8_t bytes[32] = {0};
    struct cp__instruction in;
    const char *name;
    size_t n = parse_line(line, bytes, &name);

    if (n == 0)
        return;
    if (!cp__decode_from_handler(bytes, &in)) {
        tally->refused++;
        CHECKF(may_be_refused(name), "refused: %s", line);
        return;
    }
    tally->decoded++;
    if (bytes[0] == 0x9b) /* fwait, which objdump joins with the next instruction */
        return;
    CHECKF(in.end == bytes + n, "%d bytes: %s", (int)(in.end - bytes), line);
}

/* Checks that every instruction of an object has the length that objdump finds. */
static long check_object(const char *path)
{
    struct tally tally = {0, 0};
    char command[600];
    char line[600];
    FILE *pipe;

    snprintf(command, sizeof command, "objdump -d -w --insn-width=16 '%s'", path);
    pipe = popen(command, "re");
    CHECK(pipe != NULL);
    while (fgets(line, sizeof line, pipe) != NULL)
        check_line(line, &tally);
    CHECK_EQ(pclose(pipe), 0);
    printf("%s: %ld instructions, and %ld refused\n", path, tally.decoded, tally.refused);
    return tally.decoded;
}

CP_TEST(instructions_of_libraries_are_decoded)
{
    char path[PATH_MAX];
    Dl_info library;
    long n;

    CHECK(dladdr(gnu_get_libc_version(), &library) != 0);
    n = check_object(library.dli_fname);
    CHECK(realpath("/proc/self/exe", path) != NULL);
    n += check_object(path);
    CHECK(n > 300000);
}

/* The decoder does not read a byte behind the instruction: each instruction ends where a page without access
 * begins. */
CP_TEST(decoding_ends_where_memory_ends)
{
    uint8_t *end = (uint8_t *)lone_page() + WORDS * sizeof(uintptr_t);
    uint64_t random = 88172645463325252;
    struct cp__instruction in;

    for (int i = 0; i < 2000000; i++) {
        uint8_t bytes[32] = {0};
        size_t size;

        for (size_t j = 0; j < 24; j++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            bytes[j] = (uint8_t)(random >> 32);
        }
        if (!cp__decode_from_handler(bytes, &in))
            continue;
        size = (size_t)(in.end - bytes);
        CHECK(size > 0 && size < 32);
        memcpy(end - size, bytes, size);
        CHECK(cp__decode_from_handler(end - size, &in) && in.end == end);
    }
}
