/* Symbols and lines come from libdw, which also looks for separate debug files. */
#include "code.h"

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "code_file.h"
#include "pprof/symbol/debug_file.h"
#include "pprof/symbol/part.h"
#include "runtime/base/fail.h"

/* ---- Opening --------------------------------------------------------------------------------- */

/* Refuses mappings that have no file. */
static int check_has_file(const struct profile_mapping *mapping, struct cp_error *err)
{
    const char *file = mapping->file;
    const bool is_in_upper_half = mapping->start >> 63 != 0;

    if (file[0] == '[' && (is_in_upper_half || strncmp(file, "[kernel", 7) == 0))
        return cp__error(err, -ENOENT, "they are in the kernel, whose code is in no file that can be read.");
    if (strcmp(file, "[vdso]") == 0)
        return cp__error(err, -ENOENT,
                         "they are in the vdso, which the kernel maps, and which is in no file.");
    if (file[0] == '\0' || file[0] == '[' || strncmp(file, "//anon", 6) == 0)
        return cp__error(err, -ENOENT, "they are in memory that is mapped from no file%s%.100s.",
                         file[0] != '\0' ? ": " : "", file);
    return 0;
}

/* Writes the file's build id in hexadecimal; "": it has none. */
static void build_id_of(Elf *elf, char *id, size_t size)
{
    const void *bits;
    ssize_t n = dwelf_elf_gnu_build_id(elf, &bits);

    id[0] = '\0';
    for (ssize_t i = 0; i < n && (size_t)i * 2 + 3 <= size; i++)
        snprintf(id + i * 2, 3, "%02x", ((const unsigned char *)bits)[i]);
}

/* Refuses another build than the one that was profiled. */
static int check_build(struct code *code, const struct profile_mapping *mapping, struct cp_error *err)
{
    char id[2 * 64 + 1];

    build_id_of(code->elf, id, sizeof id);
    code->is_sure = id[0] != '\0' && mapping->build_id[0] != '\0';
    if (!code->is_sure || strcmp(id, mapping->build_id) == 0)
        return 0;
    return cp__error(err, -ESTALE,
                     "%.200s is another build than the one that was profiled: its build id is %.64s, and the "
                     "profile's is %.64s. Run the report where that build is.",
                     mapping->file, id, mapping->build_id);
}

static const Dwfl_Callbacks callbacks = {.find_debuginfo = cp__find_debug_file,
                                         .section_address = dwfl_offline_section_address};

static int open_object(struct code *code, const struct profile_mapping *mapping, struct cp_error *err)
{
    int result = check_has_file(mapping, err);
    int fd;

    if (result < 0)
        return result;
    fd = cp__open_regular(mapping->file);
    if (fd == -ENOEXEC)
        return cp__error(err, fd, "%.300s is no regular file.", mapping->file);
    if (fd < 0)
        return cp__error(err, fd, "%.300s cannot be read: %s.", mapping->file, strerror(-fd));
    code->dwfl = dwfl_begin(&callbacks);
    /* libdwfl closes the descriptor with the module, and not if there is no module */
    code->module =
        code->dwfl != NULL ? dwfl_report_offline(code->dwfl, mapping->file, mapping->file, fd) : NULL;
    if (code->module == NULL)
        close(fd);
    else
        dwfl_report_end(code->dwfl, NULL, NULL);
    code->elf = code->module != NULL ? dwfl_module_getelf(code->module, &code->bias) : NULL;
    if (code->elf == NULL || gelf_getehdr(code->elf, &code->header) == NULL)
        return cp__error(err, -ENOEXEC, "%.300s is no object file, or a damaged one.", mapping->file);
    return check_build(code, mapping, err);
}

struct code *code_open(const struct profile_mapping *mapping, struct cp_error *err)
{
    struct code *code = calloc(1, sizeof *code);
    int result;

    if (code == NULL) {
        cp__error(err, -ENOMEM, "there is not enough memory.");
        return NULL;
    }
    code->file = mapping->file;
    result = open_object(code, mapping, err);
    if (result == 0)
        return code;
    code_close(code);
    return NULL;
}

void code_close(struct code *code)
{
    if (code != NULL && code->dwfl != NULL)
        dwfl_end(code->dwfl);
    free(code);
}

const char *code_file(const struct code *code)
{
    return code->file;
}

bool code_is_sure(const struct code *code)
{
    return code->is_sure;
}

int code_machine(const struct code *code)
{
    return code->header.e_machine;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

/* A mapping says where in the file its bytes are, and a segment says which addresses those bytes have. So it
 * does not matter where the object was loaded. */
bool code_address(const struct code *code, const struct profile_mapping *mapping, uint64_t address,
                  uint64_t *in_file)
{
    uint64_t offset = address - mapping->start + mapping->offset;
    size_t n;

    if (address < mapping->start || elf_getphdrnum(code->elf, &n) < 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        GElf_Phdr segment;

        if (gelf_getphdr(code->elf, (int)i, &segment) == NULL || segment.p_type != PT_LOAD ||
            (segment.p_flags & PF_X) == 0 || offset < segment.p_offset ||
            offset - segment.p_offset >= segment.p_filesz)
            continue;
        *in_file = offset - segment.p_offset + segment.p_vaddr;
        return true;
    }
    return false;
}

const uint8_t *code_bytes(const struct code *code, uint64_t start, uint64_t end)
{
    size_t n, size;
    const char *bytes = elf_rawfile(code->elf, &size);

    if (bytes == NULL || start >= end || elf_getphdrnum(code->elf, &n) < 0)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        GElf_Phdr segment;

        if (gelf_getphdr(code->elf, (int)i, &segment) == NULL || segment.p_type != PT_LOAD ||
            start < segment.p_vaddr || end - segment.p_vaddr > segment.p_filesz || segment.p_offset > size ||
            end - segment.p_vaddr > size - segment.p_offset)
            continue;
        return (const uint8_t *)bytes + segment.p_offset + (start - segment.p_vaddr);
    }
    return NULL;
}

/* Returns the first symbol's address after this one, for symbols of assembly code, which have no size. */
static GElf_Addr next_symbol(const struct code *code, GElf_Addr address)
{
    enum { LONGEST = 4096 };
    GElf_Addr next = address + LONGEST;
    int n = dwfl_module_getsymtab(code->module);

    for (int i = 1; i < n; i++) {
        GElf_Sym symbol;
        GElf_Addr start;

        if (dwfl_module_getsym_info(code->module, i, &symbol, &start, NULL, NULL, NULL) != NULL &&
            symbol.st_shndx != SHN_UNDEF && GELF_ST_TYPE(symbol.st_info) <= STT_FUNC && start > address &&
            start < next)
            next = start;
    }
    return next;
}

bool code_symbol(const struct code *code, uint64_t in_file, struct code_symbol *symbol)
{
    GElf_Addr address = in_file + code->bias;
    GElf_Off offset;
    GElf_Sym found;
    const char *name = dwfl_module_addrinfo(code->module, address, &offset, &found, NULL, NULL, NULL);

    if (name == NULL || (found.st_size > 0 && offset >= found.st_size))
        return false;
    symbol->name = name;
    symbol->start = in_file - offset;
    symbol->end =
        found.st_size > 0 ? symbol->start + found.st_size : next_symbol(code, address - offset) - code->bias;
    return in_file < symbol->end;
}

/* Finds the compilation unit that an address is in; mostly it is that of the address before. libdwfl's own
 * search needs .debug_aranges, which clang does not write. */
static Dwarf_Die *unit_at(struct code *code, GElf_Addr address, Dwarf_Addr *bias)
{
    Dwarf_Die *unit = NULL;

    if (code->unit != NULL && dwarf_haspc(code->unit, address - code->unit_bias) > 0)
        unit = code->unit;
    while (unit == NULL && (code->unit = dwfl_module_nextcu(code->module, code->unit, bias)) != NULL) {
        code->unit_bias = *bias;
        if (dwarf_haspc(code->unit, address - *bias) > 0)
            unit = code->unit;
    }
    *bias = code->unit_bias;
    return unit;
}

const char *code_line(struct code *code, uint64_t in_file, int *line)
{
    GElf_Addr address = in_file + code->bias;
    Dwarf_Addr bias;
    Dwarf_Die *unit = unit_at(code, address, &bias);
    Dwarf_Line *found;

    if (unit == NULL)
        unit = unit_at(code, address, &bias); /* from the first unit on */
    found = unit != NULL ? dwarf_getsrc_die(unit, address - bias) : NULL;
    if (found == NULL || dwarf_lineno(found, line) != 0 || *line <= 0)
        return NULL;
    return dwarf_linesrc(found, NULL, NULL);
}
