#include "image.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "file_linux.h"
#include "maps_linux.h"
#include "runtime/base/note.h"
#include "runtime/base/sys_linux.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

struct cp__window cp__window_open(const struct cp__image *image, uintptr_t at, size_t size)
{
    struct cp__window window = {.bytes = (const uint8_t *)at, .size = size};

    /* A program may have unmapped or protected parts of its objects. */
    if (!cp__sys_can_read_from_handler(at, size))
        return (struct cp__window){.bytes = NULL};
    if (!image->may_vanish || size == 0)
        return window;
    window.copy = cp__sys_map(size);
    if (window.copy == NULL)
        return (struct cp__window){.bytes = NULL};
    window.bytes = window.copy;
    window.moved = (uintptr_t)window.copy - at;
    if (!cp__sys_copy_from_handler(window.copy, at, size))
        cp__window_close(&window);
    return window;
}

void cp__window_close(struct cp__window *window)
{
    if (window->copy != NULL)
        munmap(window->copy, window->size);
    *window = (struct cp__window){.bytes = NULL};
}

const ElfW(Phdr) * cp__image_header(const struct cp__image *image, uint32_t type)
{
    for (size_t i = 0; i < image->n_headers; i++) {
        if (image->headers[i].p_type == type)
            return &image->headers[i];
    }
    return NULL;
}

struct cp__window cp__window_open_segment(const struct cp__image *image, uintptr_t address)
{
    for (size_t i = 0; i < image->n_headers; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        uintptr_t lo = image->bias + header->p_vaddr;

        if (header->p_type == PT_LOAD && address - lo < header->p_filesz)
            return cp__window_open(image, lo, header->p_filesz);
    }
    return (struct cp__window){.bytes = NULL};
}

bool cp__image_look(struct cp__image *image)
{
    image->lo = UINTPTR_MAX;
    image->hi = 0;
    image->mapping = NULL;
    for (size_t i = 0; i < image->n_headers; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        uintptr_t lo = image->bias + header->p_vaddr;

        if (header->p_type != PT_LOAD)
            continue;
        if (image->mapping == NULL) /* code may have been copied to other memory; not all of it has */
            image->mapping = cp__maps_of_file_at(lo);
        if ((header->p_flags & PF_X) == 0)
            continue;
        image->lo = lo < image->lo ? lo : image->lo;
        image->hi = lo + header->p_memsz > image->hi ? lo + header->p_memsz : image->hi;
    }
    return image->hi > image->lo;
}

/* ---- Identity -------------------------------------------------------------------------------- */

static bool find_id_note(const struct cp__image *image, struct cp__identity *identity)
{
    bool is_found = false;

    for (size_t i = 0; i < image->n_headers && !is_found; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        struct cp__window window;
        const uint8_t *id;
        size_t size;

        if (header->p_type != PT_NOTE)
            continue;
        window = cp__window_open(image, image->bias + header->p_vaddr, header->p_filesz);
        id = window.bytes == NULL ? NULL : cp__note_build_id(window.bytes, window.size, &size);
        is_found = id != NULL && size >= 8; /* a shorter one tells little */
        if (is_found)
            memcpy(identity->build_id, id,
                   size < sizeof identity->build_id ? size : sizeof identity->build_id);
        cp__window_close(&window);
    }
    return is_found;
}

/* Finds the time of the image's file, if the file still has the path that it was mapped by. */
static bool find_time(const struct cp__image *image, struct cp__identity *identity)
{
    struct stat file;

    if (image->mapping == NULL || stat(cp__maps_path(image->mapping), &file) < 0 ||
        !cp__file_is_of(&file, image->mapping))
        return false;
    memcpy(identity->build_id, &file.st_mtim.tv_sec, 8);
    memcpy(identity->build_id + 8, &file.st_mtim.tv_nsec, 8);
    return true;
}

static void add_to_sum(uint64_t *sum, const uint8_t *bytes, size_t size)
{
    uint64_t word = 0;

    for (size_t i = 0; i < size; i += sizeof word) {
        memcpy(&word, bytes + i, size - i < sizeof word ? size - i : sizeof word);
        *sum = (*sum ^ word) * 0x9e3779b97f4a7c15u;
        *sum ^= *sum >> 29;
    }
}

/* Sums up what rows are made from: the headers, and the segment that contains .eh_frame. If the headers do
 * not tell which segment that is, all segments that cannot be written are summed up. */
static bool find_sum(const struct cp__image *image, struct cp__identity *identity)
{
    const ElfW(Phdr) *frames = cp__image_header(image, PT_GNU_EH_FRAME);
    uint64_t sum = 0;

    add_to_sum(&sum, (const uint8_t *)image->headers, image->n_headers * sizeof *image->headers);
    for (size_t i = 0; i < image->n_headers; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        struct cp__window window;

        if (header->p_type != PT_LOAD || (header->p_flags & PF_W) != 0 ||
            (frames != NULL && frames->p_vaddr - header->p_vaddr >= header->p_filesz))
            continue;
        window = cp__window_open(image, image->bias + header->p_vaddr, header->p_filesz);
        if (window.bytes == NULL)
            return false;
        add_to_sum(&sum, window.bytes, window.size);
        cp__window_close(&window);
    }
    memcpy(identity->build_id, &sum, sizeof sum);
    return true;
}

bool cp__image_identify(const struct cp__image *image, struct cp__identity *identity)
{
    *identity = (struct cp__identity){.code_size = (uint32_t)(image->hi - image->lo)};
    if (image->mapping != NULL) {
        identity->device = image->mapping->device;
        identity->inode = image->mapping->inode;
    }
    return find_id_note(image, identity) || find_time(image, identity) || find_sum(image, identity);
}
