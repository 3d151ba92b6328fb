/* Finds names that were left for later. See naming.h. */
#include "naming.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "comments.h"
#include "naming_data.h"
#include "pprof/symbol/kernel.h"
#include "runtime/base/fail.h"

int cp__naming_new(struct cp__naming **naming)
{
    struct cp__naming *made = calloc(1, sizeof *made);

    if (made == NULL || cp__profile_new(&made->known) < 0) {
        free(made);
        return -ENOMEM;
    }
    cp__boot_id(made->boot);
    *naming = made;
    return 0;
}

void cp__naming_free(struct cp__naming *naming)
{
    if (naming == NULL)
        return;
    cp__profile_free(naming->known);
    cp__tuples_free(&naming->objects);
    cp__tuples_free(&naming->addresses);
    cp__strings_free(&naming->strings);
    free(naming);
}

/* ---- What is wanted -------------------------------------------------------------------------- */

bool cp__naming_wants(const Cp__Proto__Profile *p, const Cp__Proto__Location *location,
                      const Cp__Proto__Mapping *mapping)
{
    if (location->n_line > 0 || location->address == 0)
        return false;
    return location->address >= CP__KERNEL_START ||
           (mapping != NULL && p->string_table[mapping->filename][0] == '/');
}

bool cp__naming_is_left(const struct cp__naming *naming, const Cp__Proto__Profile *p, bool *is_kernel_same)
{
    const char *boot;
    bool is_left = false;

    *is_kernel_same = strcmp(naming->boot, "unknown") != 0;
    for (size_t i = 0; i < p->n_comment; i++) {
        boot = cp__comment_later(p->string_table[p->comment[i]]);
        if (boot == NULL)
            continue;
        *is_kernel_same &= strncmp(boot, naming->boot, strlen(naming->boot)) == 0;
        is_left = true;
    }
    return is_left;
}

/* ---- Objects --------------------------------------------------------------------------------- */

/* Returns whether a file was written, or put in its place, after a time. When it was written does not tell
 * that alone: who unpacks or copies a file may keep that time. */
static bool is_newer_than(const char *file, int64_t time_ns)
{
    struct stat status;

    return stat(file, &status) == 0 &&
           (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec > time_ns;
}

/* Adds a new object to the mappings, as one of a process of its own. */
static int add_mapped_object(struct cp__naming *naming, const Cp__Proto__Profile *p,
                             const Cp__Proto__Mapping *mapping)
{
    struct cp__mappings *mappings = &naming->known->mappings;
    const struct cp__mapping object = {.start = mapping->memory_start,
                                       .limit = mapping->memory_limit,
                                       .offset = mapping->file_offset,
                                       .file = p->string_table[mapping->filename],
                                       .build_id =
                                           mapping->build_id == 0 ? NULL : p->string_table[mapping->build_id],
                                       .is_code = true,
                                       .process = (uint32_t)mappings->n_others + 1};
    uint32_t process;

    return cp__mappings_add_process(mappings, &process) < 0 ? -ENOMEM
                                                            : cp__mappings_add_of(mappings, &object);
}

int cp__naming_object(struct cp__naming *naming, const Cp__Proto__Profile *p,
                      const Cp__Proto__Mapping *mapping, uint32_t *object)
{
    const char *file = p->string_table[mapping->filename];
    const size_t n = naming->objects.n;
    uint32_t file_string, id_string;
    uint64_t words[5];

    if (naming->is_object_lost)
        return -ENOMEM;
    if (cp__strings_add(&naming->strings, file, &file_string) < 0 ||
        cp__strings_add(&naming->strings, p->string_table[mapping->build_id], &id_string) < 0)
        return -ENOMEM;
    words[0] = file_string;
    words[1] = id_string;
    words[2] = mapping->file_offset;
    words[3] = mapping->memory_limit - mapping->memory_start;
    words[4] = mapping->build_id == 0 && is_newer_than(file, p->time_nanos);
    if (cp__tuples_add(&naming->objects, words, 5, object) < 0)
        return -ENOMEM;
    naming->is_object_lost = *object == n && add_mapped_object(naming, p, mapping) < 0;
    return naming->is_object_lost ? -ENOMEM : 0;
}

bool cp__naming_is_newer(const struct cp__naming *naming, uint32_t object)
{
    size_t n;

    return cp__tuples_get(&naming->objects, object, &n)[4] != 0;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

int cp__naming_frame(struct cp__naming *naming, const Cp__Proto__Location *location,
                     const Cp__Proto__Mapping *mapping, uint32_t object, uint32_t *frame)
{
    struct cp__profile *known = naming->known;
    const bool is_kernel = location->address >= CP__KERNEL_START;
    const uint64_t words[] = {is_kernel ? 0 : (uint64_t)object + 1,
                              is_kernel ? location->address : location->address - mapping->memory_start};

    if (CP__RESERVE(known->frames, known->frames_capacity, naming->addresses.n + 1) < 0 ||
        cp__tuples_add(&naming->addresses, words, 2, frame) < 0)
        return -ENOMEM;
    if (*frame < known->n_frames)
        return 0;
    known->frames[known->n_frames++] =
        is_kernel ? (struct cp__frame){.address = location->address}
                  : (struct cp__frame){.address = known->mappings.items[object].start + words[1],
                                       .place = object + 1};
    return 0;
}

/* Adds the address of a location that has no name. */
static int add_unnamed_location(struct cp__naming *naming, const Cp__Proto__Profile *p,
                                const struct cp__ids *mappings, const Cp__Proto__Location *location)
{
    const Cp__Proto__Mapping *mapping = NULL;
    uint32_t i, object = 0, frame;

    if (cp__ids_find(mappings, location->mapping_id, &i))
        mapping = p->mapping[i];
    if (!cp__naming_wants(p, location, mapping))
        return 0;
    if (location->address < CP__KERNEL_START) {
        if (cp__naming_object(naming, p, mapping, &object) < 0)
            return -ENOMEM;
        if (cp__naming_is_newer(naming, object))
            return 0;
    }
    return cp__naming_frame(naming, location, mapping, object, &frame);
}

static int add_unnamed_locations(struct cp__naming *naming, const Cp__Proto__Profile *p, bool is_kernel_same)
{
    struct cp__id_tables ids = {0};
    int result = cp__id_tables_fill(&ids, p);

    for (size_t i = 0; i < p->n_location && result == 0; i++)
        if (is_kernel_same || p->location[i]->address < CP__KERNEL_START)
            result = add_unnamed_location(naming, p, &ids.mappings, p->location[i]);
    cp__id_tables_free(&ids);
    return result;
}

int cp__naming_add(struct cp__naming *naming, const void *data, size_t size, struct cp_error *err)
{
    int result;
    bool is_kernel_same;
    Cp__Proto__Profile *p = cp__merge_read(data, size, CP_MERGE_LIMIT, &result, err);

    if (p == NULL)
        return result;
    if (cp__naming_is_left(naming, p, &is_kernel_same)) {
        result = add_unnamed_locations(naming, p, is_kernel_same);
        if (result < 0)
            cp__error(err, result, "There is not enough memory to look up the names of a profile.");
        else
            result = 1;
    }
    cp__proto__profile__free_unpacked(p, NULL);
    return result;
}

int cp__naming_look_up(struct cp__naming *naming, struct cp_error *err)
{
    naming->n_looked_up = naming->known->n_frames;
    if (cp__profile_look_up(naming->known) == 0)
        return 0;
    return cp__error(err, -ENOMEM, "There is not enough memory to look up function names.");
}
