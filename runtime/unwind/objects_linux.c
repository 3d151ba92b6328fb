#include "objects.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "atomic.h"
#include "image.h"
#include "maps_linux.h"
#include "rows.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/sys_linux.h"

/* ---- Lists ----------------------------------------------------------------------------------- */

struct known {
    struct cp__identity identity;
    const struct cp__rows *rows;
};

/* Lists grow, and are never given back: there are never many objects at once. */
static struct known *known;
static size_t n_known, known_room;
static struct cp__object *objects;
static size_t n_objects, objects_room;

static uint32_t n_refused; /* atomic; the path is complete before the number is 1 */
static char first_refused[256];

/* Atomic. How often the linker had mapped and unmapped objects, in all namespaces, at the last update. */
static uint64_t changes;

/* ---- One object ------------------------------------------------------------------------------ */

static void note_refused(const struct cp__image *image)
{
    const char *path = image->mapping != NULL ? cp__maps_path(image->mapping) : "an object without a file";
    uint32_t n = cp_load_relaxed(&n_refused); /* relaxed: one thread at a time is here */

    if (n == 0)
        strncpy(first_refused, path, sizeof first_refused - 1);
    cp_store_release(&n_refused, n + 1); /* pairs with the acquire in cp__objects_refused() */
}

uint32_t cp__objects_refused(const char **first)
{
    *first = first_refused;
    return cp_load_acquire(&n_refused); /* pairs with the release in note_refused() */
}

/* Returns whether the image's file is still mapped in its place. */
static bool is_still_mapped(const struct cp__image *image)
{
    const struct cp__mapped now = cp__maps_look(image->mapping->start);

    return now.start == image->mapping->start && now.offset == image->mapping->offset &&
           cp__maps_are_of_one_file(&now, image->mapping);
}

/* Returns the rows of an object, and makes them if the object is new. */
static const struct cp__rows *rows_of(const struct cp__image *image)
{
    struct cp__identity identity;
    struct known *more;
    const struct cp__rows *rows;
    bool is_over_budget;

    if (!cp__image_identify(image, &identity))
        return NULL;
    /* Objects come in nearly the same order each time. */
    for (size_t i = 0; i < n_known; i++) {
        const struct known *candidate = &known[(n_objects + i) % n_known];

        if (memcmp(&candidate->identity, &identity, sizeof identity) == 0)
            return candidate->rows;
    }
    more = cp__with_room(known, n_known, 1, &known_room, sizeof *known);
    if (more == NULL)
        return NULL;
    known = more;
    rows = cp__image_rows(image, &is_over_budget);
    if (image->may_vanish && !is_still_mapped(image))
        return NULL; /* the rows may be of another object */
    if (is_over_budget)
        note_refused(image);
    known[n_known++] = (struct known){.identity = identity, .rows = rows};
    return rows;
}

/* Returns the number of objects that begin below an address. */
static size_t n_below(uintptr_t address)
{
    size_t n = n_objects;

    while (n > 0 && objects[n - 1].lo >= address)
        n--;
    return n;
}

/* Adds an object to the list, at its place by address. */
static void add_object(const struct cp__image *image, bool may_go)
{
    struct cp__object *more = cp__with_room(objects, n_objects, 1, &objects_room, sizeof *objects);
    struct cp__object object = {.lo = image->lo, .hi = image->hi, .may_go = may_go};
    size_t at;

    if (more == NULL)
        return;
    objects = more;
    object.rows = rows_of(image);
    at = n_below(object.lo);
    memmove(&objects[at + 1], &objects[at], (n_objects - at) * sizeof object);
    objects[at] = object;
    n_objects++;
}

/* ---- What the linker lists ------------------------------------------------------------------- */

static bool are_mappings_noted;

/* The linker lists objects in the order in which they were loaded, and the linker itself is one of those that
 * were loaded with the program. What comes behind the linker may have been loaded later. */
static bool are_behind_start;

/* The linker finds the headers by what the file says of them, which may be wrong. */
static int take_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct cp__image image = {
        .bias = info->dlpi_addr, .headers = info->dlpi_phdr, .n_headers = info->dlpi_phnum};
    const uintptr_t linker = getauxval(AT_BASE); /* 0 in a static program, which is the first object */

    (void)size;
    (void)arg;
    cp_store_relaxed(&changes,
                     info->dlpi_adds + info->dlpi_subs); /* relaxed: the number is all that is read */
    if (!are_mappings_noted)                             /* while the linker holds its objects */
        cp__maps_note();
    are_mappings_noted = true;
    if (cp__sys_can_read_from_handler((uintptr_t)image.headers, image.n_headers * sizeof *image.headers) &&
        cp__image_look(&image))
        add_object(&image, are_behind_start);
    are_behind_start |= linker == 0 || info->dlpi_addr == linker;
    return 0;
}

/* ---- What the linker does not list ----------------------------------------------------------- */

/*
 * The linker lists the objects of one namespace; dlmopen() makes others, and not only the C library loads
 * objects. What is mapped tells of them: executable memory of a file whose beginning is mapped below it, with
 * headers of an object that say so. Nobody holds such an object while it is read.
 */

#define MOST_HEADERS 64

/* Copies the headers at the beginning of an object. Returns their number; 0: there is no object. */
static size_t copy_headers(const struct cp__mapped *beginning, ElfW(Phdr) headers[MOST_HEADERS])
{
    ElfW(Ehdr) elf;

    if (!cp__sys_copy_from_handler(&elf, beginning->start, sizeof elf) ||
        memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
        elf.e_phentsize != sizeof headers[0] || elf.e_phnum > MOST_HEADERS ||
        elf.e_phoff > beginning->end - beginning->start ||
        !cp__sys_copy_from_handler(headers, beginning->start + elf.e_phoff, elf.e_phnum * sizeof headers[0]))
        return 0;
    return elf.e_phnum;
}

/* Returns whether each segment that cannot be written is mapped from its place in the file. */
static bool is_mapped_as_told(const struct cp__image *image, const struct cp__mapped *beginning)
{
    for (size_t i = 0; i < image->n_headers; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        const struct cp__mapped *mapping;

        if (header->p_type != PT_LOAD || (header->p_flags & PF_W) != 0 || header->p_filesz == 0)
            continue;
        mapping = cp__maps_of_file_at(image->bias + header->p_vaddr);
        if (mapping == NULL || !cp__maps_are_of_one_file(mapping, beginning) ||
            image->bias + header->p_vaddr - mapping->start + mapping->offset != header->p_offset)
            return false;
    }
    return true;
}

/* Returns whether an object begins in a mapping, and fills the image then. */
static bool find_image(const struct cp__mapped *beginning, ElfW(Phdr) headers[MOST_HEADERS],
                       struct cp__image *image)
{
    const ElfW(Phdr) * first;

    *image = (struct cp__image){
        .headers = headers, .n_headers = copy_headers(beginning, headers), .may_vanish = true};
    first = cp__image_header(image, PT_LOAD);
    if (first == NULL)
        return false;
    image->bias = beginning->start - (first->p_vaddr - first->p_offset);
    return is_mapped_as_told(image, beginning) && cp__image_look(image);
}

/* Finds the object that mapping number i belongs to. The first page of a small file may be mapped for several
 * segments, so each mapping of this page may be the object's first. */
static bool find_image_of(const struct cp__mapped *mappings, size_t i, ElfW(Phdr) headers[MOST_HEADERS],
                          struct cp__image *image)
{
    for (size_t n = i + 1; n > 0 && cp__maps_are_of_one_file(&mappings[n - 1], &mappings[i]); n--) {
        if (mappings[n - 1].offset == 0 && find_image(&mappings[n - 1], headers, image) &&
            image->lo < mappings[i].end && image->hi > mappings[i].start)
            return true;
    }
    return false;
}

static bool is_free(uintptr_t lo, uintptr_t hi)
{
    size_t n = n_below(hi);

    return n == 0 || objects[n - 1].hi <= lo;
}

static void add_unlisted(void)
{
    ElfW(Phdr) headers[MOST_HEADERS];
    size_t n;
    const struct cp__mapped *mappings = cp__maps_noted(&n);

    for (size_t i = 0; i < n; i++) {
        struct cp__image image;

        if (mappings[i].is_executable && mappings[i].inode != 0 &&
            is_free(mappings[i].start, mappings[i].end) && find_image_of(mappings, i, headers, &image) &&
            is_free(image.lo, image.hi))
            add_object(&image, true);
    }
}

/* ---- All objects ----------------------------------------------------------------------------- */

const struct cp__object *cp__objects_update(size_t *n)
{
    are_mappings_noted = false;
    if (cp__linker_begin()) {
        n_objects = 0;
        are_behind_start = false;
        dl_iterate_phdr(take_object, NULL);
        add_unlisted();
    }
    cp__linker_end();
    if (!are_mappings_noted)
        cp__maps_note();
    *n = n_objects;
    return objects;
}

static int look_at_changes(struct dl_phdr_info *info, size_t size, void *has_changed)
{
    (void)size;
    *(bool *)has_changed =
        info->dlpi_adds + info->dlpi_subs != cp_load_relaxed(&changes); /* relaxed: see the store */
    return 1;
}

bool cp__objects_have_changed(void)
{
    bool has_changed = false;

    if (cp__linker_begin())
        dl_iterate_phdr(look_at_changes, &has_changed);
    cp__linker_end();
    return has_changed;
}

void cp__objects_after_fork(void)
{
    n_objects = 0;
    cp__maps_after_fork();
    cp__rows_after_fork();
}
