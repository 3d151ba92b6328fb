/* What debug information says: lines, functions, and what was inlined into them. */
#include "part.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/table.h"

/* A scope inside that many others is not looked into. */
enum { MAX_DEPTH = 200 };

/* The walk through one unit: the scopes are visited once, each with the addresses that lie in it. */
struct walk {
    struct cp__dwarf *dwarf;
    const uint64_t *addresses; /* all of them */
    Dwarf_Addr bias;           /* of addresses against those in the debug information */
    Dwarf_Files *files;        /* the unit's, NULL where it names none */
    unsigned depth;
};

/* Some of the addresses, neighbours: from first up to end. */
struct slice {
    size_t first;
    size_t end;
};

static int visit_children(struct walk *walk, Dwarf_Die *parent, struct slice slice, uint32_t outer);

/* How many of the slice's addresses lie below a limit, plus its first. */
static size_t lower_bound(const struct walk *walk, struct slice slice, Dwarf_Addr limit)
{
    size_t middle;

    while (slice.first < slice.end) {
        middle = slice.first + (slice.end - slice.first) / 2;
        if (walk->addresses[middle] - walk->bias < limit)
            slice.first = middle + 1;
        else
            slice.end = middle;
    }
    return slice.first;
}

/* Those of the slice that lie in a range. A linker leaves ranges at 0 for code that it threw away. */
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

/* Names of C++ and Rust as the linker has them, which readers translate in full; the source's are
 * without scopes and types. In C the linker's are no better: "__GI___libc_malloc" for "__libc_malloc". */
static const char *function_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *linkage_name = NULL, *name;

    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != NULL ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) != NULL)
        linkage_name = dwarf_formstring(&attribute);
    if (linkage_name != NULL && (strncmp(linkage_name, "_Z", 2) == 0 || strncmp(linkage_name, "_R", 2) == 0))
        return linkage_name;
    name = dwarf_diename(die);
    return name != NULL ? name : linkage_name; /* clang's "_GLOBAL__sub_I_file.cc" has no other */
}

static unsigned number(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;

    if (dwarf_formudata(dwarf_attr(die, name, &attribute), &value) != 0)
        return 0;
    return (unsigned)value;
}

static void read_scope(const struct walk *walk, Dwarf_Die *die, struct cp__dwarf_scope *scope)
{
    int line;

    scope->name = function_name(die);
    if (dwarf_decl_line(die, &line) == 0)
        scope->start_line = (unsigned)line;
    if (dwarf_tag(die) != DW_TAG_inlined_subroutine)
        return;
    scope->call_line = number(die, DW_AT_call_line);
    if (walk->files != NULL)
        scope->call_file = dwarf_filesrc(walk->files, number(die, DW_AT_call_file), NULL, NULL);
}

/* Adds a scope; its number, or -ENOMEM. */
static int64_t add_scope(const struct walk *walk, Dwarf_Die *die, uint32_t outer)
{
    struct cp__dwarf *dwarf = walk->dwarf;
    struct cp__dwarf_scope *scope;

    if (CP__RESERVE(dwarf->scopes, dwarf->capacity, dwarf->n_scopes + 1) < 0 || dwarf->n_scopes == UINT32_MAX)
        return -ENOMEM;
    scope = &dwarf->scopes[dwarf->n_scopes];
    *scope = (struct cp__dwarf_scope){.outer = outer};
    read_scope(walk, die, scope);
    return (int64_t)dwarf->n_scopes++;
}

/* Visits an entry that has code of its own; is_function: it is a scope, too, and not just a block in one. */
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
        result = visit_children(walk, die, inside, (uint32_t)scope);
    }
    return result;
}

static int visit(struct walk *walk, Dwarf_Die *die, struct slice slice, uint32_t outer)
{
    switch (dwarf_tag(die)) {
    case DW_TAG_subprogram:
        return visit_code(walk, die, true, slice, 0);
    case DW_TAG_inlined_subroutine:
        return visit_code(walk, die, true, slice, outer);
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

/* Can functions stand inside such an entry? */
static bool may_hold_functions(int tag)
{
    switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
        return true;
    default:
        return false;
    }
}

/*
 * Visits the functions that stand inside other functions or inside types, at any depth, and so inside entries
 * that visit() passes over, because their code is elsewhere or because they have none: gcc writes lambdas,
 * methods of local classes and nested functions there.
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
        if (result == 0 && may_hold_functions(tag))
            result =
                visit_nested(walk, &die, all, is_nested || (tag != DW_TAG_namespace && tag != DW_TAG_module));
    } while (result == 0 && dwarf_siblingof(&die, &die) == 0);
    walk->depth--;
    return result;
}

/* ---- Units ----------------------------------------------------------------------------------- */

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
        place->line = (unsigned)line;
    }
}

/* Is one of the unit's addresses in no function that was visited? */
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

/* A unit's lines stand with its main entry, its functions perhaps in a file of their own (split). */
static int visit_unit(struct walk *walk, Dwarf_Die *unit, Dwarf_Die *split, size_t n)
{
    Dwarf_Die *functions = split->addr != NULL ? split : unit;
    struct slice all = {0, n}, inside;
    Dwarf_Addr base, low, high;
    bool is_hit = false;
    ptrdiff_t at = 0;
    size_t n_files;
    int result;

    while ((at = dwarf_ranges(unit, at, &base, &low, &high)) > 0) {
        inside = narrow_slice(walk, all, low, high);
        find_lines(walk, unit, inside);
        is_hit = is_hit || !is_slice_empty(inside);
    }
    if (!is_hit)
        return 0;
    if (dwarf_getsrcfiles(functions, &walk->files, &n_files) != 0)
        walk->files = NULL;
    result = visit_children(walk, functions, all, 0);
    /* All of a large unit's entries take much longer to read than those that lead to the addresses. */
    if (result == 0 && is_any_unknown(walk, unit, all))
        result = visit_nested(walk, functions, all, false);
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
    dwarf->n_scopes = 1;
    while (debug != NULL && result == 0 && dwarf_get_units(debug, unit, &unit, NULL, NULL, &die, &split) == 0)
        result = visit_unit(&walk, &die, &split, n);
    return result;
}

void cp__dwarf_free(struct cp__dwarf *dwarf)
{
    free(dwarf->places);
    free(dwarf->scopes);
}
