/* The rows of mapped objects, compared at every address with elfutils' reading of the same call-frame
 * information; and information that the tests make up. */
#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/arch.h"
#include "runtime/unwind/cache.h"
#include "runtime/unwind/code.h"
#include "runtime/unwind/objects.h"
#include "runtime/unwind/rows.h"
#include "runtime/unwind/step.h"
#include "tests/support/test.h"

/* ---- What elfutils says ---------------------------------------------------------------------- */

/* One of the three things that a rule tells, in words that both readers can be translated to. */
struct said {
    enum { NOTHING, REGISTER_PLUS, SAVED_AT, EXPRESSION, IN_REGISTER, SAME, UNDEFINED } kind;
    long reg;
    long offset;
    size_t n;
    uint8_t bytes[256];
};

static void put_leb(struct said *said, int64_t value, bool is_signed)
{
    for (;;) {
        uint8_t byte = (uint8_t)(value & 0x7f);

        value = is_signed ? value >> 7 : (int64_t)((uint64_t)value >> 7);
        if (is_signed ? (value == 0 && byte < 0x40) || (value == -1 && byte >= 0x40) : value == 0) {
            said->bytes[said->n++] = byte;
            return;
        }
        said->bytes[said->n++] = byte | 0x80;
    }
}

static void put_operations(struct said *said, const Dwarf_Op *ops, size_t n)
{
    said->kind = EXPRESSION;
    for (size_t i = 0; i < n && said->n < 200; i++) {
        said->bytes[said->n++] = ops[i].atom;
        if (ops[i].atom >= DW_OP_breg0 && ops[i].atom <= DW_OP_breg31)
            put_leb(said, (int64_t)ops[i].number, true);
        else if (ops[i].atom == DW_OP_plus_uconst)
            put_leb(said, (int64_t)ops[i].number, false);
        else if (ops[i].atom >= DW_OP_const1u && ops[i].atom <= DW_OP_const1s)
            said->bytes[said->n++] = (uint8_t)ops[i].number;
    }
}

static struct said cfa_by_elfutils(Dwarf_Frame *frame)
{
    struct said said = {.kind = NOTHING};
    Dwarf_Op *ops;
    size_t n;

    if (dwarf_frame_cfa(frame, &ops, &n) != 0 || n == 0)
        return said;
    if (n == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31)
        return (struct said){
            .kind = REGISTER_PLUS, .reg = ops[0].atom - DW_OP_breg0, .offset = (long)ops[0].number};
    if (n == 1 && ops[0].atom == DW_OP_bregx)
        return (struct said){
            .kind = REGISTER_PLUS, .reg = (long)ops[0].number, .offset = (long)ops[0].number2};
    put_operations(&said, ops, n);
    return said;
}

static struct said register_by_elfutils(Dwarf_Frame *frame, int reg)
{
    struct said said = {.kind = NOTHING};
    Dwarf_Op memory[3], *ops;
    size_t n;

    if (dwarf_frame_register(frame, reg, memory, &ops, &n) != 0)
        return said;
    if (n == 0)
        return (struct said){.kind = ops == memory ? UNDEFINED : SAME};
    if (ops[n - 1].atom == DW_OP_stack_value)
        return said;
    if (n == 1 && ops[0].atom == DW_OP_regx)
        return (struct said){.kind = IN_REGISTER, .reg = (long)ops[0].number};
    if (n <= 2 && ops[0].atom == DW_OP_call_frame_cfa && (n == 1 || ops[1].atom == DW_OP_plus_uconst))
        return (struct said){.kind = SAVED_AT, .offset = n == 1 ? 0 : (long)ops[1].number};
    CHECK_EQ(ops[0].atom, DW_OP_call_frame_cfa);
    put_operations(&said, ops + 1, n - 1);
    return said;
}

/* ---- What the rows say ----------------------------------------------------------------------- */

static struct said expression_at(const struct cp__rows *rows, int32_t place)
{
    struct said said = {.kind = EXPRESSION, .n = rows->expressions[place]};

    memcpy(said.bytes, rows->expressions + place + 1, said.n);
    return said;
}

static struct said cfa_by_rows(const struct cp__rows *rows, const struct cp__rule *rule)
{
    if (rule->cfa_from == CP__CFA_UNKNOWN)
        return (struct said){.kind = NOTHING};
    if (rule->cfa_from == CP__CFA_EXPRESSION)
        return expression_at(rows, rule->cfa);
    return (struct said){.kind = REGISTER_PLUS, .reg = rule->cfa_from, .offset = rule->cfa};
}

static struct said register_by_rows(const struct cp__rows *rows, int how, int32_t value)
{
    switch (how) {
    case CP__SAME:
        return (struct said){.kind = SAME};
    case CP__AT:
        return (struct said){.kind = SAVED_AT, .offset = value};
    case CP__AT_ADDRESS:
        return expression_at(rows, value);
    case CP__IN:
        return (struct said){.kind = IN_REGISTER, .reg = value};
    case CP__UNDEFINED:
        return (struct said){.kind = UNDEFINED};
    default:
        return (struct said){.kind = NOTHING};
    }
}

/* ---- Comparison ------------------------------------------------------------------------------ */

static void check_same(const char *what, uintptr_t at, const struct said *ours, const struct said *theirs)
{
    bool is_same = ours->kind == theirs->kind && ours->reg == theirs->reg && ours->offset == theirs->offset &&
                   ours->n == theirs->n && memcmp(ours->bytes, theirs->bytes, ours->n) == 0;

    CHECKF(is_same, "%s at %#lx: kind %d, register %ld, offset %ld, not kind %d, register %ld, offset %ld",
           what, at, (int)ours->kind, ours->reg, ours->offset, (int)theirs->kind, theirs->reg,
           theirs->offset);
}

/* Whether the information of the function at lo says that it stores nothing, although it begins with a
 * push. Such functions have no rows. */
static bool is_careless(uintptr_t lo, const struct said *ours, const struct said *theirs)
{
    return ours->kind == NOTHING && theirs->kind == REGISTER_PLUS && theirs->reg == CP__SP_NUMBER &&
           theirs->offset == sizeof(uintptr_t) && cp__begins_with_push((const uint8_t *)lo);
}

/* Checks all addresses at which one row of elfutils' holds. Returns the first one behind them. */
static uintptr_t check_frame(const struct cp__code_range *range, uintptr_t bias, uintptr_t lo,
                             Dwarf_Frame *frame)
{
    struct said cfa = cfa_by_elfutils(frame), ra = register_by_elfutils(frame, CP__RETURN_NUMBER),
                fp = register_by_elfutils(frame, CP__FP_NUMBER);
    Dwarf_Addr start, end;
    const struct cp__rule *last = NULL;
    bool is_signal;

    CHECK(dwarf_frame_info(frame, &start, &end, &is_signal) >= 0);
    for (uintptr_t at = lo; at < end + bias; at++) {
        const struct cp__rule *rule = cp__rows_find_from_handler(range->rows, at - range->origin);
        struct said ours;

        if (rule == last)
            continue;
        last = rule;
        ours = cfa_by_rows(range->rows, rule);
        if (is_careless(lo, &ours, &cfa))
            break;
        check_same("CFA", at - bias, &ours, &cfa);
        if (rule->cfa_from == CP__CFA_UNKNOWN)
            continue;
        ours = register_by_rows(range->rows, rule->return_how, rule->return_value);
        check_same("return address", at - bias, &ours, &ra);
        ours = register_by_rows(range->rows, rule->fp_how, rule->fp_value);
        check_same("frame pointer", at - bias, &ours, &fp);
        CHECK_EQ((rule->flags & CP__RULE_SIGNAL) != 0, is_signal);
    }
    return end + bias;
}

struct checked {
    const char *name;
    long frames;
    long bytes;
    size_t size;
};

/* Between functions, the linker's filling may have the rule of the function before it; any other code without
 * information has none. */
static void check_gap(const struct cp__code_range *range, uintptr_t lo, uintptr_t hi)
{
    if (hi - lo < 16)
        return;
    for (uintptr_t at = lo; at < hi; at++)
        CHECK_EQ(cp__rows_find_from_handler(range->rows, at - range->origin)->cfa_from, CP__CFA_UNKNOWN);
}

static void check_code(Dwarf_CFI *cfi, uintptr_t bias, uintptr_t lo, uintptr_t hi, struct checked *checked)
{
    struct cp__code_range range = {.size = 0};
    uintptr_t gap = lo;

    CHECK(cp__code_find_from_handler(lo, &range));
    CHECKF(range.rows != NULL, "%s has no rows", checked->name);
    checked->size = range.rows->size;
    checked->bytes += (long)(hi - lo);
    for (uintptr_t at = lo; at < hi;) {
        Dwarf_Frame *frame;

        if (dwarf_cfi_addrframe(cfi, at - bias, &frame) != 0) {
            at++;
            continue;
        }
        check_gap(&range, gap, at);
        at = gap = check_frame(&range, bias, at, frame);
        checked->frames++;
        free(frame);
    }
    check_gap(&range, gap, hi);
}

static Elf *open_object(const struct dl_phdr_info *info, int *fd)
{
    *fd = -1;
    if (info->dlpi_addr == getauxval(AT_SYSINFO_EHDR))
        return elf_memory((char *)info->dlpi_addr, 8192);
    *fd = open(info->dlpi_name[0] != '\0' ? info->dlpi_name : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECKF(*fd >= 0, "%s", info->dlpi_name);
    return elf_begin(*fd, ELF_C_READ, NULL);
}

static int check_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct checked checked = {.name = info->dlpi_name};
    int fd;
    Elf *elf = open_object(info, &fd);
    Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);

    (void)size;
    (void)arg;
    CHECKF(cfi != NULL, "%s: %s", checked.name, dwarf_errmsg(-1));
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t lo = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) != 0)
            check_code(cfi, info->dlpi_addr, lo, lo + info->dlpi_phdr[i].p_memsz, &checked);
    }
    printf("%s: %ld rows of %ld bytes of code, %zu bytes\n", checked.name, checked.frames, checked.bytes,
           checked.size);
    dwarf_cfi_end(cfi);
    elf_end(elf);
    if (fd >= 0)
        close(fd);
    return 0;
}

/* The program, the C library, the linker, the kernel's vDSO; and libraries with assembly of their own and
 * with exceptions. */
CP_TEST(rows_say_what_elfutils_says_at_every_address, .timeout_s = 60)
{
    static const char *const more[] = {"libcrypto.so.3", "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6"};

    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        if (dlopen(more[i], RTLD_NOW) == NULL)
            printf("not here: %s\n", more[i]);
    }
    elf_version(EV_CURRENT);
    cp__code_update();
    dl_iterate_phdr(check_object, NULL);
}

/* Protects the segment that has the object's call-frame information. */
static int protect_information(struct dl_phdr_info *info, size_t size, void *name)
{
    const ElfW(Phdr) *frames = NULL;

    (void)size;
    if (strstr(info->dlpi_name, name) == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            frames = &info->dlpi_phdr[i];
    }
    CHECK(frames != NULL);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];

        if (header->p_type == PT_LOAD && frames->p_vaddr - header->p_vaddr < header->p_filesz)
            CHECK_EQ(mprotect((void *)((info->dlpi_addr + header->p_vaddr) & -(uintptr_t)getpagesize()),
                              header->p_memsz, PROT_NONE),
                     0);
    }
    return 1;
}

CP_TEST(information_that_cannot_be_read_is_not_read)
{
    static char name[] = "libresolv.so.2";
    void *object = dlopen(name, RTLD_NOW);
    struct cp__code_range range = {.size = 0};
    void *code;

    CHECK(object != NULL);
    code = dlsym(object, "ns_sprintrr");
    CHECK(code != NULL);
    CHECK_EQ(dl_iterate_phdr(protect_information, name), 1);
    cp__code_update();
    CHECK(cp__code_find_from_handler((uintptr_t)code, &range));
    CHECK(range.rows == NULL);
}

#if defined(__x86_64__) && defined(CP__READS_CODE)
__asm__(".text\n\t"
        ".type rows_test_careless, @function\n"
        "rows_test_careless:\n\t"
        ".cfi_startproc\n\t"
        "push %r12\n\t"
        "pop %r12\n\t"
        "ret\n\t"
        ".cfi_endproc\n\t"
        ".type rows_test_careful, @function\n"
        "rows_test_careful:\n\t"
        ".cfi_startproc\n\t"
        "xor %eax, %eax\n\t"
        "nop\n\t"
        "ret\n\t"
        ".cfi_endproc");
extern const char rows_test_careless[] __attribute__((visibility("hidden")));
extern const char rows_test_careful[] __attribute__((visibility("hidden")));

static const struct cp__rule *rule_at(const char *code)
{
    struct cp__code_range range = {.size = 0};

    CHECK(cp__code_find_from_handler((uintptr_t)code, &range) && range.rows != NULL);
    return cp__rows_find_from_handler(range.rows, (uintptr_t)code - range.origin);
}

/* The information of some functions of the C library says nothing of the registers that they push. */
CP_TEST(a_function_that_pushes_untold_has_no_rows)
{
    cp__code_update();
    CHECK_EQ(rule_at(rows_test_careless)->cfa_from, CP__CFA_UNKNOWN);
    CHECK_EQ(rule_at(rows_test_careful)->cfa_from, CP__SP_NUMBER);
}
#endif
