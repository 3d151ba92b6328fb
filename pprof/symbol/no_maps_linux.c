/* Collects the mappings of the process from the dynamic linker alone. See mapping.h. */
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "mapping.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/table.h"

/* Returns the path of an object, as absolute as it is known; NULL if there is no memory. The program's own
 * path is the one that it was executed by. */
static char *copy_path(const struct dl_phdr_info *object)
{
    const char *path = object->dlpi_name;

    if (object->dlpi_addr == getauxval(AT_SYSINFO_EHDR))
        path = "[vdso]";
    else if (path[0] == '\0')
        path = (const char *)getauxval(AT_EXECFN);
    return strdup(path == NULL || path[0] == '\0' ? "[anon]" : path);
}

/* Adds the code of a segment, as the linker has mapped it: in whole pages. */
static int add_segment(struct cp__mappings *mappings, const struct dl_phdr_info *object,
                       const ElfW(Phdr) * segment)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t start = object->dlpi_addr + segment->p_vaddr;
    struct cp__mapping mapping = {.start = start & -page,
                                  .limit = (start + segment->p_memsz + page - 1) & -page,
                                  .offset = segment->p_offset & -page,
                                  .is_code = true,
                                  .is_linked = true};

    if (CP__RESERVE(mappings->items, mappings->capacity, mappings->n + 1) < 0)
        return -ENOMEM;
    mapping.file = copy_path(object);
    if (mapping.file == NULL)
        return -ENOMEM;
    mappings->items[mappings->n++] = mapping;
    return 0;
}

static int add_linked(struct dl_phdr_info *object, size_t size, void *mappings)
{
    const ElfW(Phdr) * p;
    int result = 0;

    (void)size;
    for (p = object->dlpi_phdr; p < object->dlpi_phdr + object->dlpi_phnum && result == 0; p++)
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) != 0)
            result = add_segment(mappings, object, p);
    return result;
}

static int compare_mappings(const void *left, const void *right)
{
    const struct cp__mapping *a = left, *b = right;

    return a->start < b->start ? -1 : a->start > b->start;
}

int cp__mappings_add_linked(struct cp__mappings *mappings)
{
    int result = 0;

    if (cp__linker_begin())
        result = dl_iterate_phdr(add_linked, mappings);
    cp__linker_end();
    if (mappings->n > 0)
        qsort(mappings->items, mappings->n, sizeof mappings->items[0], compare_mappings);
    return result;
}
