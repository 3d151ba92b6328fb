/* The parts that symbol.c puts together: an object's debug information, its symbol table, and the files of
 * both. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_PART_H
#define COUNTERPOINT_PPROF_SYMBOL_PART_H

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "demangle.h"
#include "mapping.h"
#include "symbol.h"

/* ---- file.c --------------------------------------------------------------------------- */

/* Opens a file for reading if it is a regular one: to open or read something else may wait, or have an
 * effect. Returns the descriptor, or a negative errno value: -ENOEXEC if it is another kind of file. */
int cp__open_regular(const char *path);
/* Opens the object of a mapping as the only module of a Dwfl, which the caller ends by dwfl_end(). Returns
 * NULL if the object cannot be read. Stores what is missing: nothing, or why the object, or all of it but the
 * part that is in memory, cannot be read. */
Dwfl_Module *cp__module_open(const struct cp__mapping *mapping, Dwfl **dwfl, enum cp__missing *missing);
/* Returns why some functions of a module that was opened have no names, if its file tells. */
enum cp__missing cp__module_missing(Dwfl_Module *module);
/* Returns whether the bytes of this process at an address are those at an offset of the mapping's file, as
 * far as this user can read both. */
bool cp__file_has_code(const struct cp__mapping *mapping, uint64_t address, uint64_t size, uint64_t offset);

/* ---- image.c -------------------------------------------------------------------------- */

/* Makes a file in memory of the segments that the dynamic linker has loaded of an object. Returns the
 * descriptor, or a negative errno value. */
int cp__image_open(const struct cp__mapping *mapping);
/* Finds out where the object of a mapping is, whose file begins at the mapping "first", if the dynamic linker
 * does not tell. Stores the build id, and returns its size; 0: there is none, or no object. */
enum { CP__MAX_ID = 64 };
size_t cp__image_link(struct cp__mapping *mapping, const struct cp__mapping *first, uint8_t id[CP__MAX_ID]);

/* ---- dwarf.c -------------------------------------------------------------------------- */

/* A function, inlined or not, that contains some of the addresses. */
struct cp__dwarf_scope {
    const char *name;   /* the linker's, "_ZN3foo3barEv", or that in the source */
    char *qualified;    /* the name in the source, with scopes and parameters; NULL: "name" says all */
    uint64_t symbol_at; /* where the code of a C++ function begins that has no linkage name; 0: unknown */
    char *symbol;       /* the linker's name for that code; NULL: none was found */
    unsigned start_line;
    const char *call_file; /* where the function was inlined; NULL: it was not, or the file is unknown */
    unsigned call_line;
    uint32_t outer; /* number of the scope that the function was inlined into; 0: it was not inlined */
};

/* What the debug information says about one address. */
struct cp__dwarf_place {
    const char *file;
    const char *directory; /* what relative names of files are relative to; NULL: unknown */
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
    struct cp__dwarf_unit *units; /* see scope.c */
    size_t n_units, units_capacity;
    bool is_part_missing; /* functions of an address are in another file that cannot be read */
};

/* Looks up addresses, which must ascend. Returns 0, also if the module has no debug information, or
 * -ENOMEM. */
int cp__dwarf_find(struct cp__dwarf *dwarf, Dwfl_Module *module, const uint64_t *addresses, size_t n);
void cp__dwarf_free(struct cp__dwarf *dwarf);

/* ---- scope.c -------------------------------------------------------------------------- */

/* Returns whether functions can stand inside an entry with that tag. */
bool cp__dwarf_may_hold_functions(int tag);

/* Follows one reference of an entry. Returns false if the entry has no such attribute. */
bool cp__dwarf_follow(const Dwarf_Die *die, unsigned name, Dwarf_Die *to);

/* Stores the entry that a type, a namespace or a function stands in. Returns 1, 0 if that is the unit itself,
 * or -ENOMEM. */
int cp__dwarf_find_parent(struct cp__dwarf *dwarf, const Dwarf_Die *die, Dwarf_Die *parent);

/* Returns where the code of a function begins: at its entry, or with its first part; 0: unknown. */
Dwarf_Addr cp__dwarf_entry(Dwarf_Die *die);

/* Stores where the code of an inlined function begins that was also compiled on its own in the same unit; 0
 * if it was not. Returns 0 or -ENOMEM. */
int cp__dwarf_find_copy(struct cp__dwarf *dwarf, const Dwarf_Die *die, Dwarf_Addr *entry);

void cp__dwarf_units_free(struct cp__dwarf *dwarf);

/* ---- signature.c ---------------------------------------------------------------------- */

/* Returns the first declaration of what the entry of a function or an inlined call is about. */
Dwarf_Die cp__dwarf_declaration(const Dwarf_Die *die);

/* Stores a C++ function's name with what tells it from others of that name, "outer::(anonymous
 * namespace)::Type::name(int) const", which the caller frees; NULL if that is the name alone. The declaration
 * is that of cp__dwarf_declaration(). Returns 0 or -ENOMEM. */
int cp__dwarf_qualify(struct cp__dwarf *dwarf, const Dwarf_Die *declaration, char **qualified);

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
