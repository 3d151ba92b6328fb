/*
 * The mappings of this process, by /proc/self/maps.
 *
 * All functions are for one thread at a time, and not for signal handlers. They take memory from the kernel
 * only: see rows.c.
 */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_MAPS_LINUX_H
#define COUNTERPOINT_RUNTIME_UNWIND_MAPS_LINUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cp__mapped {
    uintptr_t start;
    uintptr_t end;
    uint64_t offset; /* in the file */
    uint64_t device; /* of the file: its major number, and its minor number in the lower half */
    uint64_t inode;  /* 0: the mapping is of no file */
    bool is_readable;
    bool is_executable;
};

/* Returns the mapping that holds the address now; if there is none, all of its members are 0. */
struct cp__mapped cp__maps_look(uintptr_t address);

/* Notes the mappings that are of files or executable; the list is valid until the next call. If not all
 * mappings can be read, the list is empty. */
void cp__maps_note(void);
/* The CPU time that the last call of cp__maps_note() took. */
uint64_t cp__maps_noting_ns(void);
/* The list, sorted by address. */
const struct cp__mapped *cp__maps_noted(size_t *n);
/* Returns the mapping of a file that holds the address; NULL: there is none. */
const struct cp__mapped *cp__maps_of_file_at(uintptr_t address);
/* Returns the path that a mapping of the list had when it was noted. */
const char *cp__maps_path(const struct cp__mapped *mapping);
/* For the child of a fork: another thread of the parent may have been in one of these functions. */
void cp__maps_after_fork(void);

static inline bool cp__maps_are_of_one_file(const struct cp__mapped *a, const struct cp__mapped *b)
{
    return a->device == b->device && a->inode == b->inode;
}

/* Returns an array with room for `more` elements behind the first n; NULL: there is no memory. */
void *cp__with_room(void *array, size_t n, size_t more, size_t *room, size_t element);

#endif
