/* The parts that symbol.c puts together: an object's debug information, its symbol table, and the files of
 * both. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_PART_H
#define COUNTERPOINT_PPROF_SYMBOL_PART_H

#include <elfutils/libdwfl.h>
#include <stddef.h>
#include <stdint.h>

#include "mapping.h"

/* ---- file.c --------------------------------------------------------------------------- */

/* Opens the object of a mapping as the only module of a Dwfl, which the caller ends by dwfl_end(). Returns
 * NULL if the object cannot be read, or if the file is not the one that was mapped. */
Dwfl_Module *cp__module_open(const struct cp__mapping *mapping, Dwfl **dwfl);

/* ---- dwarf.c -------------------------------------------------------------------------- */

/* A function, inlined or not, that contains some of the addresses. */
struct cp__dwarf_scope {
    const char *name;
    unsigned start_line;
    const char *call_file; /* where the function was inlined; NULL: it was not, or the file is unknown */
    unsigned call_line;
    uint32_t outer; /* number of the scope that the function was inlined into; 0: it was not inlined */
};

/* What the debug information says about one address. */
struct cp__dwarf_place {
    const char *file;
    unsigned line;
    uint32_t scope; /* number of the innermost scope; 0: unknown */
    uint64_t entry; /* where the outermost scope begins, or the part of it that has the address */
};

/* What the debug information says about a list of addresses. The caller sets the struct to zero first. */
struct cp__dwarf {
    struct cp__dwarf_place *places; /* one for each address */
    struct cp__dwarf_scope *scopes; /* scopes[0] is unused, because number 0 means none */
    size_t n_scopes;
    size_t capacity;
};

/* Looks up addresses, which must ascend. Returns 0, also if the module has no debug information, or
 * -ENOMEM. */
int cp__dwarf_find(struct cp__dwarf *dwarf, Dwfl_Module *module, const uint64_t *addresses, size_t n);
void cp__dwarf_free(struct cp__dwarf *dwarf);

/* ---- elf.c ---------------------------------------------------------------------------- */

/* The code that symbol tables name, sorted by address. */
struct cp__elf_symbols {
    struct cp__elf_symbol *items;
    size_t n;
    size_t capacity;
};

/* Reads all symbol tables of the module. Returns 0 or -ENOMEM. */
int cp__elf_symbols_read(struct cp__elf_symbols *symbols, Dwfl_Module *module);
/* Returns the name of the code at an address, and stores where the code begins. Returns NULL if no symbol
 * covers the address. */
const char *cp__elf_symbols_find(const struct cp__elf_symbols *symbols, uint64_t address, uint64_t *start);
void cp__elf_symbols_free(struct cp__elf_symbols *symbols);

#endif
