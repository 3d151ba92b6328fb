#include "objects.h"

#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "atomic.h"
#include "functions.h"
#include "maps_linux.h"
#include "rows.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/sys_linux.h"
#include "section_linux.h"

/* ---- Lists ----------------------------------------------------------------------------------- */

/* What an object is recognised by. A build id alone does not tell: programs link with a fixed one. */
struct identity {
    uint8_t build_id[20]; /* if there is none: the time of the file */
    uint32_t code_size;
    uint64_t device; /* of the file; 0: there is no file of that name */
    uint64_t inode;
};

struct known {
    struct identity identity;
    const struct cp__rows *rows;
};

/* Lists grow, and are never given back: there are never many objects at once. */
static struct known *known;
static size_t n_known, known_room;
static struct cp__object *objects;
static size_t n_objects, objects_room;

static uint32_t n_refused; /* atomic; the path is complete before the number is 1 */
static char first_refused[256];

/* Atomic. How often the linker had mapped and unmapped objects at the last update. */
static uint64_t changes;

/* Returns an array with room for one more element. Its memory comes from the kernel: see rows.c. */
static void *with_room(void *array, size_t n, size_t *room, size_t element)
{
    size_t larger = *room == 0 ? 128 : 2 * *room;
    void *moved;

    if (n < *room)
        return array;
    moved = mmap(NULL, larger * element, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (moved == MAP_FAILED)
        return NULL;
    if (n > 0)
        memcpy(moved, array, n * element);
    if (*room > 0)
        munmap(array, *room * element);
    *room = larger;
    return moved;
}

/* ---- One object ------------------------------------------------------------------------------ */

/* Finds the program header of a type, and for segments, the one that contains an address. */
static const ElfW(Phdr) * find_header(const struct dl_phdr_info *info, uint32_t type, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];

        if (header->p_type != type)
            continue;
        if (type != PT_LOAD || address - (info->dlpi_addr + header->p_vaddr) < header->p_filesz)
            return header;
    }
    return NULL;
}

static void find_code(const struct dl_phdr_info *info, struct cp__object *object)
{
    *object = (struct cp__object){.lo = UINTPTR_MAX};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t lo = info->dlpi_addr + header->p_vaddr;

        if (header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0)
            continue;
        object->lo = lo < object->lo ? lo : object->lo;
        object->hi = lo + header->p_memsz > object->hi ? lo + header->p_memsz : object->hi;
    }
}

/* Finds the build id in a segment of notes. */
static bool find_note(const uint8_t *notes, size_t size, struct identity *identity)
{
    while (size >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        size_t name_size, data_size;

        memcpy(&note, notes, sizeof note);
        name_size = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        data_size = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        if (name_size + data_size > size - sizeof note)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + sizeof note, "GNU", 4) == 0 && note.n_descsz >= 8) {
            memcpy(identity->build_id, notes + sizeof note + name_size,
                   note.n_descsz < sizeof identity->build_id ? note.n_descsz : sizeof identity->build_id);
            return true;
        }
        notes += sizeof note + name_size + data_size;
        size -= sizeof note + name_size + data_size;
    }
    return false;
}

static bool find_build_note(const struct dl_phdr_info *info, struct identity *identity)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t notes = info->dlpi_addr + header->p_vaddr;

        if (header->p_type == PT_NOTE && cp__sys_can_read_from_handler(notes, header->p_filesz) &&
            find_note((const uint8_t *)notes, header->p_filesz, identity))
            return true;
    }
    return false;
}

static bool identify(const struct dl_phdr_info *info, struct identity *identity)
{
    bool has_build_id = find_build_note(info, identity);
    struct stat file;

    if (stat(info->dlpi_name[0] != '\0' ? info->dlpi_name : "/proc/self/exe", &file) < 0)
        return has_build_id;
    identity->device = file.st_dev;
    identity->inode = file.st_ino;
    if (!has_build_id) {
        memcpy(identity->build_id, &file.st_mtim.tv_sec, 8);
        memcpy(identity->build_id + 8, &file.st_mtim.tv_nsec, 8);
    }
    return true;
}

static void note_refused(const struct dl_phdr_info *info)
{
    const char *path = info->dlpi_name[0] != '\0' ? info->dlpi_name : "the program itself";
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

/* Makes the rows that the source describes, or notes that reading it would take too long. */
static const struct cp__rows *make_or_note(const struct dl_phdr_info *info,
                                           const struct cp__cfi_source *source)
{
    bool is_over_budget;
    const struct cp__rows *rows = cp__rows_make(source, &is_over_budget);

    if (is_over_budget)
        note_refused(info);
    return rows;
}

/* Finds the segment that contains an address of the object's. A program may have unmapped or protected
 * parts of its objects, so the information is read only if the kernel can read it. */
static bool find_source(const struct dl_phdr_info *info, uintptr_t address, struct cp__cfi_source *source)
{
    const ElfW(Phdr) *segment = find_header(info, PT_LOAD, address);
    uintptr_t lo;

    if (segment == NULL)
        return false;
    lo = info->dlpi_addr + segment->p_vaddr;
    source->lo = (const uint8_t *)lo;
    source->hi = (const uint8_t *)(lo + segment->p_filesz);
    return cp__sys_can_read_from_handler(lo, segment->p_filesz);
}

/* Makes the rows of a program that has no list of its functions, because it was linked by `gcc -static`. */
static const struct cp__rows *make_rows_without_list(const struct dl_phdr_info *info,
                                                     struct cp__cfi_source *source)
{
    struct cp__functions functions;
    const struct cp__rows *rows = NULL;
    uint64_t lo, hi;

    if (info->dlpi_name[0] != '\0' || !cp__section_find(".eh_frame", &lo, &hi) ||
        !find_source(info, info->dlpi_addr + lo, source) ||
        hi - lo > (uintptr_t)source->hi - (info->dlpi_addr + lo))
        return NULL;
    functions =
        cp__functions_list((const uint8_t *)(info->dlpi_addr + lo), (const uint8_t *)(info->dlpi_addr + hi));
    source->header = functions.list;
    source->header_end = functions.list + functions.size;
    if (functions.list != NULL)
        rows = make_or_note(info, source);
    cp__functions_free(&functions);
    return rows;
}

static const struct cp__rows *make_rows(const struct dl_phdr_info *info, const struct cp__object *object)
{
    const ElfW(Phdr) *frames = find_header(info, PT_GNU_EH_FRAME, 0);
    struct cp__cfi_source source = {.code_lo = object->lo, .code_hi = object->hi};
    uintptr_t header;

    if (frames == NULL)
        return make_rows_without_list(info, &source);
    header = info->dlpi_addr + frames->p_vaddr;
    if (!find_source(info, header, &source))
        return NULL;
    source.header = (const uint8_t *)header;
    source.header_end = source.hi;
    return make_or_note(info, &source);
}

/* Returns the rows of an object, and makes them if the object is new. */
static const struct cp__rows *rows_of(const struct dl_phdr_info *info, const struct cp__object *object)
{
    struct identity identity = {.code_size = (uint32_t)(object->hi - object->lo)};
    struct known *more;

    if (!identify(info, &identity))
        return NULL;
    /* Objects come in nearly the same order each time. */
    for (size_t i = 0; i < n_known; i++) {
        const struct known *candidate = &known[(n_objects + i) % n_known];

        if (memcmp(&candidate->identity, &identity, sizeof identity) == 0)
            return candidate->rows;
    }
    more = with_room(known, n_known, &known_room, sizeof *known);
    if (more == NULL)
        return NULL;
    known = more;
    known[n_known] = (struct known){.identity = identity, .rows = make_rows(info, object)};
    return known[n_known++].rows;
}

/* ---- All objects ----------------------------------------------------------------------------- */

/* Adds an object to the list, at its place by address. The linker finds the headers by what the file says of
 * them, which may be wrong. */
static int take_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct cp__object object;
    struct cp__object *more = with_room(objects, n_objects, &objects_room, sizeof *objects);
    size_t at = n_objects;

    (void)size;
    (void)arg;
    cp_store_relaxed(&changes,
                     info->dlpi_adds + info->dlpi_subs); /* relaxed: the number is all that is read */
    if (more == NULL)
        return 0;
    objects = more;
    if (!cp__sys_can_read_from_handler((uintptr_t)info->dlpi_phdr, info->dlpi_phnum * sizeof(ElfW(Phdr))))
        return 0;
    find_code(info, &object);
    if (object.hi <= object.lo)
        return 0;
    object.rows = rows_of(info, &object);
    for (; at > 0 && objects[at - 1].lo > object.lo; at--)
        objects[at] = objects[at - 1];
    objects[at] = object;
    n_objects++;
    return 0;
}

const struct cp__object *cp__objects_update(size_t *n)
{
    if (cp__linker_begin()) {
        n_objects = 0;
        dl_iterate_phdr(take_object, NULL);
    }
    cp__linker_end();
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
    cp__rows_after_fork();
}
