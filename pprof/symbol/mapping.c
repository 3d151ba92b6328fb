/* Collects the mappings of the process from /proc/self/maps. See mapping.h. */
#include "mapping.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "linked.h"
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

/* Reads the numbers of a line such as "START-LIMIT r-xp OFFSET MAJOR:MINOR INODE   FILE" by strtoull(), which
 * takes a third of the time of sscanf(). Returns where the file's name begins; NULL: the line has another
 * form. */
static char *parse_numbers(char *line, struct cp__mapping *mapping)
{
    char *at;

    mapping->start = strtoull(line, &at, 16);
    if (*at != '-')
        return NULL;
    mapping->limit = strtoull(at + 1, &at, 16);
    if (strlen(at) < strlen(" rwxp "))
        return NULL;
    mapping->is_code = at[3] == 'x';
    mapping->offset = strtoull(at + strlen(" rwxp "), &at, 16);
    mapping->device = strtoull(at, &at, 16) << 32;
    if (*at != ':')
        return NULL;
    mapping->device |= strtoull(at + 1, &at, 16);
    mapping->inode = strtoull(at, &at, 10);
    return at + strspn(at, " ");
}

/* Parses a line of /proc/self/maps. Returns 1 if the memory is executable or belongs to a file, 0 if not, or
 * -ENOMEM. */
static int parse_mapping(char *line, struct cp__mapping *mapping)
{
    static const char suffix[] = " (deleted)";
    size_t length;

    line[strcspn(line, "\n")] = '\0';
    *mapping = (struct cp__mapping){0};
    line = parse_numbers(line, mapping);
    if (line == NULL || (!mapping->is_code && mapping->inode == 0))
        return 0;
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
    struct cp__mapping kernel = {
        .start = CP__KERNEL_START, .limit = UINT64_MAX, .kernel = true, .is_code = true};

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

/* Fills the set from /proc/self/maps, in ascending order. */
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

/* ---- What the set keeps ---------------------------------------------------------------------- */

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
            m->inode == mapping->inode && m->device == mapping->device &&
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
        if (!now->items[i].is_code || now->items[i].main != main)
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
        result = cp__mappings_link(&now);
    if (result == 0)
        result = merge(mappings, &now, true);
    if (result == 0)
        result = merge(mappings, &now, false);
    cp__mappings_free(&now);
    return result;
}

bool cp__mapping_is_current(const struct cp__mapping *mapping)
{
    struct cp__mappings now = {0};
    bool is_current = false;
    size_t i;

    if (read_maps(&now) == 0) {
        i = cp__mappings_find(&now, mapping->start);
        is_current = i < now.n && mapping->limit <= now.items[i].limit &&
                     mapping->inode == now.items[i].inode && mapping->device == now.items[i].device;
    }
    cp__mappings_free(&now);
    return is_current;
}
