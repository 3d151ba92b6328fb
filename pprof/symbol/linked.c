/* Asks the dynamic linker for objects, and looks for copies of their code. See linked.h. */
#include "linked.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "part.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/loads.h"
#include "runtime/base/note.h"
#include "runtime/base/sys_linux.h"
#include "runtime/base/table.h"

/* An executable segment of an object in whose place there may be other memory. */
struct claim {
    uint64_t start, limit; /* the pages of the segment */
    uint64_t file_limit;   /* where the bytes of the file end */
    uint64_t offset;       /* of "start" in the file */
    struct cp__mapping
        object; /* a mapping of the object's file, if there still is one; in any case the name */
};

/* The context of link_object(). */
struct linking {
    struct cp__mappings *mappings;
    struct claim *claims;
    size_t n_claims, claims_capacity;
    uint32_t n_objects;
    bool is_behind_start; /* the objects that were loaded with the program have been listed */
    uint64_t page;
};

/* Returns the number of the first mapping that ends behind an address. */
static size_t find_from(const struct cp__mappings *mappings, uint64_t address)
{
    return CP__COUNT_BEFORE(mappings->n, i, mappings->items[i].limit <= address);
}

/* ---- Build ids ------------------------------------------------------------------------------- */

/* Returns whether a part of the object, its notes, can be read in memory. Only parts that were loaded can
 * be. The linker keeps the object loaded during dl_iterate_phdr(), but the program may have protected it. */
static bool is_loaded(const struct dl_phdr_info *object, const ElfW(Phdr) * part)
{
    const ElfW(Phdr) * p;

    for (p = object->dlpi_phdr; p < object->dlpi_phdr + object->dlpi_phnum; p++)
        if (p->p_type == PT_LOAD && (p->p_flags & PF_R) != 0 && part->p_vaddr >= p->p_vaddr &&
            part->p_vaddr + part->p_memsz <= p->p_vaddr + p->p_filesz)
            return cp__sys_can_read_from_handler(object->dlpi_addr + part->p_vaddr, part->p_memsz);
    return false;
}

/* Returns the bytes in hexadecimal digits; the caller frees the text. NULL: there is no memory. */
static char *to_hex(const uint8_t *bytes, size_t n)
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
    const uint8_t *bytes;
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

/* ---- Objects --------------------------------------------------------------------------------- */

/* Returns a mapping of the object's file, or NULL. An executable one may be a copy that happens to have the
 * right offset in another file, so the others are better. */
static struct cp__mapping *find_file(const struct cp__mappings *mappings, const struct dl_phdr_info *object)
{
    struct cp__mapping *found = NULL, *at;
    const ElfW(Phdr) * p;
    uint64_t address;
    size_t i;

    for (p = object->dlpi_phdr; p < object->dlpi_phdr + object->dlpi_phnum; p++) {
        address = object->dlpi_addr + p->p_vaddr;
        i = find_from(mappings, address);
        at = &mappings->items[i];
        if (p->p_type != PT_LOAD || p->p_filesz == 0 || i == mappings->n || at->start > address ||
            at->inode == 0 || at->offset + (address - at->start) != p->p_offset)
            continue;
        found = at;
        if (!at->is_code)
            break;
    }
    return found;
}

/* Stores the name of the program's file, or "[anon]". */
static void name_program(char *path, size_t size)
{
    static const char suffix[] = " (deleted)";
    ssize_t length = readlink("/proc/self/exe", path, size - 1);

    if (length <= 0)
        length = snprintf(path, size, "[anon]");
    path[length] = '\0';
    if (length >= (ssize_t)sizeof suffix && strcmp(path + length - (sizeof suffix - 1), suffix) == 0)
        path[length - (ssize_t)(sizeof suffix - 1)] = '\0';
}

/* Fills *like with what the mappings of the object have in common. Returns 0 or -ENOMEM. */
static int describe_object(const struct linking *linking, const struct dl_phdr_info *object,
                           const struct cp__mapping *file, struct cp__mapping *like)
{
    char path[4096];
    const ElfW(Phdr) * p;
    char *id = NULL;
    int result;

    *like = file != NULL ? *file : (struct cp__mapping){0};
    if (file == NULL && linking->n_objects == 1)
        name_program(path, sizeof path);
    else
        snprintf(path, sizeof path, "%s", file != NULL ? file->file : object->dlpi_name);
    like->main = linking->n_objects == 1;
    like->is_code = like->is_linked = true;
    like->bias = object->dlpi_addr;
    like->object = linking->n_objects;
    like->is_permanent = !linking->is_behind_start;
    like->header = 0;
    for (p = object->dlpi_phdr; p < object->dlpi_phdr + object->dlpi_phnum; p++)
        if (p->p_type == PT_LOAD && p->p_offset == 0 && p->p_filesz > 0)
            like->header = object->dlpi_addr + p->p_vaddr;
    result = read_build_id(object, &id);
    if (result == 0)
        result = cp__mapping_own_strings(like, path, id);
    free(id);
    return result;
}

/* Returns whether the mapping is one of the object's file, with the offset that the linker gave it, or the
 * linker itself has told of the mapping. */
static bool is_own(const struct cp__mapping *mapping, const struct cp__mapping *like, const ElfW(Phdr) * part)
{
    if (mapping->is_linked || strcmp(mapping->file, "[vdso]") == 0)
        return true;
    return like->inode != 0 && mapping->inode == like->inode && mapping->device == like->device &&
           mapping->offset == mapping->start - like->bias - part->p_vaddr + part->p_offset;
}

/* Makes a mapping one of the object's. Returns 0 or -ENOMEM. */
static int adopt(struct cp__mapping *mapping, const struct cp__mapping *like)
{
    if (mapping->build_id == NULL && like->build_id != NULL) {
        mapping->build_id = strdup(like->build_id);
        if (mapping->build_id == NULL)
            return -ENOMEM;
    }
    mapping->main = like->main;
    mapping->object = like->object;
    mapping->is_permanent = like->is_permanent;
    mapping->is_linked = true;
    mapping->bias = like->bias;
    mapping->header = like->header;
    return 0;
}

static int add_claim(struct linking *linking, const struct cp__mapping *like, const ElfW(Phdr) * part,
                     uint64_t start, uint64_t limit)
{
    struct claim claim = {.start = start,
                          .limit = limit,
                          .file_limit = like->bias + part->p_vaddr + part->p_filesz,
                          .offset = start - like->bias - part->p_vaddr + part->p_offset,
                          .object = *like};

    if (CP__RESERVE(linking->claims, linking->claims_capacity, linking->n_claims + 1) < 0 ||
        cp__mapping_own_strings(&claim.object, like->file, like->build_id) < 0)
        return -ENOMEM;
    linking->claims[linking->n_claims++] = claim;
    return 0;
}

/* Finds the mappings in the place of an executable segment: those of the object's file, and others. */
static int link_segment(struct linking *linking, const struct cp__mapping *like, const ElfW(Phdr) * part)
{
    struct cp__mappings *mappings = linking->mappings;
    uint64_t start = (like->bias + part->p_vaddr) & -linking->page;
    uint64_t limit = (like->bias + part->p_vaddr + part->p_memsz + linking->page - 1) & -linking->page;
    bool has_other = false;
    struct cp__mapping *m;
    size_t i;

    for (i = find_from(mappings, start); i < mappings->n && mappings->items[i].start < limit; i++) {
        m = &mappings->items[i];
        if (!m->is_code)
            continue;
        if (!is_own(m, like, part))
            has_other = true;
        else if (adopt(m, like) < 0)
            return -ENOMEM;
    }
    return has_other ? add_claim(linking, like, part, start, limit) : 0;
}

/* The linker lists objects in the order in which they were loaded, and the linker itself is one of those that
 * were loaded with the program. What comes behind the linker may have been loaded later. */
static void look_behind_start(struct linking *linking, const struct dl_phdr_info *object)
{
    const uintptr_t linker = getauxval(AT_BASE); /* 0 in a static program, which is the first object */

    linking->is_behind_start |= linker == 0 || object->dlpi_addr == linker;
}

/* Called for each loaded object. The first object is the program. */
static int link_object(struct dl_phdr_info *object, size_t size, void *context)
{
    struct linking *linking = context;
    struct cp__mapping *file = find_file(linking->mappings, object), like;
    const ElfW(Phdr) * p;
    int result;

    (void)size;
    if (linking->n_objects++ == 0)
        cp__loads_compare(object->dlpi_adds, linking->mappings->now.stamps);
    linking->mappings->now.loads = object->dlpi_adds;
    linking->mappings->now.unloads = object->dlpi_subs;
    result = describe_object(linking, object, file, &like);
    if (result < 0)
        return result;
    if (file != NULL && !file->is_code)
        result = adopt(file, &like);
    for (p = object->dlpi_phdr; p < object->dlpi_phdr + object->dlpi_phnum && result == 0; p++)
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) != 0)
            result = link_segment(linking, &like, p);
    look_behind_start(linking, object);
    free(like.file);
    free(like.build_id);
    return result;
}

/* ---- Copies of code -------------------------------------------------------------------------- */

/* Inserts a copy of mapping i before it, and lets the copy end and the mapping begin at an address. */
static int cut_mapping(struct cp__mappings *mappings, size_t i, uint64_t address)
{
    struct cp__mapping copy;

    if (CP__RESERVE(mappings->items, mappings->capacity, mappings->n + 1) < 0)
        return -ENOMEM;
    copy = mappings->items[i];
    if (cp__mapping_own_strings(&copy, copy.file, copy.build_id) < 0)
        return -ENOMEM;
    memmove(&mappings->items[i + 1], &mappings->items[i], (mappings->n++ - i) * sizeof copy);
    copy.limit = address;
    mappings->items[i] = copy;
    mappings->items[i + 1].start = address;
    mappings->items[i + 1].offset += address - copy.start;
    return 0;
}

/* Makes a part of mapping i a mapping of the object's file. Returns 0 or -ENOMEM. */
static int take_copy(struct cp__mappings *mappings, size_t i, const struct claim *claim, uint64_t start,
                     uint64_t limit)
{
    struct cp__mapping *m, taken = claim->object;

    if (mappings->items[i].limit > limit && cut_mapping(mappings, i, limit) < 0)
        return -ENOMEM;
    if (mappings->items[i].start < start && cut_mapping(mappings, i++, start) < 0)
        return -ENOMEM;
    if (cp__mapping_own_strings(&taken, taken.file, taken.build_id) < 0)
        return -ENOMEM;
    m = &mappings->items[i];
    taken.start = m->start;
    taken.limit = m->limit;
    taken.offset = claim->offset + (m->start - claim->start);
    free(m->file);
    free(m->build_id);
    *m = taken;
    return 0;
}

/* Takes the mappings in the place of the segment that hold the file's code. Returns 0 or -ENOMEM. */
static int settle_claim(struct cp__mappings *mappings, const struct claim *claim)
{
    uint64_t start, limit, file_limit;
    const struct cp__mapping *m;
    size_t i;

    for (i = find_from(mappings, claim->start);
         i < mappings->n && mappings->items[i].start < claim->file_limit; i++) {
        m = &mappings->items[i];
        if (!m->is_code || m->is_linked)
            continue;
        start = m->start > claim->start ? m->start : claim->start;
        limit = m->limit < claim->limit ? m->limit : claim->limit;
        file_limit = limit < claim->file_limit ? limit : claim->file_limit;
        if (cp__file_has_code(&claim->object, start, file_limit - start,
                              claim->offset + (start - claim->start)) &&
            take_copy(mappings, i, claim, start, limit) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* ---- What the linker does not tell ----------------------------------------------------------- */

/* Gives a mapping the build id of another mapping of the same file: a program may have moved a part of an
 * object. Returns 1; 0 if the linker knows no such mapping; or -ENOMEM. */
static int link_moved(const struct cp__mappings *mappings, struct cp__mapping *m)
{
    const struct cp__mapping *other;

    for (other = mappings->items; other < mappings->items + mappings->n; other++)
        if (other->is_linked && other->inode == m->inode && other->device == m->device)
            break;
    if (other == mappings->items + mappings->n)
        return 0;
    m->main = other->main;
    m->build_id = other->build_id == NULL ? NULL : strdup(other->build_id);
    return other->build_id != NULL && m->build_id == NULL ? -ENOMEM : 1;
}

/* Looks at the beginning of the file in memory, if it is mapped before the mapping: dl_iterate_phdr() tells
 * nothing of objects that dlmopen() has loaded into another namespace. Returns what link_moved() returns. */
static int link_other_namespace(const struct cp__mappings *mappings, struct cp__mapping *m)
{
    const struct cp__mapping *first = m;
    uint8_t id[CP__MAX_ID];
    size_t size;

    while (first > mappings->items && first->offset != 0 && first[-1].inode == m->inode &&
           first[-1].device == m->device)
        first--;
    size = first->offset == 0 ? cp__image_link(m, first, id) : 0;
    if (size == 0)
        return m->is_linked;
    m->build_id = to_hex(id, size);
    return m->build_id == NULL ? -ENOMEM : 1;
}

/* Finds the objects of mappings that the linker does not know. */
static int link_rest(struct cp__mappings *mappings)
{
    uint64_t foreign = 0; /* the inode of a file that is no object: code that is made has many mappings of one
                           * file */
    struct cp__mapping *m;
    int result = 0;

    for (m = mappings->items; m < mappings->items + mappings->n && result >= 0; m++) {
        if (!m->is_code || m->is_linked || m->inode == 0 || m->inode == foreign)
            continue;
        result = link_moved(mappings, m);
        if (result == 0)
            result = link_other_namespace(mappings, m);
        if (result == 0)
            foreign = m->inode;
    }
    return result < 0 ? result : 0;
}

int cp__mappings_link(struct cp__mappings *mappings)
{
    struct linking linking = {.mappings = mappings, .page = (uint64_t)sysconf(_SC_PAGESIZE)};
    int result = 0;
    size_t i;

    if (cp__linker_begin())
        result = dl_iterate_phdr(link_object, &linking);
    cp__linker_end();
    for (i = 0; i < linking.n_claims; i++) {
        if (result == 0)
            result = settle_claim(mappings, &linking.claims[i]);
        free(linking.claims[i].object.file);
        free(linking.claims[i].object.build_id);
    }
    free(linking.claims);
    return result < 0 ? result : link_rest(mappings);
}
