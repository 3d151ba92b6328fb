/* Reads debug information: lines, functions, and the functions that were inlined into them. */
#include "part.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/table.h"

/* The deepest nesting of entries that is read. */
enum { MAX_DEPTH = 200 };

/* The walk through one unit. Each scope is visited once, with the addresses that lie in it. */
struct walk {
    struct cp__dwarf *dwarf;
    const uint64_t *addresses; /* all addresses of the search */
    Dwarf_Addr bias;           /* what is added to addresses in the debug information */
    Dwarf_Files *files;        /* the unit's files; NULL if the unit names none */
    const char *directory;     /* where the compiler ran; NULL: unknown */
    unsigned depth;
    int language;    /* of the unit; -1: unknown */
    Dwarf_Die *call; /* of the artificial function that is being visited, in a scope; NULL: of none */
};

/* Neighbouring addresses: those with the numbers from "first" to before "end". */
struct slice {
    size_t first;
    size_t end;
};

static int visit_children(struct walk *walk, Dwarf_Die *parent, struct slice slice, uint32_t outer);

/* Returns the number of the first address in the slice that is not below the limit; slice.end if there is
 * none. */
static size_t lower_bound(const struct walk *walk, struct slice slice, Dwarf_Addr limit)
{
    const uint64_t *addresses = walk->addresses + slice.first;

    return slice.first + CP__COUNT_BEFORE(slice.end - slice.first, i, addresses[i] - walk->bias < limit);
}

/* Returns the part of the slice that lies in a range. Ranges at 0 belong to code that the linker has thrown
 * away. */
static struct slice narrow_slice(const struct walk *walk, struct slice slice, Dwarf_Addr low, Dwarf_Addr high)
{
    if (low == 0)
        return (struct slice){0, 0};
    return (struct slice){lower_bound(walk, slice, low), lower_bound(walk, slice, high)};
}

static bool is_slice_empty(struct slice slice)
{
    return slice.first >= slice.end;
}

/* ---- Scopes ---------------------------------------------------------------------------------- */

/* DW_LANG_C_plus_plus_17 and _20, for which the <dwarf.h> of elfutils 0.188 has no names. */
enum { LANG_CXX_17 = 0x2b, LANG_CXX_20 = 0x2c };

static bool is_language_cxx(int language)
{
    switch (language) {
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case LANG_CXX_17:
    case LANG_CXX_20:
        return true;
    default:
        return false;
    }
}

static bool is_language_fortran(int language)
{
    return language == DW_LANG_Fortran77 || language == DW_LANG_Fortran90 || language == DW_LANG_Fortran95 ||
           language == DW_LANG_Fortran03 || language == DW_LANG_Fortran08;
}

/* Returns the language of the unit in which a function is declared. With -flto its code is described in
 * another unit, and dwz moves declarations into units without a language. */
static int language_of(const struct walk *walk, const Dwarf_Die *declaration)
{
    Dwarf_Die copy = *declaration, unit;
    const int language = dwarf_diecu(&copy, &unit, NULL, NULL) == NULL ? -1 : dwarf_srclang(&unit);

    return language < 0 ? walk->language : language;
}

/* Returns the name of a function. For C++, Rust and Fortran this is the linker's name if the entry has it,
 * because the name in the source lacks scopes and types. In C the linker's name is no better:
 * "__GI___libc_malloc" for "__libc_malloc". */
static const char *function_name(Dwarf_Die *die, int language)
{
    Dwarf_Attribute attribute;
    const char *linkage_name = NULL, *name;

    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != NULL ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) != NULL)
        linkage_name = dwarf_formstring(&attribute);
    if (linkage_name != NULL && (cp__is_mangled(linkage_name) || is_language_fortran(language)))
        return linkage_name;
    name = dwarf_diename(die);
    return name != NULL ? name : linkage_name; /* clang's "_GLOBAL__sub_I_file.cc" has only a linkage name */
}

/* Adds what tells a function without a linkage name from others: its scopes, and where its code begins, which
 * has a symbol. The code of an inlined function is elsewhere, if there is any. Returns 0 or -ENOMEM. */
static int read_scopes_of(const struct walk *walk, Dwarf_Die *die, const Dwarf_Die *declaration,
                          struct cp__dwarf_scope *scope)
{
    Dwarf_Addr entry = 0;

    if (dwarf_tag(die) == DW_TAG_inlined_subroutine) {
        if (cp__dwarf_find_copy(walk->dwarf, die, &entry) < 0)
            return -ENOMEM;
    } else {
        entry = cp__dwarf_entry(die);
    }
    scope->symbol_at = entry == 0 ? 0 : entry + walk->bias;
    return cp__dwarf_qualify(walk->dwarf, declaration, &scope->qualified);
}

/* Returns the value of a numeric attribute; 0 if the entry lacks it. */
static unsigned number(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;

    if (dwarf_formudata(dwarf_attr(die, name, &attribute), &value) != 0)
        return 0;
    return (unsigned)value;
}

/* Returns the file of an inlined call; NULL: unknown. */
static const char *call_file(const struct walk *walk, Dwarf_Die *call)
{
    return walk->files == NULL ? NULL : dwarf_filesrc(walk->files, number(call, DW_AT_call_file), NULL, NULL);
}

/* Fills *scope from a function's entry or an inlined call's entry. Returns 0 or -ENOMEM. */
static int read_scope(const struct walk *walk, Dwarf_Die *die, struct cp__dwarf_scope *scope)
{
    const Dwarf_Die declaration = cp__dwarf_declaration(die);
    const int language = language_of(walk, &declaration);
    int line;

    scope->name = function_name(die, language);
    if (dwarf_decl_line(die, &line) == 0)
        scope->start_line = (unsigned)line;
    if (dwarf_tag(die) == DW_TAG_inlined_subroutine) {
        Dwarf_Die *call = walk->call != NULL ? walk->call : die;

        scope->call_line = number(call, DW_AT_call_line);
        scope->call_file = call_file(walk, call);
    }
    if (scope->name == NULL || cp__is_mangled(scope->name))
        return 0;
    return is_language_cxx(language) ? read_scopes_of(walk, die, &declaration, scope) : 0;
}

/* Adds a scope. Returns its number, or -ENOMEM. */
static int64_t add_scope(const struct walk *walk, Dwarf_Die *die, uint32_t outer)
{
    struct cp__dwarf *dwarf = walk->dwarf;
    struct cp__dwarf_scope *scope;

    if (CP__RESERVE(dwarf->scopes, dwarf->capacity, dwarf->n_scopes + 1) < 0 || dwarf->n_scopes == UINT32_MAX)
        return -ENOMEM;
    scope = &dwarf->scopes[dwarf->n_scopes];
    *scope = (struct cp__dwarf_scope){.outer = outer};
    dwarf->n_scopes++;
    return read_scope(walk, die, scope) < 0 ? -ENOMEM : (int64_t)dwarf->n_scopes - 1;
}

/* Gives the code of an artificial function, which is in no scope inside it, the place of the call. */
static void take_place_of_call(const struct walk *walk, struct slice inside, uint32_t scope)
{
    struct cp__dwarf_place *places = walk->dwarf->places;

    for (size_t i = inside.first; i < inside.end; i++) {
        if (places[i].scope == scope) {
            places[i].file = call_file(walk, walk->call);
            places[i].line = number(walk->call, DW_AT_call_line);
        }
    }
}

/* Visits what is inside an entry that has code: of a function, as that of a scope of its own. */
static int visit_inside(struct walk *walk, Dwarf_Die *die, bool is_function, struct slice inside,
                        uint32_t scope)
{
    Dwarf_Die *before = walk->call;
    int result;

    if (is_function)
        walk->call = NULL;
    result = visit_children(walk, die, inside, scope);
    if (walk->call != NULL)
        take_place_of_call(walk, inside, scope);
    walk->call = before;
    return result;
}

/* Visits an entry that has code. If is_function is set, the entry is a scope; else it is only a block in
 * one. */
static int visit_code(struct walk *walk, Dwarf_Die *die, bool is_function, struct slice slice, uint32_t outer)
{
    int64_t scope = is_function ? -1 : (int64_t)outer;
    Dwarf_Addr base, low, high;
    struct slice inside;
    ptrdiff_t at = 0;
    int result = 0;
    size_t i;

    while (result == 0 && (at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
        inside = narrow_slice(walk, slice, low, high);
        if (is_slice_empty(inside))
            continue;
        if (scope < 0)
            scope = add_scope(walk, die, outer);
        if (scope < 0)
            return -ENOMEM;
        for (i = inside.first; i < inside.end; i++) {
            walk->dwarf->places[i].scope = (uint32_t)scope;
            if (outer == 0)
                walk->dwarf->places[i].entry = low + walk->bias;
        }
        result = visit_inside(walk, die, is_function, inside, (uint32_t)scope);
    }
    return result;
}

/* Returns whether the entry is an inlined call of a function that the source calls artificial
 * (__attribute__((artificial))): it wants to be taken for its caller, as the C library's checks and
 * cp_g_park() do. Compilers say the same of what they make, which is in no line of the source, or a member of
 * a type. */
static bool is_artificial(Dwarf_Die *die)
{
    Dwarf_Die origin;

    return cp__dwarf_follow(die, DW_AT_abstract_origin, &origin) &&
           dwarf_hasattr(&origin, DW_AT_artificial) && dwarf_hasattr(&origin, DW_AT_decl_line) &&
           !dwarf_hasattr(&origin, DW_AT_object_pointer) && !dwarf_hasattr(&origin, DW_AT_specification);
}

/* Visits the inlined call of an artificial function: its code has the name of the function that it was
 * inlined into, and the line of the call. */
static int visit_artificial(struct walk *walk, Dwarf_Die *die, struct slice slice, uint32_t outer)
{
    Dwarf_Die *before = walk->call;
    int result;

    if (before == NULL)
        walk->call = die;
    result = visit_code(walk, die, false, slice, outer);
    walk->call = before;
    return result;
}

/* Visits an entry, and the entries below it, if addresses of the slice may lie in it. */
static int visit(struct walk *walk, Dwarf_Die *die, struct slice slice, uint32_t outer)
{
    switch (dwarf_tag(die)) {
    case DW_TAG_subprogram:
        return visit_code(walk, die, true, slice, 0);
    case DW_TAG_inlined_subroutine:
        return is_artificial(die) ? visit_artificial(walk, die, slice, outer)
                                  : visit_code(walk, die, true, slice, outer);
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
        return visit_code(walk, die, false, slice, outer);
    case DW_TAG_namespace:
    case DW_TAG_module:
        return visit_children(walk, die, slice, outer);
    default:
        return 0;
    }
}

/* Visits the children of an entry. */
static int visit_children(struct walk *walk, Dwarf_Die *parent, struct slice slice, uint32_t outer)
{
    Dwarf_Die die;
    int result = 0;

    if (walk->depth == MAX_DEPTH || dwarf_child(parent, &die) != 0)
        return 0;
    walk->depth++;
    do {
        result = visit(walk, &die, slice, outer);
    } while (result == 0 && dwarf_siblingof(&die, &die) == 0);
    walk->depth--;
    return result;
}

/*
 * Visits functions that stand inside other functions or inside types, at any depth. visit() does not reach
 * them, because it passes over outer entries that have no code, or whose code is elsewhere. gcc writes
 * lambdas, methods of local classes and nested functions there.
 */
static int visit_nested(struct walk *walk, Dwarf_Die *parent, struct slice all, bool is_nested)
{
    Dwarf_Die die;
    int result = 0, tag;

    if (walk->depth == MAX_DEPTH || dwarf_child(parent, &die) != 0)
        return 0;
    walk->depth++;
    do {
        tag = dwarf_tag(&die);
        if (is_nested && tag == DW_TAG_subprogram)
            result = visit_code(walk, &die, true, all, 0);
        if (result == 0 && cp__dwarf_may_hold_functions(tag))
            result =
                visit_nested(walk, &die, all, is_nested || (tag != DW_TAG_namespace && tag != DW_TAG_module));
    } while (result == 0 && dwarf_siblingof(&die, &die) == 0);
    walk->depth--;
    return result;
}

/* ---- Units ----------------------------------------------------------------------------------- */

/* Returns the directory that the names of a unit's files are relative to. A build that hides where it ran
 * makes this a relative name, too, which says nothing here. */
static const char *directory_of(Dwarf_Die *unit)
{
    Dwarf_Attribute attribute;
    const char *directory = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));

    return directory != NULL && directory[0] == '/' ? directory : NULL;
}

/* Finds the file and the line of each address of the slice. */
static void find_lines(const struct walk *walk, Dwarf_Die *unit, struct slice slice)
{
    struct cp__dwarf_place *place;
    Dwarf_Line *row;
    size_t i;
    int line;

    for (i = slice.first; i < slice.end; i++) {
        place = &walk->dwarf->places[i];
        row = dwarf_getsrc_die(unit, walk->addresses[i] - walk->bias);
        if (row == NULL || dwarf_lineno(row, &line) != 0)
            continue;
        place->file = dwarf_linesrc(row, NULL, NULL);
        place->directory = walk->directory;
        place->line = (unsigned)line;
    }
}

/* Returns whether an address in the unit's ranges belongs to no function that was visited. */
static bool is_any_unknown(const struct walk *walk, Dwarf_Die *unit, struct slice all)
{
    Dwarf_Addr base, low, high;
    struct slice inside;
    ptrdiff_t at = 0;
    size_t i;

    while ((at = dwarf_ranges(unit, at, &base, &low, &high)) > 0) {
        inside = narrow_slice(walk, all, low, high);
        for (i = inside.first; i < inside.end; i++)
            if (walk->dwarf->places[i].scope == 0)
                return true;
    }
    return false;
}

/* Returns whether the unit has but the lines, and names a file that has the functions. */
static bool is_skeleton(Dwarf_Die *unit)
{
    return dwarf_hasattr(unit, DW_AT_dwo_name) || dwarf_hasattr(unit, DW_AT_GNU_dwo_name);
}

/* Finds the lines and functions of one unit. The unit's main entry has the lines. The functions may be in a
 * file of their own, whose entry is "split". */
static int visit_unit(struct walk *walk, Dwarf_Die *unit, Dwarf_Die *split, size_t n)
{
    Dwarf_Die *functions = split->addr != NULL ? split : unit;
    struct slice all = {0, n}, inside;
    Dwarf_Addr base, low, high;
    bool is_hit = false;
    ptrdiff_t at = 0;
    size_t n_files;
    int result;

    walk->directory = directory_of(unit);
    while ((at = dwarf_ranges(unit, at, &base, &low, &high)) > 0) {
        inside = narrow_slice(walk, all, low, high);
        find_lines(walk, unit, inside);
        is_hit = is_hit || !is_slice_empty(inside);
    }
    if (!is_hit)
        return 0;
    if (dwarf_getsrcfiles(functions, &walk->files, &n_files) != 0)
        walk->files = NULL;
    walk->language = dwarf_srclang(functions);
    result = visit_children(walk, functions, all, 0);
    /* Only now, because reading all entries of a large unit takes much longer than the walk above. */
    if (result == 0 && is_any_unknown(walk, unit, all))
        result = visit_nested(walk, functions, all, false);
    if (split->addr == NULL && is_skeleton(unit) && is_any_unknown(walk, unit, all))
        walk->dwarf->is_part_missing = true;
    return result;
}

int cp__dwarf_find(struct cp__dwarf *dwarf, Dwfl_Module *module, const uint64_t *addresses, size_t n)
{
    struct walk walk = {.dwarf = dwarf, .addresses = addresses};
    Dwarf *debug = dwfl_module_getdwarf(module, &walk.bias);
    Dwarf_CU *unit = NULL;
    Dwarf_Die die, split;
    int result = 0;

    dwarf->places = calloc(n, sizeof *dwarf->places);
    if (dwarf->places == NULL || CP__RESERVE(dwarf->scopes, dwarf->capacity, 1) < 0)
        return -ENOMEM;
    dwarf->scopes[0] = (struct cp__dwarf_scope){0};
    dwarf->n_scopes = 1;
    while (debug != NULL && result == 0 && dwarf_get_units(debug, unit, &unit, NULL, NULL, &die, &split) == 0)
        result = visit_unit(&walk, &die, &split, n);
    return result;
}

void cp__dwarf_free(struct cp__dwarf *dwarf)
{
    for (size_t i = 0; i < dwarf->n_scopes; i++) {
        free(dwarf->scopes[i].qualified);
        free(dwarf->scopes[i].symbol);
    }
    cp__dwarf_units_free(dwarf);
    free(dwarf->places);
    free(dwarf->scopes);
}
