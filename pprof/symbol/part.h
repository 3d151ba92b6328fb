/* What symbol.c puts together: an object's debug information, its symbol table, and where to find both. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_PART_H
#define COUNTERPOINT_PPROF_SYMBOL_PART_H

#include <elfutils/libdwfl.h>
#include <stddef.h>
#include <stdint.h>

#include "mapping.h"

/* ---- file.c --------------------------------------------------------------------------- */

/* The object that is mapped there, as the only one of a Dwfl of its own (dwfl_end() it); NULL where it
 * cannot be read, or is not the one that was mapped. */
Dwfl_Module *cp__module_open(const struct cp__mapping *mapping, Dwfl **dwfl);

/* ---- dwarf.c -------------------------------------------------------------------------- */

/* A function that some of the addresses are in, inlined or not. */
struct cp__dwarf_scope {
    const char *name;
    unsigned start_line;
    const char *call_file; /* where it was inlined, if it was */
    unsigned call_line;
    uint32_t outer; /* number of the scope that it was inlined into; 0: it was not inlined */
};

/* What is known of one address. */
struct cp__dwarf_place {
    const char *file;
    unsigned line;
    uint32_t scope; /* number of the innermost one; 0: unknown */
    uint64_t entry; /* where the outermost one begins; one in several parts: the part */
};

/* What the debug information knows of a list of addresses; zero it first. */
struct cp__dwarf {
    struct cp__dwarf_place *places; /* one for each address */
    struct cp__dwarf_scope *scopes; /* [0] is none */
    size_t n_scopes;
    size_t capacity;
};

/* The addresses ascend. -ENOMEM or 0, also where the module has no debug information. */
int cp__dwarf_find(struct cp__dwarf *dwarf, Dwfl_Module *module, const uint64_t *addresses, size_t n);
void cp__dwarf_free(struct cp__dwarf *dwarf);

/* ---- elf.c ---------------------------------------------------------------------------- */

/* The code that symbol tables name, in order of address. */
struct cp__elf_symbols {
    struct cp__elf_symbol *items;
    size_t n;
    size_t capacity;
};

/* Reads all symbol tables that the module has. -ENOMEM or 0. */
int cp__elf_symbols_read(struct cp__elf_symbols *symbols, Dwfl_Module *module);
/* The name of the code at an address, and where it begins; NULL where no symbol covers it. */
const char *cp__elf_symbols_find(const struct cp__elf_symbols *symbols, uint64_t address, uint64_t *start);
void cp__elf_symbols_free(struct cp__elf_symbols *symbols);

#endif
