/* Reads symbol tables: .symtab, also from a separate debug file or from .gnu_debugdata, and .dynsym. */
#include "part.h"

#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/table.h"

/* Code from "start" to before "end". */
struct cp__elf_symbol {
    uint64_t start;
    uint64_t end;
    uint64_t reach; /* the largest end of this and all earlier symbols, because symbols may contain others */
    const char *name;
    bool is_local;
    bool is_endless; /* the symbol has no size, as in assembly, and ends where the next one begins */
};

/* Returns the end of the section that contains a symbol. */
static uint64_t section_end(Elf *elf, GElf_Word section, GElf_Addr bias)
{
    GElf_Shdr header;

    if (elf == NULL || gelf_getshdr(elf_getscn(elf, section), &header) == NULL)
        return 0;
    return header.sh_addr + header.sh_size + bias;
}

/* Fills *symbol with the i-th symbol of the module, and returns true, if that symbol names code. */
static bool read_symbol(Dwfl_Module *module, int i, struct cp__elf_symbol *symbol)
{
    GElf_Sym sym;
    GElf_Addr address, bias;
    GElf_Word section;
    Elf *elf;
    const char *name = dwfl_module_getsym_info(module, i, &sym, &address, &section, &elf, &bias);
    int type = GELF_ST_TYPE(sym.st_info);

    if (name == NULL || name[0] == '\0' || section == SHN_UNDEF || section == SHN_ABS ||
        (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
        return false;
    if (type == STT_NOTYPE && name[0] == '$') /* a mapping symbol such as "$x" marks code, but names none */
        return false;
    *symbol = (struct cp__elf_symbol){
        .start = address,
        .end = sym.st_size > 0 ? address + sym.st_size : section_end(elf, section, bias),
        .name = name,
        .is_local = GELF_ST_BIND(sym.st_info) == STB_LOCAL,
        .is_endless = sym.st_size == 0,
    };
    return true;
}

/* Sorts by address, and the best name for an address last: a C library has "__libc_write", "__write" and
 * "write". */
static int compare_elf_symbols(const void *left, const void *right)
{
    const struct cp__elf_symbol *a = left, *b = right;
    size_t a_length, b_length;

    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->is_endless != b->is_endless)
        return a->is_endless ? -1 : 1;
    if (a->is_local != b->is_local)
        return a->is_local ? -1 : 1;
    a_length = strlen(a->name);
    b_length = strlen(b->name);
    if (a_length != b_length)
        return a_length > b_length ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Ends symbols without a size at the next symbol, and computes "reach". */
static void set_bounds(struct cp__elf_symbols *symbols)
{
    struct cp__elf_symbol *s = symbols->items;
    uint64_t next = UINT64_MAX;
    size_t i;

    for (i = symbols->n; i-- > 0;) {
        if (i + 1 < symbols->n && s[i + 1].start > s[i].start)
            next = s[i + 1].start;
        if (s[i].is_endless && s[i].end > next)
            s[i].end = next;
    }
    for (i = 0; i < symbols->n; i++)
        s[i].reach = i > 0 && s[i - 1].reach > s[i].end ? s[i - 1].reach : s[i].end;
}

int cp__elf_symbols_read(struct cp__elf_symbols *symbols, Dwfl_Module *module)
{
    int n = dwfl_module_getsymtab(module);
    int i;

    for (i = 1; i < n; i++) {
        if (CP__RESERVE(symbols->items, symbols->capacity, symbols->n + 1) < 0)
            return -ENOMEM;
        if (read_symbol(module, i, &symbols->items[symbols->n]))
            symbols->n++;
    }
    if (symbols->n > 0)
        qsort(symbols->items, symbols->n, sizeof symbols->items[0], compare_elf_symbols);
    set_bounds(symbols);
    return 0;
}

const char *cp__elf_symbols_find(const struct cp__elf_symbols *symbols, uint64_t address, uint64_t *start)
{
    const struct cp__elf_symbol *s = symbols->items, *found = NULL;
    size_t low = CP__COUNT_BEFORE(symbols->n, i, s[i].start <= address);

    while (low > 0 && s[low - 1].reach > address) {
        low--;
        /* a symbol with a size is better: one without may be a label inside a function */
        if (s[low].end > address && (found == NULL || !s[low].is_endless))
            found = &s[low];
        if (found != NULL && !found->is_endless)
            break;
    }
    *start = found == NULL ? 0 : found->start;
    return found == NULL ? NULL : found->name;
}

void cp__elf_symbols_free(struct cp__elf_symbols *symbols)
{
    free(symbols->items);
}
