/* Searches the symbol tables of one file, and those of its separate debug file. See functions.h. */
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "functions.h"
#include "pprof/symbol/debug_file.h"
#include "pprof/symbol/demangle.h"
#include "runtime/base/fail.h"

void watch_search_free(struct watch_search *search)
{
    for (size_t i = 0; i < WATCH_SHOWN; i++) {
        free(search->places[i].path);
        free(search->places[i].where);
        free(search->near[i]);
    }
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Returns whether a demangled name is the one that was asked for. "ns::f" means "ns::f(int) const", too. */
static bool is_demangled_name(const char *demangled, const char *name)
{
    const size_t n = strlen(name);

    return strncmp(demangled, name, n) == 0 && (demangled[n] == '\0' || demangled[n] == '(');
}

/* Returns whether a name is similar to the one asked for: it contains the other, or the two differ in one
 * character that is changed, missing, or more, or in two that have changed places. */
static bool is_name_near(const char *name, const char *asked)
{
    const size_t n = strlen(asked), m = strlen(name);
    size_t same = 0, end = 0;

    if (n >= 3 && strcasestr(name, asked) != NULL)
        return true;
    while (same < n && same < m && name[same] == asked[same])
        same++;
    while (end < n - same && end < m - same && name[m - 1 - end] == asked[n - 1 - end])
        end++;
    if (n == m && n == same + end + 2)
        return name[same] == asked[same + 1] && name[same + 1] == asked[same];
    return n > 1 && n - same - end <= 1 && m - same - end <= 1;
}

static void note_near_name(struct watch_search *search, const char *name)
{
    for (size_t i = 0; i < search->n_near; i++)
        if (strcmp(search->near[i], name) == 0)
            return;
    if (search->n_near < WATCH_SHOWN && (search->near[search->n_near] = strdup(name)) != NULL)
        search->n_near++;
}

/* Returns whether the linker's name, or what it stands for, is the one asked for, and notes it if it is
 * similar. */
static bool is_symbol_asked(struct watch_search *search, const char *name)
{
    char *text = NULL;
    bool is;

    if (strcmp(name, search->name) == 0)
        return true;
    if (!cp__is_mangled(name) || cp__demangle(name, &text) < 0 || text == NULL) {
        if (is_name_near(name, search->name))
            note_near_name(search, name);
        return false;
    }
    is = is_demangled_name(text, search->name);
    if (!is && strcasestr(text, search->name) != NULL)
        note_near_name(search, text);
    free(text);
    return is;
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* Returns the offset in the file of code at an address of the file's own numbering; UINT64_MAX: the file does
 * not have it. */
static uint64_t offset_of(Elf *elf, uint64_t address)
{
    GElf_Phdr part;
    size_t n = 0;

    if (elf_getphdrnum(elf, &n) < 0)
        return UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        if (gelf_getphdr(elf, (int)i, &part) != NULL && part.p_type == PT_LOAD &&
            (part.p_flags & PF_X) != 0 && address >= part.p_vaddr && address - part.p_vaddr < part.p_filesz)
            return address - part.p_vaddr + part.p_offset;
    }
    return UINT64_MAX;
}

/* Returns whether a file has Go's runtime: its linker writes one of these sections. */
static bool is_go_file(Elf *elf)
{
    size_t names;
    GElf_Shdr header;

    if (elf_getshdrstrndx(elf, &names) < 0)
        return false;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
        const char *name =
            gelf_getshdr(section, &header) == NULL ? NULL : elf_strptr(elf, names, header.sh_name);

        if (name != NULL && (strcmp(name, ".go.buildinfo") == 0 || strcmp(name, ".note.go.buildid") == 0 ||
                             strcmp(name, ".gopclntab") == 0))
            return true;
    }
    return false;
}

/* Returns the text that tells a function from others of its name. */
static char *describe_place(Dwfl_Module *module, GElf_Addr address, uint64_t own, const char *file)
{
    Dwfl_Line *line = dwfl_module_getsrc(module, address);
    int number = 0;
    const char *source = line == NULL ? NULL : dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
    char *text;

    if ((source != NULL ? asprintf(&text, "@0x%" PRIx64 " (%s:%d)", own,
                                   strrchr(source, '/') == NULL ? source : strrchr(source, '/') + 1, number)
                        : asprintf(&text, "@0x%" PRIx64 " in %s", own, file)) < 0)
        return NULL;
    return text;
}

/* Notes a place, unless it was noted by another name of the same code. */
static int note_place(struct watch_search *search, Dwfl_Module *module, const struct watch_file *file,
                      GElf_Addr address, bool is_indirect)
{
    GElf_Addr bias = 0;
    Elf *elf = dwfl_module_getelf(module, &bias);
    const uint64_t own = address - bias, offset = elf == NULL ? UINT64_MAX : offset_of(elf, own);
    struct watch_place *place = &search->places[search->n];

    if (search->has_address && search->address != own)
        return 0;
    for (size_t i = 0; i < search->n && i < WATCH_SHOWN; i++)
        if (search->places[i].offset == offset && strcmp(search->places[i].path, file->path) == 0)
            return 0;
    if (search->n++ >= WATCH_SHOWN)
        return 0;
    *place = (struct watch_place){.path = strdup(file->path),
                                  .where = describe_place(module, address, own, file->name),
                                  .offset = offset,
                                  .is_go = elf != NULL && is_go_file(elf),
                                  .is_indirect = is_indirect,
                                  .is_in_file = offset != UINT64_MAX};
    return place->path == NULL || place->where == NULL ? -ENOMEM : 0;
}

/* ---- The file -------------------------------------------------------------------------------- */

static int search_symbols(struct watch_search *search, Dwfl_Module *module, const struct watch_file *file)
{
    const int n = dwfl_module_getsymtab(module);
    int result = 0;

    for (int i = 1; i < n && result == 0; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        GElf_Word section;
        const char *name = dwfl_module_getsym_info(module, i, &symbol, &address, &section, NULL, NULL);
        const int type = GELF_ST_TYPE(symbol.st_info);

        if (name == NULL || *name == '\0' || section == SHN_UNDEF || section == SHN_ABS ||
            (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
            continue;
        if (is_symbol_asked(search, name))
            result = note_place(search, module, file, address, type == STT_GNU_IFUNC);
    }
    return result;
}

/* Returns whether a file has no symbols but those for the dynamic linker, and no separate debug file. */
static bool is_module_stripped(Dwfl_Module *module)
{
    const char *debug_file = NULL;
    GElf_Addr bias;
    GElf_Shdr header;
    Elf *elf = dwfl_module_getelf(module, &bias);

    dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, &debug_file);
    for (Elf_Scn *section = NULL; elf != NULL && (section = elf_nextscn(elf, section)) != NULL;)
        if (gelf_getshdr(section, &header) != NULL && header.sh_type == SHT_SYMTAB)
            return false;
    return debug_file == NULL;
}

/* Returns whether a name without its namespaces and parameters is this part: the debug information of an
 * inlined function mostly has no more of its name. */
static bool is_last_part(const char *name, const char *part)
{
    const size_t size = strcspn(name, "("), n = strlen(part);

    return size >= n && strncmp(name + size - n, part, n) == 0 &&
           (size == n || (size > n + 2 && strncmp(name + size - n - 2, "::", 2) == 0));
}

/* A dwarf_getfuncs() callback: notes whether the function of that name is one whose copies are inlined. */
static int look_for_inlined(Dwarf_Die *die, void *context)
{
    struct watch_search *search = context;
    const char *name = dwarf_diename(die);

    if (name != NULL && is_last_part(search->name, name) && dwarf_func_inline(die))
        search->is_inlined = true;
    return search->is_inlined ? DWARF_CB_ABORT : DWARF_CB_OK;
}

static void search_inlined(struct watch_search *search, Dwfl_Module *module)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = NULL;

    while (!search->is_inlined && (unit = dwfl_module_nextcu(module, unit, &bias)) != NULL)
        dwarf_getfuncs(unit, look_for_inlined, search, 0);
}

static int find_no_other_elf(Dwfl_Module *module, void **user_data, const char *module_name, Dwarf_Addr base,
                             char **file, Elf **elf)
{
    (void)module, (void)user_data, (void)module_name, (void)base, (void)file, (void)elf;
    return -1;
}

int watch_search_file(struct watch_search *search, const struct watch_file *file, struct cp_error *err)
{
    static const Dwfl_Callbacks callbacks = {
        .find_elf = find_no_other_elf,
        .find_debuginfo = cp__find_debug_file,
        .section_address = dwfl_offline_section_address,
    };
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), result;
    Dwfl *dwfl = dwfl_begin(&callbacks);
    Dwfl_Module *module;

    if (fd < 0) {
        result = cp__error(err, -errno, "\"%.300s\" cannot be read: %s.", file->name, strerror(errno));
        dwfl_end(dwfl);
        return result;
    }
    dwfl_report_begin(dwfl);
    module = dwfl_report_elf(dwfl, file->name, file->name, fd, 0, false); /* takes the descriptor */
    dwfl_report_end(dwfl, NULL, NULL);
    if (module == NULL) {
        close(fd);
        result = cp__error(err, -ENOEXEC, "\"%.300s\" is no ELF file: %s.", file->name, dwfl_errmsg(-1));
    } else {
        result = search_symbols(search, module, file);
        search->is_stripped = is_module_stripped(module);
        if (result < 0)
            cp__error(err, result, "There is not enough memory to search \"%.300s\".", file->name);
        else if (search->n == 0)
            search_inlined(search, module);
    }
    dwfl_end(dwfl);
    return result;
}
