#include "objects.h"

#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "atomic.h"
#include "rows.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/sys_linux.h"

/* ---- Lists ----------------------------------------------------------------------------------- */

/* What an object is recognised by. */
struct identity {
    uint8_t build_id[20]; /* or the device, number and time of its file */
    uint32_t code_size;
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

static bool identify(const struct dl_phdr_info *info, struct identity *identity)
{
    struct stat file;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t notes = info->dlpi_addr + header->p_vaddr;

        if (header->p_type == PT_NOTE && cp__sys_can_read_from_handler(notes, header->p_filesz) &&
            find_note((const uint8_t *)notes, header->p_filesz, identity))
            return true;
    }
    if (stat(info->dlpi_name[0] != '\0' ? info->dlpi_name : "/proc/self/exe", &file) < 0)
        return false;
    memcpy(identity->build_id, &file.st_ino, 8);
    memcpy(identity->build_id + 8, &file.st_mtim.tv_sec, 8);
    memcpy(identity->build_id + 16, &file.st_mtim.tv_nsec, 4);
    return true;
}

/* A program may have unmapped or protected parts of its objects, so the information is read only if the
 * kernel can read it. */
static const struct cp__rows *make_rows(const struct dl_phdr_info *info, const struct cp__object *object)
{
    const ElfW(Phdr) *frames = find_header(info, PT_GNU_EH_FRAME, 0), *segment;
    struct cp__cfi_source source = {.code_lo = object->lo, .code_hi = object->hi};
    uintptr_t header, lo;

    if (frames == NULL)
        return NULL;
    header = info->dlpi_addr + frames->p_vaddr;
    segment = find_header(info, PT_LOAD, header);
    if (segment == NULL)
        return NULL;
    lo = info->dlpi_addr + segment->p_vaddr;
    if (!cp__sys_can_read_from_handler(lo, segment->p_filesz))
        return NULL;
    source.lo = (const uint8_t *)lo;
    source.hi = (const uint8_t *)(lo + segment->p_filesz);
    source.header = (const uint8_t *)header;
    return cp__rows_make(&source);
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

/* Adds an object to the list, at its place by address. */
static int take_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct cp__object object;
    struct cp__object *more = with_room(objects, n_objects, &objects_room, sizeof *objects);
    size_t at = n_objects;

    (void)size;
    (void)arg;
    cp_store_relaxed(&changes,
                     info->dlpi_adds + info->dlpi_subs); /* relaxed: the number is all that is read */
    find_code(info, &object);
    if (more == NULL || object.hi <= object.lo)
        return 0;
    objects = more;
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
