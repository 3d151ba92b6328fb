/* Objects whose headers and call-frame information were made to hurt who reads them: each is refused, or read
 * within its budget. */
#include <dlfcn.h>
#include <dwarf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/arch.h"
#include "runtime/base/sys_linux.h"
#include "runtime/unwind/code.h"
#include "runtime/unwind/image.h"
#include "runtime/unwind/objects.h"
#include "runtime/unwind/rows.h"
#include "tests/support/memory_limit.h"
#include "tests/support/session_tools.h"

#define CODE 0x10000000u /* the address of the object's code; nothing is mapped there */

/* ---- Memory that cannot be -------------------------------------------------------------------- */

CP_TEST(no_memory_goes_beyond_the_last_address)
{
    static char here[64];
    const uintptr_t at = (uintptr_t)here;

    CHECK(cp__sys_can_read_from_handler(at, sizeof here));
    CHECK(cp__sys_can_read_from_handler(at, 0));
    CHECK(!cp__sys_can_read_from_handler(at, SIZE_MAX));
    CHECK(!cp__sys_can_read_from_handler(at, (size_t)0 - at)); /* ends at address 0 */
    CHECK(!cp__sys_can_read_from_handler(at, (size_t)0 - at + 1));
    CHECK(!cp__sys_can_read_from_handler(at, SIZE_MAX / 2));
    CHECK(!cp__sys_can_read_from_handler(UINTPTR_MAX - 1, 1));
    CHECK(!cp__sys_can_read_from_handler(UINTPTR_MAX - 1, 10));
    CHECK(!cp__sys_can_read_from_handler(0, 1));
    CHECK(!cp__sys_can_read_from_handler(CP__SYS_PAGE - 1, 1));
}

CP_TEST(memory_that_vanishes_is_copied_or_not)
{
    char from[3 * 4096], to[3 * 4096], *page;

    memset(from, 'x', sizeof from);
    CHECK(cp__sys_copy_from_handler(to, (uintptr_t)from, sizeof from) && memcmp(from, to, sizeof from) == 0);
    page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
    CHECK(cp__sys_copy_from_handler(to, (uintptr_t)page, 4096));
    CHECK(!cp__sys_copy_from_handler(to, (uintptr_t)page, 4097));
    CHECK(!cp__sys_copy_from_handler(to, (uintptr_t)page + 4096, 1));
    CHECK(munmap(page, 4096) == 0);
    CHECK(!cp__sys_copy_from_handler(to, (uintptr_t)page, 1));
}

/* ---- Notes ------------------------------------------------------------------------------------- */

/* Puts a note behind others, whose data has so many bytes. */
static size_t put_note(uint8_t *notes, size_t at, size_t align, const char *name, uint32_t type,
                       const char *text)
{
    const ElfW(Nhdr)
        note = {.n_namesz = (uint32_t)strlen(name) + 1, .n_descsz = (uint32_t)strlen(text), .n_type = type};
    const size_t data = (sizeof note + note.n_namesz + align - 1) / align * align;

    memcpy(notes + at, &note, sizeof note);
    memcpy(notes + at + sizeof note, name, note.n_namesz);
    memcpy(notes + at + data, text, note.n_descsz);
    return at + (data + note.n_descsz + align - 1) / align * align;
}

/* Header and name are padded together, and so is the data; to 8 bytes if the segment is aligned so. */
CP_TEST(a_build_id_is_found_behind_other_notes)
{
    static const char *const names[] = {"GNU", "a", "stapsdt", "Linux", ""};
    static const char *const texts[] = {"", "four", "five.", "eight...", "a text of twenty b.."};
    static const char id[] = "the build id of twen";

    for (size_t i = 0; i < 2 * 5 * 5; i++) {
        const size_t align = i % 2 == 0 ? 4 : 8;
        uint8_t notes[200] __attribute__((aligned(8))) = {0};
        struct cp__identity identity;
        ElfW(Phdr) header = {.p_type = PT_NOTE, .p_align = align};
        const struct cp__image image = {
            .bias = (uintptr_t)notes, .headers = &header, .n_headers = 1, .lo = CODE, .hi = CODE + 100};

        header.p_filesz = put_note(notes, 0, align, names[i / 2 % 5], 99, texts[i / 10]);
        header.p_filesz = put_note(notes, header.p_filesz, align, "GNU", NT_GNU_BUILD_ID, id);
        header.p_filesz = put_note(notes, header.p_filesz, align, "more", 98, "four");
        CHECK(cp__image_identify(&image, &identity));
        CHECKF(memcmp(identity.build_id, id, 20) == 0, "%zu, %s, %s", align, names[i / 2 % 5], texts[i / 10]);
    }
}

/* ---- Call-frame information that the test makes up -------------------------------------------- */

/* Information as it is mapped: at the beginning .eh_frame_hdr with a table of 4-byte words, then entries. */
struct made {
    uint8_t *bytes;
    size_t size;
    size_t n; /* bytes that are taken */
    uint32_t n_functions;
};

static struct made begin(size_t size, uint32_t max_functions)
{
    struct made made = {.size = size, .n = 12 + 8 * (size_t)max_functions};
    const uint8_t header[] = {1, DW_EH_PE_absptr, DW_EH_PE_udata4, DW_EH_PE_datarel | DW_EH_PE_sdata4};

    made.bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(made.bytes != MAP_FAILED);
    memcpy(made.bytes, header, sizeof header);
    made.n += 4;
    return made;
}

static void put(struct made *made, const void *data, size_t size)
{
    CHECK(made->n + size <= made->size);
    memcpy(made->bytes + made->n, data, size);
    made->n += size;
}

static void put_number(struct made *made, uint64_t number, size_t size)
{
    put(made, &number, size);
}

/* Begins an entry of so many bytes behind its length. Returns where it is. */
static size_t put_length(struct made *made, size_t size)
{
    put_number(made, size, 4);
    return made->n - 4;
}

#define CIE_SIZE (4 + 1 + 1 + 1 + 1 + 1)

/* Adds a CIE, with a program. Its functions have absolute addresses. */
static size_t put_cie(struct made *made, const void *program, size_t size)
{
    size_t at = put_length(made, CIE_SIZE + size);

    put_number(made, 0, 4);
    put_number(made, 1, 1);    /* version */
    put_number(made, 0, 1);    /* no augmentation */
    put_number(made, 1, 1);    /* alignment of code */
    put_number(made, 0x78, 1); /* alignment of data, -8 */
    put_number(made, CP__RETURN_NUMBER, 1);
    put(made, program, size);
    return at;
}

#define ENTRY_SIZE (4 + 4 + 8 + 8)

/* Adds a function to the table, and its entry, which ends `size` bytes behind its addresses. */
static void put_function(struct made *made, size_t cie, uint32_t at, uint32_t code, size_t size)
{
    const size_t entry = put_length(made, ENTRY_SIZE - 4 + size);
    uint8_t *row = made->bytes + 16 + 8 * (size_t)made->n_functions++;

    put_number(made, entry + 4 - cie, 4);
    put_number(made, CODE + at, 8);
    put_number(made, code, 8);
    memcpy(row, &at, 4);
    memcpy(row + 4, &(uint32_t){(uint32_t)entry}, 4);
}

/* Makes the rows of an object with that much code, and gives the memory back. */
static const struct cp__rows *rows_of(struct made *made, size_t code, bool *is_over_budget)
{
    const struct cp__cfi_source source = {.lo = made->bytes,
                                          .hi = made->bytes + made->size,
                                          .header = made->bytes,
                                          .header_end = made->bytes + made->n,
                                          .code_lo = CODE,
                                          .code_hi = CODE + code};
    const struct cp__rows *rows;

    memcpy(made->bytes + 12, &made->n_functions, 4);
    rows = cp__rows_make(&source, is_over_budget);
    munmap(made->bytes, made->size);
    return rows;
}

static const uint8_t usual[] = {DW_CFA_def_cfa, CP__SP_NUMBER, 8, DW_CFA_offset | CP__RETURN_NUMBER, 1};

CP_TEST(information_that_is_made_up_is_read)
{
    static const uint8_t program[] = {DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16};
    struct made made = begin(4096, 1);
    bool is_over;
    const struct cp__rows *rows;

    put_function(&made, put_cie(&made, usual, sizeof usual), 16, 32, sizeof program);
    put(&made, program, sizeof program);
    rows = rows_of(&made, 256, &is_over);
    CHECK(rows != NULL && !is_over);
    CHECK_EQ(cp__rows_find_from_handler(rows, 15)->cfa_from, CP__CFA_UNKNOWN);
    CHECK_EQ(cp__rows_find_from_handler(rows, 16)->cfa, 8);
    CHECK_EQ(cp__rows_find_from_handler(rows, 17)->cfa, 16);
    CHECK_EQ(cp__rows_find_from_handler(rows, 17)->return_value, -8);
}

/* What is over its budget has not taken 64 MiB before. */
static void check_over_budget(struct made *made, size_t code)
{
    bool is_over;

    if (!TEST_ASAN && !TEST_TSAN)
        limit_memory(64 << 20);
    CHECK(rows_of(made, code, &is_over) == NULL);
    CHECK(is_over);
}

/* Each function's program goes on to the end of the information, over all entries behind it. */
CP_TEST(programs_that_overlap_are_over_the_budget)
{
    enum { FUNCTIONS = 2000 };
    static const uint8_t over_next_entry[] = {DW_CFA_val_expression, 3, ENTRY_SIZE};
    struct made made = begin(1 << 17, FUNCTIONS);
    size_t cie = put_cie(&made, usual, sizeof usual);

    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        put_function(&made, cie, i, 1, made.size - made.n - ENTRY_SIZE);
        put(&made, over_next_entry, sizeof over_next_entry);
    }
    memset(made.bytes + made.n, DW_CFA_advance_loc, made.size - made.n);
    check_over_budget(&made, made.size);
}

/* The rows alone would take more memory than the code. */
CP_TEST(rows_for_every_third_byte_of_code_are_over_the_budget)
{
    enum { CODE_SIZE = 1 << 20, ROWS = CODE_SIZE / 3 };
    struct made made = begin(1 << 19, 1);

    put_function(&made, put_cie(&made, usual, sizeof usual), 0, CODE_SIZE, ROWS);
    memset(made.bytes + made.n, DW_CFA_advance_loc | 1, ROWS);
    check_over_budget(&made, CODE_SIZE);
}

CP_TEST(a_cie_is_read_once)
{
    enum { FUNCTIONS = 1000, SIZE = 1 << 15 };
    static uint8_t program[SIZE];
    struct made made = begin(1 << 18, FUNCTIONS);
    size_t cies[2];
    bool is_over;

    memcpy(program, usual, sizeof usual); /* and DW_CFA_nop, which is 0 */
    cies[0] = put_cie(&made, program, SIZE);
    cies[1] = put_cie(&made, program, SIZE);
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        put_function(&made, cies[i % 2], 8 * i, 8, 0);
    CHECK(rows_of(&made, 8 * FUNCTIONS, &is_over) != NULL);
    CHECK(!is_over);
}

/* Long CIEs that take each other's place are paid for each time. */
CP_TEST(many_long_cies_are_over_the_budget)
{
    enum { FUNCTIONS = 1000, CIES = 200 };
    static uint8_t program[1000];
    struct made made = begin(1 << 18, FUNCTIONS);
    size_t cies[CIES];

    for (int i = 0; i < CIES; i++)
        cies[i] = put_cie(&made, program, sizeof program - 400);
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        put_function(&made, cies[i * 7 % CIES], 8 * i, 8, 0);
    check_over_budget(&made, 8 * FUNCTIONS);
}

/* Puts an unsigned number in groups of seven bits. */
static void put_uleb(struct made *made, uint64_t number)
{
    do {
        put_number(made, (number & 0x7f) | (uint64_t)(number > 0x7f) << 7, 1);
        number >>= 7;
    } while (number != 0);
}

/* Returns where rows.c looks for a rule first. */
static uint64_t place_of(uint64_t cfa)
{
    const struct cp__rule rule = {
        .cfa = (int32_t)cfa, .cfa_from = CP__SP_NUMBER, .return_how = CP__AT, .return_value = -8};
    const uint64_t factor = 0x9e3779b97f4a7c15u;
    uint64_t words[2];

    memcpy(words, &rule, sizeof words);
    return ((words[0] * factor ^ words[1]) * factor >> 40) % 65536;
}

/* Rules that have nearly the same place in the table, so that each is compared with all rules before it. */
CP_TEST(rules_that_collide_are_over_the_budget)
{
    enum { RULES = 4000 };
    struct made made = begin(1 << 16, 1);
    size_t cie = put_cie(&made, usual, sizeof usual);

    put_function(&made, cie, 0, RULES, made.size - made.n - ENTRY_SIZE);
    for (uint64_t cfa = 8, n = 0; n < RULES; cfa += 8) {
        if (place_of(cfa) >= 64)
            continue;
        put_number(&made, DW_CFA_def_cfa_offset, 1);
        put_uleb(&made, cfa);
        put_number(&made, DW_CFA_advance_loc | 1, 1);
        n++;
    }
    check_over_budget(&made, 1 << 16);
}

/* A number of more than ten bytes takes as long to read as the file is large. */
CP_TEST(a_number_without_end_is_no_number)
{
    struct made made = begin(4096, 2);
    size_t cie = put_cie(&made, usual, sizeof usual);
    const struct cp__rows *rows;
    bool is_over;

    put_function(&made, cie, 0, 16, 12);
    put_number(&made, DW_CFA_def_cfa_offset, 1);
    put(&made, "\x90\x80\x80\x80\x80\x80\x80\x80\x80\x80", 11);
    put_function(&made, cie, 16, 16, 0);
    rows = rows_of(&made, 64, &is_over);
    CHECK(rows != NULL);
    CHECK_EQ(cp__rows_find_from_handler(rows, 0)->cfa_from, CP__CFA_UNKNOWN);
    CHECK_EQ(cp__rows_find_from_handler(rows, 16)->cfa, 8);
}

/* The product with the alignment of data is not in the range of any integer. */
CP_TEST(a_place_that_overflows_is_unknown)
{
    static const uint8_t program[] = {DW_CFA_offset | CP__RETURN_NUMBER,
                                      0xff,
                                      0xff,
                                      0xff,
                                      0xff,
                                      0xff,
                                      0xff,
                                      0xff,
                                      0xff,
                                      0x7f,
                                      DW_CFA_GNU_negative_offset_extended,
                                      CP__FP_NUMBER,
                                      0x80,
                                      0x80,
                                      0x80,
                                      0x80,
                                      0x80,
                                      0x80,
                                      0x80,
                                      0x80,
                                      0x80,
                                      0x01};
    struct made made = begin(4096, 1);
    const struct cp__rows *rows;
    bool is_over;

    put_function(&made, put_cie(&made, usual, sizeof usual), 0, 16, sizeof program);
    put(&made, program, sizeof program);
    rows = rows_of(&made, 64, &is_over);
    CHECK(rows != NULL);
    CHECK_EQ(cp__rows_find_from_handler(rows, 0)->return_how, CP__UNKNOWN);
    CHECK_EQ(cp__rows_find_from_handler(rows, 0)->fp_how, CP__UNKNOWN);
}

/* ---- Files ------------------------------------------------------------------------------------ */

#define BEGIN ".text\n.globl hostile\n.type hostile, %function\nhostile:\n.cfi_startproc\n"
#define END "nop\nret\n.cfi_endproc\n.section .note.GNU-stack,\"\",%progbits\n"

/* Makes a shared object of assembly that defines hostile(). Returns its path. */
static const char *make_object(const char *name, const char *assembly)
{
    static char path[256];

    test_write_file("hostile.s", assembly);
    snprintf(path, sizeof path, "%s/%s.so", test_dir(), name);
    free(
        test_command(NULL, "cd %s && cc -shared -nostdlib -Wl,--build-id -o %s hostile.s", test_dir(), path));
    return path;
}

/* Loads an object, and returns the rows of its code. */
static const struct cp__rows *load(const char *path)
{
    struct cp__code_range range = {.size = 0};
    void *object = dlopen(path, RTLD_NOW);
    void *code;

    CHECKF(object != NULL, "%s", dlerror());
    code = dlsym(object, "hostile");
    CHECK(code != NULL);
    cp__code_update();
    CHECK(cp__code_find_from_handler((uintptr_t)code, &range));
    return range.rows;
}

/* Writes a copy of an object, in which the program headers of one type have another address and size. */
static const char *copy_with(const struct cp_memory *object, uint32_t type, uint64_t address, uint64_t size)
{
    static char path[256];
    static int n;
    struct cp_memory copy = {.size = object->size, .data = malloc(object->size)};
    ElfW(Phdr) * headers;
    ElfW(Ehdr) elf;

    CHECK(copy.data != NULL);
    memcpy(copy.data, object->data, object->size);
    memcpy(&elf, copy.data, sizeof elf);
    headers = (ElfW(Phdr) *)(copy.data + elf.e_phoff);
    for (int i = 0; i < elf.e_phnum; i++) {
        if (headers[i].p_type != type || headers[i].p_align > 4)
            continue;
        headers[i].p_vaddr = headers[i].p_paddr = address;
        headers[i].p_filesz = headers[i].p_memsz = size;
    }
    snprintf(path, sizeof path, "%s/copy%d.so", test_dir(), n++);
    save(&copy, path);
    free(copy.data);
    return path;
}

CP_TEST(headers_that_cannot_be_read_are_not_read)
{
    struct link_map *object = dlopen(make_object("object", BEGIN END), RTLD_NOW);
    struct cp__code_range range = {.size = 0};
    void *code, *headers;

    CHECKF(object != NULL, "%s", dlerror());
    code = dlsym(object, "hostile");
    headers = (void *)object->l_addr;
    CHECK_EQ(mprotect(headers, 4096, PROT_NONE), 0);
    cp__code_update();
    CHECK_EQ(mprotect(headers, 4096, PROT_READ), 0);
    CHECK(cp__code_find_from_handler((uintptr_t)code, &range));
    CHECK(range.rows == NULL);
}

/* The dynamic linker itself looks neither at notes with an alignment of 4 nor at call-frame information. */
CP_TEST(headers_that_point_anywhere_are_followed_nowhere)
{
    static const uint64_t numbers[] = {
        0, 4096, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX, UINT64_MAX - 4095, (uint64_t)1 << 47};
    const size_t n = sizeof numbers / sizeof numbers[0];
    struct cp_memory object = {0};
    FILE *file = fopen(make_object("object", BEGIN END), "re");

    CHECK(file != NULL);
    object.data = malloc(1 << 20);
    CHECK(object.data != NULL);
    object.size = fread(object.data, 1, 1 << 20, file);
    fclose(file);
    CHECK(load(copy_with(&object, PT_NULL, 0, 0)) != NULL);
    for (size_t i = 0; i < n * n; i++) {
        load(copy_with(&object, PT_NOTE, numbers[i / n], numbers[i % n]));
        load(copy_with(&object, PT_GNU_EH_FRAME, numbers[i / n], numbers[i % n]));
    }
    free(object.data);
}

CP_TEST(a_profile_names_an_object_that_is_over_its_budget)
{
    const char *path = make_object("object", BEGIN ".rept 100000\n.cfi_def_cfa_offset 16\n"
                                                   ".cfi_def_cfa_offset 24\n.endr\n" END);
    struct cp_error err;
    const char *first;
    char *comments;

    CHECK_EQ(cp__objects_refused(&first), 0);
    CHECK(load(path) == NULL);
    CHECK_EQ(cp__objects_refused(&first), 1);
    CHECK_STR(first, path);
    attach();
    CHECKF(cp_start_cpu_profile(cp_writer_path(file_in_dir("named.pb.gz")), &err) == 0, "%s", err.message);
    CHECKF(cp_stop_cpu_profile(&err) == 0, "%s", err.message);
    comments = pprof("-comments", file_in_dir("named.pb.gz"));
    CHECK_CONTAINS(comments, "objects_refused: 1 # ");
    CHECK_CONTAINS(comments, path);
    CHECK_CONTAINS(strstr(comments, "\nlimits: "), "objects_refused");
    free(comments);
}
