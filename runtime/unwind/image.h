/*
 * An object as it is mapped: its program headers, what it is recognised by, and its call-frame information.
 *
 * The dynamic linker holds the objects that it lists while it lists them. Others may vanish at any time, and
 * their memory is read through copies that the kernel makes.
 *
 * All functions are for one thread at a time, and not for signal handlers. The linker's lock may be held:
 * memory is the kernel's, and no call waits.
 */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_IMAGE_H
#define COUNTERPOINT_RUNTIME_UNWIND_IMAGE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cp__mapped;
struct cp__rows;

struct cp__image {
    uintptr_t bias; /* what is added to the addresses in the headers */
    const ElfW(Phdr) * headers;
    size_t n_headers;
    uintptr_t lo; /* its code, [lo, hi) */
    uintptr_t hi;
    const struct cp__mapped *mapping; /* one of its file; NULL: its file is not known */
    bool may_vanish;
};

/* What an object is recognised by. A build id alone does not tell: programs link with a fixed one. */
struct cp__identity {
    uint8_t build_id[20]; /* if there is none: the time of the file, or a sum of what is mapped */
    uint32_t code_size;
    uint64_t device; /* of the file; 0: not known */
    uint64_t inode;
};

/* Finds the image's code and file by its headers. Returns false if it has no code. */
bool cp__image_look(struct cp__image *image);
/* Returns false if nothing tells the object from others. */
bool cp__image_identify(const struct cp__image *image, struct cp__identity *identity);
/* Makes the rows of the object; see cp__rows_make(). */
const struct cp__rows *cp__image_rows(const struct cp__image *image, bool *is_over_budget);

/* ---- For image_*.c -------------------------------------------------------------------------------- */

/* Memory of an object that can be read: in its place, or in a copy. */
struct cp__window {
    const uint8_t *bytes; /* NULL: it cannot be read */
    size_t size;
    uintptr_t moved; /* how far the copy is from its original */
    void *copy;
};

struct cp__window cp__window_open(const struct cp__image *image, uintptr_t at, size_t size);
/* Opens the segment that contains an address of the object's. */
struct cp__window cp__window_open_segment(const struct cp__image *image, uintptr_t address);
void cp__window_close(struct cp__window *window);
/* Finds the first program header of a type; NULL: there is none. */
const ElfW(Phdr) * cp__image_header(const struct cp__image *image, uint32_t type);

#endif
