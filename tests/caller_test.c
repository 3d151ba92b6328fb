/*
 * Unwinding of what tests make up: pieces of code, with the return address in a known place, and stacks of
 * which every word may be anything. All of it lies at the end of a page behind which nothing is mapped.
 */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/unwind.h"
#include "test.h"

#if defined(__x86_64__) && defined(CP__READS_CODE)
#include "decode.h"
#endif
#if TEST_ASAN
#include <sanitizer/asan_interface.h>
#endif

#define WORDS 512 /* a page of them */

/* A page between two that nothing may touch. */
static void *lone_page(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    CHECK_EQ(page, WORDS * sizeof(uintptr_t));
    CHECK_EQ(mprotect(memory + page, page, PROT_READ | PROT_WRITE), 0);
    return memory + page;
}

/* ---- Code ------------------------------------------------------------------------------------ */

#if defined(__x86_64__) && defined(CP__READS_CODE)
#define LOST (-1)
enum { SP_AT = 8, FP_AT = 16, SAME = 0 };

/* Words of the stack are what their place tells; sp is at word 8, the frame pointer at word 16. */
struct piece {
    const char *what;
    const char *code;
    size_t size;
    int return_at; /* the word with the return address */
    int fp_at;     /* the word with the caller's frame pointer; SAME: it is what it was */
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
    PIECE("and $-16,%rsp; ret", "\x48\x83\xe4\xf0\xc3", LOST, SAME),
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
    PIECE("jmp *(%rip)", "\xff\x25\x00\x00\x00\x00", LOST, SAME),
    PIECE("jmp over what is none; ret", "\xeb\x01\x06\xc3", 8, SAME),
    PIECE("jmp over what is none, far; ret", "\xe9\x01\x00\x00\x00\x06\xc3", 8, SAME),
    PIECE("je over ud2; ret", "\x74\x02\x0f\x0b\xc3", 8, SAME),
    PIECE("je, far, over a call; pop %rbp; ret", "\x0f\x84\x05\x00\x00\x00\xe8\x00\x00\x00\x00\x5d\xc3", 9,
          8),
    PIECE("a loop that a je leaves", "\x74\x02\xeb\xfc\xc3", 8, SAME),
    PIECE("a loop that has two ways, the inner one closed", "\x74\x06\x75\x02\xff\xc0\xeb\xf8\xc3", 8, SAME),
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

static void check_piece(const struct piece *piece, struct cp__registers regs)
{
    struct cp__registers caller;
    bool found;

    regs.pc = (uintptr_t)memcpy(code_end - piece->size, piece->code, piece->size);
    found = cp__caller_from_handler(&regs, (uintptr_t)&stack[WORDS], &caller);
    CHECKF(found == (piece->return_at != LOST), "%s: found %d", piece->what, found);
    if (!found)
        return;
    CHECKF(caller.pc == 0x100000u + (unsigned)piece->return_at, "%s: %#lx", piece->what, caller.pc);
    CHECKF(caller.sp == (uintptr_t)&stack[piece->return_at + 1], "%s: %#lx", piece->what, caller.sp);
    CHECKF(caller.fp == (piece->fp_at == SAME ? regs.fp : stack[piece->fp_at]), "%s: %#lx", piece->what,
           caller.fp);
}

CP_TEST(pieces_of_code)
{
    struct cp__registers regs = make_stack();

    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        check_piece(&pieces[i], regs);
}

/* Between the push and the mov, where the word on top of the stack is the frame pointer. */
CP_TEST(half_a_prologue)
{
    const struct piece piece = PIECE("xor %eax,%eax; mov %rsp,%rbp", "\x31\xc0\x48\x89\xe5", 9, 8);
    struct cp__registers regs = make_stack();

    stack[SP_AT] = regs.fp;
    check_piece(&piece, regs);
}

/* Nothing below the stack pointer counts, nor what lies at the end. */
CP_TEST(return_addresses_outside)
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
    regs.pc = (uintptr_t)(code_end - 1); /* of every piece the last instruction: ret */
    CHECK(cp__caller_from_handler(&regs, (uintptr_t)&stack[WORDS], &caller));
    CHECK(!cp__caller_from_handler(&regs, (uintptr_t)&stack[WORDS] - 4, &caller)); /* half a word is none */
    regs.sp += 1;
    check_piece(&leave, regs);
    check_piece(&misaligned, regs);
}

static void check_stub(const char *block, size_t at, bool is_stub)
{
    const struct piece piece = {"a stub", block, 16, is_stub ? 8 : LOST, SAME};
    struct cp__registers regs = make_stack();
    struct cp__registers caller;

    check_piece(&piece, regs); /* from its first instruction */
    regs.pc = (uintptr_t)(code_end - 16 + at);
    CHECK_EQ(cp__caller_from_handler(&regs, (uintptr_t)&stack[WORDS], &caller), is_stub);
}

CP_TEST(stubs_of_linkers)
{
    check_stub("\xff\x25\x01\x02\x03\x04\x68\x01\x00\x00\x00\xe9\x01\x02\x03\x04", 0, true);
    check_stub("\xff\x25\x01\x02\x03\x04\x66\x90\xff\x25\x01\x02\x03\x04\x66\x90", 8, true);
    check_stub("\xf3\x0f\x1e\xfa\xff\x25\x01\x02\x03\x04\x66\x0f\x1f\x44\x00\x00", 4, true);
    check_stub("\xf3\x0f\x1e\xfa\xf2\xff\x25\x01\x02\x03\x04\x0f\x1f\x44\x00\x00", 4, true);
    check_stub("\xff\x25\x01\x02\x03\x04\x66\x90\x55\x48\x89\xe5\x66\x90\x66\x90", 0, false);
    check_stub("\xff\x25\x01\x02\x03\x04\x68\x01\x00\x00\x00\xe8\x01\x02\x03\x04", 0, false);
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* What no function meets on its way to its end, as objdump names it; and bytes that are no instructions. */
static bool may_be_refused(const char *name)
{
    static const char *const refused[] = {"(bad)", "syscall", "ud2", "hlt", "int3"};

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (strncmp(name, refused[i], strlen(refused[i])) == 0)
            return true;
    return false;
}

/* A line of objdump: address, bytes in hexadecimal, name. The number of bytes; 0 where it is no such line. */
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
    if (bytes[0] == 0x9b) /* which objdump takes together with the next one */
        return;
    CHECKF(in.end == bytes + n, "%d bytes: %s", (int)(in.end - bytes), line);
}

/* Every instruction of an object has the length that objdump finds. */
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

CP_TEST(instructions_of_libraries, .timeout_s = 60 * TEST_SLOWDOWN)
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

/* No byte behind an instruction is read, whatever it is. */
CP_TEST(decoding_at_the_end_of_memory)
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
#elif defined(__aarch64__) && defined(CP__READS_CODE)
/* Where the return address is, if not in a word of the stack. */
enum { LINK = -1, LOST = -2 };
/* Words of the stack are what their place tells; sp is at word 8, the frame pointer at word 16. */
enum { SP_AT = 8, FP_AT = 16, SAME = 0 };
#define IN_LINK 0x400000

struct code {
    const void *begin;
    size_t size;
};
/* Assembles. */
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

/* The words where the return address and the caller's frame pointer are (SAME: it is what it was), and where
 * the caller's stack pointer points. */
static void check_code(const char *what, struct code code, struct cp__registers regs, int return_at,
                       int fp_at, int sp_at)
{
    struct cp__registers caller;
    bool found;

    regs.pc = (uintptr_t)memcpy(code_end - code.size, code.begin, code.size);
    found = cp__caller_from_handler(&regs, (uintptr_t)&stack[WORDS], &caller);
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

CP_TEST(ways_out)
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

CP_TEST(ways_in)
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

CP_TEST(stack_pointers)
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

CP_TEST(ways_through)
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

/* Nothing below the stack pointer counts, nor what lies at the end. */
CP_TEST(return_addresses_outside)
{
    struct cp__registers regs = make_stack();
    struct cp__registers caller;

    regs.sp = (uintptr_t)&stack[WORDS - 2];
    PIECE("ldp x29, x30, [sp], #16; ret", WORDS - 1, WORDS - 2, WORDS);
    LOSES("ldp x29, x30, [sp, #8]; ret");
    PIECE("ldr x30, [sp, #8]; ret", WORDS - 1, SAME, WORDS - 2);
    regs.pc = (uintptr_t)(code_end - 8);
    CHECK(!cp__caller_from_handler(&regs, (uintptr_t)&stack[WORDS] - 4, &caller)); /* half a word is none */
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
    regs.pc = (uintptr_t)(code_end - 2); /* of every piece the last instruction: ret */
    CHECK(!cp__caller_from_handler(&regs, (uintptr_t)&stack[WORDS], &caller));
    regs.pc -= 2;
    CHECK(cp__caller_from_handler(&regs, (uintptr_t)&stack[WORDS], &caller));
}

static void check_stub(const char *what, struct code code, bool is_stub)
{
    struct cp__registers regs = make_stack();
    struct cp__registers caller;

    for (size_t at = 0; at < code.size; at += 4) { /* each of its instructions */
        regs.pc = (uintptr_t)memcpy(code_end - code.size, code.begin, code.size) + at;
        CHECKF(cp__caller_from_handler(&regs, (uintptr_t)&stack[WORDS], &caller) == is_stub, "%s: +%zu", what,
               at);
        CHECK(!is_stub || caller.pc == IN_LINK);
    }
}
#define STUB(text, is_stub) check_stub(text, CODE(text), is_stub)

CP_TEST(stubs_of_linkers)
{
    STUB("adrp x16, .; ldr x17, [x16, #16]; add x16, x16, #16; br x17", true);
    STUB("hint #34; adrp x16, .; ldr x17, [x16, #16]; add x16, x16, #16; br x17", true);
    STUB("adrp x16, .; add x16, x16, #16; br x16", true);
    STUB("adrp x16, .; ldr x17, [x16, #16]; add x16, x16, #16; br x16", false);
    STUB("adrp x16, .; ldr x17, [x0, #16]; add x16, x16, #16; br x17", false);
    STUB("adrp x16, .; ldr x17, [x16, #16]; add x17, x17, #16; br x17", false);
    STUB("adrp x17, .; add x16, x16, #16; br x16", false);
}

/* What stands before a page may not be there. */
CP_TEST(a_stub_that_begins_a_page)
{
    struct cp__registers regs = make_stack();
    struct cp__registers caller;
    uint32_t *page = lone_page();

    page[0] = 0xd61f0220; /* br x17 */
    regs.pc = (uintptr_t)page;
    CHECK(!cp__caller_from_handler(&regs, (uintptr_t)&stack[WORDS], &caller));
}
#endif

/* ---- Stacks ---------------------------------------------------------------------------------- */

/* Code that tells nothing. */
#ifdef __aarch64__
static const uint32_t call[] = {0x94000000, 0x94000000};
#else
static const unsigned char call[] = {0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0};
#endif

static uintptr_t frames[CP_MAX_FRAMES];
static unsigned flags;

static unsigned unwind(uintptr_t pc, uintptr_t sp, uintptr_t fp, uintptr_t lo, uintptr_t hi)
{
    const struct cp__registers regs = {.pc = pc, .sp = sp, .fp = fp};
    const struct cp__stack bounds = {.lo = lo, .hi = hi};

    return cp__unwind_from_handler(&regs, &bounds, frames, CP_MAX_FRAMES, &flags);
}

/* A page of frames: each word but the last is the address of the next one, so that anything is a frame. */
static uintptr_t *page_of_frames(void)
{
    uintptr_t *words = lone_page();

    for (int i = 0; i < WORDS; i++)
        words[i] = i % 2 == 0 ? (uintptr_t)&words[i + 2] : 0x200000 + (uintptr_t)i;
    words[WORDS - 2] = 0;
    return words;
}

CP_TEST(frame_pointers_of_all_kinds)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS), pc = (uintptr_t)call;
    uintptr_t sp = (uintptr_t)&words[100];
    const uintptr_t bad[] = {0,
                             1,
                             8,
                             lo,
                             sp - 8,
                             sp - 16,
                             sp + 1,
                             sp + 4,
                             hi - 8,
                             hi - 15,
                             hi - 1,
                             hi,
                             hi + 8,
                             lo - 8,
                             UINTPTR_MAX,
                             UINTPTR_MAX - 7,
                             UINTPTR_MAX - 15,
                             (uintptr_t)1 << 63};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECKF(unwind(pc, sp, bad[i], lo, hi) == 1, "frame pointer %#lx of [%#lx, %#lx)", bad[i], lo, hi);
        CHECK_EQ(frames[0], pc);
        CHECK((flags & CP_SAMPLE_TRUNCATED) == 0);
    }
    CHECK_EQ(unwind(pc, sp, hi - 16, lo, hi), 2);
    CHECK_EQ(frames[1], 0x200000 + WORDS - 1);
    CHECK_EQ(unwind(pc, sp, sp, lo, hi), 1 + (WORDS - 100) / 2);
}

CP_TEST(bounds_of_all_kinds)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS), pc = (uintptr_t)call;

    CHECK_EQ(unwind(pc, lo, lo, 0, 0), 1);
    CHECK_EQ(unwind(pc, 0, 0, 0, 0), 1);
    CHECK_EQ(unwind(pc, 0, 0, 0, 8), 1);
    CHECK_EQ(unwind(pc, lo - 8, lo, lo, hi), 1); /* the stack pointer is outside */
    CHECK_EQ(unwind(pc, hi, lo, lo, hi), 1);
    CHECK_EQ(unwind(pc, UINTPTR_MAX, lo, lo, hi), 1);
    CHECK_EQ(unwind(pc, hi - 8, hi - 8, lo, hi), 1);
    CHECK_EQ(unwind(pc, lo, lo, lo, lo + 15), 1); /* no room for a frame */
    CHECK_EQ(unwind(pc, lo, lo, lo, lo + 16), 2);
    CHECK_EQ(unwind(pc, UINTPTR_MAX - 31, UINTPTR_MAX - 15, UINTPTR_MAX - 63, UINTPTR_MAX - 15), 1);
}

/* The interrupted instruction's bytes are not looked at where there can be none. */
CP_TEST(program_counters_of_all_kinds)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS);
    const uintptr_t bad[] = {0, 1, 4095, (uintptr_t)1 << 63, 0xffffffffff600000, UINTPTR_MAX, lo, hi - 1};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ(unwind(bad[i], lo, lo, lo, hi), 1);
        CHECK_EQ(frames[0], bad[i]);
    }
}

/* A return address that is none ends the chain. */
CP_TEST(words_that_are_no_return_addresses)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS);
    const uintptr_t bad[] = {0, 4095, lo, hi - 8, (uintptr_t)1 << 63, UINTPTR_MAX};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        words[5] = bad[i];
        CHECK_EQ(unwind((uintptr_t)call, lo, lo, lo, hi), 3);
    }
}

CP_TEST(circles)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS), pc = (uintptr_t)call;
    const uintptr_t back[] = {(uintptr_t)&words[20], (uintptr_t)&words[18], (uintptr_t)&words[0], lo - 16,
                              (uintptr_t)&words[21] + 4};

    for (size_t i = 0; i < sizeof back / sizeof back[0]; i++) {
        words[20] = back[i];
        CHECK_EQ(unwind(pc, lo, lo, lo, hi), 12);
        CHECK((flags & CP_SAMPLE_TRUNCATED) == 0);
    }
    words[20] = (uintptr_t)&words[21]; /* overlaps */
    CHECK_EQ(unwind(pc, lo, lo, lo, hi), 12);
}

CP_TEST(chains_of_any_length)
{
    uintptr_t *words = lone_page();
    uintptr_t *two = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t lo = (uintptr_t)two, hi = lo + 16384;

    (void)words;
    for (unsigned length = 0; length < 600; length++) {
        unsigned n = length < CP_MAX_FRAMES - 1 ? length + 1 : CP_MAX_FRAMES;

        memset(two, 0, 16384);
        for (unsigned i = 0; i < length; i++) {
            two[2 * i] = (uintptr_t)&two[2 * i + 2];
            two[2 * i + 1] = 0x300000 + i;
        }
        CHECK_EQ(unwind((uintptr_t)call, lo, lo, lo, hi), n);
        CHECK_EQ((flags & CP_SAMPLE_TRUNCATED) != 0, length + 1 > CP_MAX_FRAMES);
        for (unsigned i = 1; i < n; i++)
            CHECK_EQ(frames[i], 0x300000 + i - 1);
    }
}

/* Stacks of random words that are more or less like frames: whatever is found lies where it may. */
CP_TEST(stacks_of_random_words)
{
    uintptr_t *words = lone_page();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS);

    for (unsigned seed = 1; seed < 20000; seed++) {
        uintptr_t sp, fp;

        srandom(seed);
        for (int i = 0; i < WORDS; i++) {
            long r = random();

            words[i] = r % 4 == 0   ? lo + (uintptr_t)random() % (hi - lo + 64)
                       : r % 4 == 1 ? lo + (uintptr_t)(i * 8 + random() % 32 * 8)
                                    : (uintptr_t)random() << (random() % 33);
        }
        sp = lo + (uintptr_t)random() % (hi - lo);
        fp = sp + (uintptr_t)random() % 256 / 8 * 8;
        CHECK(unwind((uintptr_t)call, sp, fp, lo, hi) >= 1);
        for (uintptr_t below = 0; below < 8; below++) /* with as little stack as there can be */
            unwind((uintptr_t)call, hi - below, hi - below, lo, hi);
    }
}

#if TEST_ASAN
/* AddressSanitizer fences variables in the frames of others; a chain goes through. */
CP_TEST(fenced_stacks)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS);

    __asan_poison_memory_region(words, WORDS * sizeof *words);
    CHECK_EQ(unwind((uintptr_t)call, lo, lo, lo, hi), CP_MAX_FRAMES);
    __asan_unpoison_memory_region(words, WORDS * sizeof *words);
}
#endif
