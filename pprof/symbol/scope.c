/*
 * Finds the entries of debug information that other entries stand in, and the code of functions that were
 * inlined and also compiled on their own.
 *
 * An entry does not know the entry that it stands in. So an index of a unit is made, once, when the first
 * name of the unit is asked for.
 */
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "part.h"
#include "runtime/base/table.h"

/* The deepest nesting of entries that is read. */
enum { MAX_DEPTH = 200 };

/* An entry of a unit that functions can stand in, a function, or a type that can be a parameter's. */
struct entry {
    Dwarf_Die die;
    uint32_t parent; /* number of the entry that it stands in, plus 1; 0: the unit itself */
};

/* A function that was also compiled on its own, besides the places where it was inlined. */
struct copy {
    const void *origin; /* address of the entry that describes the function */
    Dwarf_Addr entry;   /* where the code begins, as the debug information says */
};

/* Both lists ascend by the addresses of entries, which stand in memory in the order of the file. */
struct cp__dwarf_unit {
    const Dwarf_CU *unit;
    struct entry *entries;
    size_t n, capacity;
    struct copy *copies;
    size_t n_copies, copies_capacity;
};

/* ---- The index of a unit --------------------------------------------------------------------- */

bool cp__dwarf_may_hold_functions(int tag)
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

bool cp__dwarf_follow(const Dwarf_Die *die, unsigned name, Dwarf_Die *to)
{
    Dwarf_Die from = *die;
    Dwarf_Attribute attribute;

    return dwarf_formref_die(dwarf_attr(&from, name, &attribute), to) != NULL;
}

Dwarf_Addr cp__dwarf_entry(Dwarf_Die *die)
{
    Dwarf_Addr base, low, high;

    if (dwarf_entrypc(die, &low) == 0 && low != 0)
        return low;
    return dwarf_ranges(die, 0, &base, &low, &high) > 0 ? low : 0;
}

/* Adds a function's copy if the entry is that of one. */
static int note_copy(struct cp__dwarf_unit *index, Dwarf_Die *die)
{
    struct copy copy;
    Dwarf_Die origin;

    if (dwarf_tag(die) != DW_TAG_subprogram || !cp__dwarf_follow(die, DW_AT_abstract_origin, &origin))
        return 0;
    copy.entry = cp__dwarf_entry(die);
    if (copy.entry == 0)
        return 0;
    copy.origin = origin.addr;
    if (CP__RESERVE(index->copies, index->copies_capacity, index->n_copies + 1) < 0)
        return -ENOMEM;
    index->copies[index->n_copies++] = copy;
    return 0;
}

/* Adds what stands in an entry to the index. */
static int note_children(struct cp__dwarf_unit *index, Dwarf_Die *parent, uint32_t number, unsigned depth)
{
    Dwarf_Die die;
    int result = 0;

    if (depth == MAX_DEPTH || dwarf_child(parent, &die) != 0)
        return 0;
    do {
        if (!cp__dwarf_may_hold_functions(dwarf_tag(&die)) && dwarf_tag(&die) != DW_TAG_enumeration_type)
            continue;
        if (CP__RESERVE(index->entries, index->capacity, index->n + 1) < 0 || index->n == UINT32_MAX - 1)
            return -ENOMEM;
        index->entries[index->n++] = (struct entry){die, number};
        result = note_copy(index, &die);
        if (result == 0)
            result = note_children(index, &die, (uint32_t)index->n, depth + 1);
    } while (result == 0 && dwarf_siblingof(&die, &die) == 0);
    return result;
}

static int compare_copies(const void *left, const void *right)
{
    const struct copy *a = left, *b = right;

    if (a->origin != b->origin)
        return (uintptr_t)a->origin < (uintptr_t)b->origin ? -1 : 1;
    return a->entry < b->entry ? -1 : a->entry > b->entry;
}

/* Returns the index of the unit that an entry stands in, and makes it if need be; NULL without memory. */
static struct cp__dwarf_unit *index_of(struct cp__dwarf *dwarf, const Dwarf_Die *die)
{
    struct cp__dwarf_unit *index;
    Dwarf_Die top;

    for (size_t i = dwarf->n_units; i-- > 0;)
        if (dwarf->units[i].unit == die->cu)
            return &dwarf->units[i];
    if (dwarf_cu_die(die->cu, &top, NULL, NULL, NULL, NULL, NULL, NULL) == NULL ||
        CP__RESERVE(dwarf->units, dwarf->units_capacity, dwarf->n_units + 1) < 0)
        return NULL;
    index = &dwarf->units[dwarf->n_units++];
    *index = (struct cp__dwarf_unit){.unit = die->cu};
    if (note_children(index, &top, 0, 0) < 0)
        return NULL;
    if (index->n_copies > 0)
        qsort(index->copies, index->n_copies, sizeof index->copies[0], compare_copies);
    return index;
}

void cp__dwarf_units_free(struct cp__dwarf *dwarf)
{
    for (size_t i = 0; i < dwarf->n_units; i++) {
        free(dwarf->units[i].entries);
        free(dwarf->units[i].copies);
    }
    free(dwarf->units);
}

int cp__dwarf_find_parent(struct cp__dwarf *dwarf, const Dwarf_Die *die, Dwarf_Die *parent)
{
    const struct cp__dwarf_unit *index = index_of(dwarf, die);
    size_t low;

    if (index == NULL)
        return -ENOMEM;
    low = CP__COUNT_BEFORE(index->n, i, (uintptr_t)index->entries[i].die.addr < (uintptr_t)die->addr);
    if (low == index->n || index->entries[low].die.addr != die->addr || index->entries[low].parent == 0)
        return 0;
    *parent = index->entries[index->entries[low].parent - 1].die;
    return 1;
}

int cp__dwarf_find_copy(struct cp__dwarf *dwarf, const Dwarf_Die *die, Dwarf_Addr *entry)
{
    const struct cp__dwarf_unit *index = index_of(dwarf, die);
    Dwarf_Die origin;
    size_t low;

    *entry = 0;
    if (index == NULL)
        return -ENOMEM;
    if (!cp__dwarf_follow(die, DW_AT_abstract_origin, &origin))
        return 0;
    low = CP__COUNT_BEFORE(index->n_copies, i, (uintptr_t)index->copies[i].origin < (uintptr_t)origin.addr);
    if (low < index->n_copies && index->copies[low].origin == origin.addr)
        *entry = index->copies[low].entry;
    return 0;
}
