/*
 * The objects that are mapped, with their rows (rows.h).
 *
 * An object is known by its file and its build id, or by what is mapped if it has none and its file is not
 * found. Its rows are made once in a process, even if it is unmapped and mapped again. Processes that are
 * forked share the rows' memory until they exit.
 *
 * All functions are for one thread at a time, and not for signal handlers.
 */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_OBJECTS_H
#define COUNTERPOINT_RUNTIME_UNWIND_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cp__rows;

struct cp__object {
    uintptr_t lo; /* its code, [lo, hi); between parts of the code there may be other mappings */
    uintptr_t hi;
    const struct cp__rows *rows; /* NULL if the object has none; addresses in them count from lo */
    bool may_go;                 /* the object was not loaded with the program, and may be unloaded */
};

/* Looks at all mapped objects, whoever loaded them, and makes the rows of new ones. Returns the objects with
 * code, sorted by address; they are valid until the next call. Notes the mappings, too (maps_linux.h), while
 * the linker holds its objects. */
const struct cp__object *cp__objects_update(size_t *n);
/* Returns how many objects have no rows because their call-frame information takes more to read than it may;
 * *first is the path of the first one. Any thread may ask. */
uint32_t cp__objects_refused(const char **first);
/* Returns whether objects were mapped or unmapped since the last cp__objects_update(). */
bool cp__objects_have_changed(void);
/* For the child of a fork: another thread of the parent may have been in one of these functions. */
void cp__objects_after_fork(void);

#endif
