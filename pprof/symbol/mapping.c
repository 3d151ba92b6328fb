/* Collects the mappings of the process, from /proc/self/maps and the dynamic linker. See mapping.h. */
#include "mapping.h"

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/note.h"
#include "runtime/base/table.h"

static void mapping_free(struct cp__mapping *mapping)
{
    free(mapping->file);
    free(mapping->build_id);
}

void cp__mappings_free(struct cp__mappings *mappings)
{
    size_t i;

    for (i = 0; i < mappings->n; i++)
        mapping_free(&mappings->items[i]);
    free(mappings->items);
}

size_t cp__mappings_find(const struct cp__mappings *mappings, uint64_t address)
{
    size_t i;

    for (i = 0; i < mappings->n; i++)
        if (!mappings->items[i].kernel && address >= mappings->items[i].start &&
            address < mappings->items[i].limit)
            break;
    return i;
}

/* ---- What the kernel says -------------------------------------------------------------------- */

/* Parses a line of /proc/self/maps. Returns 1 if the memory is executable, 0 if not, or -ENOMEM. */
static int parse_mapping(char *line, struct cp__mapping *mapping)
{
    static const char suffix[] = " (deleted)";
    char permissions[5];
    int file_at = 0;
    size_t length;

    line[strcspn(line, "\n")] = '\0';
    *mapping = (struct cp__mapping){0};
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &mapping->start, &mapping->limit,
               permissions, &mapping->offset, &file_at) != 4 ||
        permissions[2] != 'x')
        return 0;
    line += file_at;
    length = strlen(line);
    if (length >= sizeof suffix && strcmp(line + length - (sizeof suffix - 1), suffix) == 0) {
        line[length - (sizeof suffix - 1)] = '\0';
        mapping->deleted = true;
    }
    mapping->file = strdup(line[0] == '\0' ? "//anon" : line);
    return mapping->file == NULL ? -ENOMEM : 1;
}

/* Appends a mapping to the set, which then owns the mapping's strings. */
static int append_mapping(struct cp__mappings *mappings, const struct cp__mapping *mapping)
{
    if (CP__RESERVE(mappings->items, mappings->capacity, mappings->n + 1) < 0)
        return -ENOMEM;
    mappings->items[mappings->n++] = *mapping;
    return 0;
}

int cp__mappings_add_kernel(struct cp__mappings *mappings, const char *name, size_t *number)
{
    struct cp__mapping kernel = {.start = CP__KERNEL_START, .limit = UINT64_MAX, .kernel = true};

    name = name[0] != '\0' ? name : "[kernel.kallsyms]";
    for (*number = 0; *number < mappings->n; ++*number)
        if (mappings->items[*number].kernel && strcmp(mappings->items[*number].file, name) == 0)
            return 0;
    kernel.file = strdup(name);
    if (kernel.file == NULL || append_mapping(mappings, &kernel) < 0) {
        free(kernel.file);
        return -ENOMEM;
    }
    return 0;
}

/* Fills the set from /proc/self/maps. */
static int read_maps(struct cp__mappings *mappings)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    struct cp__mapping mapping;
    char *line = NULL;
    size_t capacity = 0;
    int result = 0;

    if (maps == NULL)
        return -errno;
    while (result >= 0 && getline(&line, &capacity, maps) >= 0) {
        result = parse_mapping(line, &mapping);
        if (result == 1 && append_mapping(mappings, &mapping) < 0) {
            mapping_free(&mapping);
            result = -ENOMEM;
        }
    }
    if (result >= 0)
        result = feof(maps) ? 0 : -ENOMEM;
    free(line);
    fclose(maps);
    return result;
}

/* ---- What the dynamic linker says ------------------------------------------------------------ */

/* Returns whether a part of the object, its notes, can be read in memory. Only parts that were loaded can
 * be; the linker keeps the object loaded during dl_iterate_phdr(). */
static bool is_loaded(const struct dl_phdr_info *object, const ElfW(Phdr) * part)
{
    const ElfW(Phdr) * p;

    for (p = object->dlpi_phdr; p < object->dlpi_phdr + object->dlpi_phnum; p++)
        if (p->p_type == PT_LOAD && (p->p_flags & PF_R) != 0 && part->p_vaddr >= p->p_vaddr &&
            part->p_vaddr + part->p_memsz <= p->p_vaddr + p->p_filesz)
            return true;
    return false;
}

/* Returns the bytes in hexadecimal digits; the caller frees the text. NULL: there is no memory. */
static char *to_hex(const unsigned char *bytes, size_t n)
{
    char *text = malloc(2 * n + 1);
    size_t i;

    if (text == NULL)
        return NULL;
    text[0] = '\0';
    for (i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return text;
}

/* Reads the object's build id. Returns 0 or -ENOMEM. *id keeps its value if the object has no build id. */
static int read_build_id(const struct dl_phdr_info *object, char **id)
{
    const unsigned char *bytes;
    const ElfW(Phdr) * p;
    size_t size;

    for (p = object->dlpi_phdr; p < object->dlpi_phdr + object->dlpi_phnum; p++) {
        if (p->p_type != PT_NOTE || !is_loaded(object, p))
            continue;
        bytes = cp__note_build_id((const uint8_t *)(object->dlpi_addr + p->p_vaddr), p->p_memsz, &size);
        if (bytes == NULL)
            continue;
        *id = to_hex(bytes, size);
        return *id == NULL ? -ENOMEM : 0;
    }
    return 0;
}

/* The context of name_object(). */
struct naming {
    struct cp__mappings *mappings;
    size_t n_objects;
};

/* Called for each loaded object: sets the build id of its mappings. The first object is the program. */
static int name_object(struct dl_phdr_info *object, size_t size, void *context)
{
    struct naming *naming = context;
    bool main = naming->n_objects++ == 0;
    struct cp__mapping *mapping;
    const ElfW(Phdr) * p;
    size_t i;

    (void)size;
    for (p = object->dlpi_phdr; p < object->dlpi_phdr + object->dlpi_phnum; p++) {
        if (p->p_type != PT_LOAD || (p->p_flags & PF_X) == 0)
            continue;
        i = cp__mappings_find(naming->mappings, object->dlpi_addr + p->p_vaddr);
        if (i == naming->mappings->n)
            continue;
        mapping = &naming->mappings->items[i];
        mapping->main = main;
        if (mapping->build_id == NULL && read_build_id(object, &mapping->build_id) < 0)
            return -ENOMEM;
    }
    return 0;
}

/*
 * Sets the build ids of all mappings. The dynamic linker holds a lock of its own meanwhile. In a child that
 * is forked at that time, nobody would release this lock, and the child would wait for ever when it loads a
 * library or takes a profile. Therefore forks wait. A child for which they could not wait (see fork_gate.h)
 * gets a profile without build ids.
 */
static int name_objects(struct cp__mappings *mappings)
{
    struct naming naming = {.mappings = mappings};
    int result = 0;

    if (cp__linker_begin())
        result = dl_iterate_phdr(name_object, &naming);
    cp__linker_end();
    return result;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Returns the mapping of the set that equals the given one, or NULL. */
static struct cp__mapping *find_known(const struct cp__mappings *mappings, const struct cp__mapping *mapping)
{
    struct cp__mapping *m;
    size_t i;

    for (i = 0; i < mappings->n; i++) {
        m = &mappings->items[i];
        if (m->start == mapping->start && m->limit == mapping->limit && m->offset == mapping->offset &&
            strcmp(m->file, mapping->file) == 0 && same_text(m->build_id, mapping->build_id))
            return m;
    }
    return NULL;
}

/* Moves new mappings, those of the program or the others, from "now" to "known". */
static int merge(struct cp__mappings *known, struct cp__mappings *now, bool main)
{
    struct cp__mapping *same;
    size_t i;

    for (i = 0; i < now->n; i++) {
        if (now->items[i].main != main)
            continue;
        same = find_known(known, &now->items[i]);
        if (same != NULL) {
            same->deleted = same->deleted || now->items[i].deleted;
            continue;
        }
        if (append_mapping(known, &now->items[i]) < 0)
            return -ENOMEM;
        now->items[i] = (struct cp__mapping){.main = main};
    }
    return 0;
}

int cp__mappings_note(struct cp__mappings *mappings)
{
    struct cp__mappings now = {0};
    int result = read_maps(&now);

    if (result == 0)
        result = name_objects(&now);
    if (result == 0)
        result = merge(mappings, &now, true);
    if (result == 0)
        result = merge(mappings, &now, false);
    cp__mappings_free(&now);
    return result;
}
