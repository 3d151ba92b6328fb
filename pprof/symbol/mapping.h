/* The files, or parts of the kernel, that executable memory belongs to. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_MAPPING_H
#define COUNTERPOINT_PPROF_SYMBOL_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An executable mapping of this process, or the kernel, or one of its modules. The exact addresses of the
 * kernel and its modules do not matter, so each of these has the whole upper half of the address space.
 * Profiles of one boot can therefore be merged. */
struct cp__mapping {
    uint64_t start;
    uint64_t limit;
    uint64_t offset; /* offset of start in the file */
    char *file; /* an absolute path, or "[vdso]" and the like; "//anon", as in perf, if there is no file */
    char *build_id; /* in hexadecimal digits; NULL: unknown */
    bool deleted;   /* the file was deleted, and another file may have its name now */
    bool main;      /* the mapping belongs to the program's own file */
    bool kernel;    /* "[kernel.kallsyms]" or "[MODULE]", as in perf */

    bool is_code;    /* executable; the other mappings of files are not kept */
    bool is_linked;  /* the dynamic linker has loaded the object */
    uint64_t bias;   /* what the linker has added to the object's addresses, if it has loaded the object */
    uint64_t header; /* where the linker has put the beginning of the object's file; 0: unknown */
    uint64_t inode;  /* of the file; 0: unknown, or there is no file */
    uint64_t device; /* as the major and minor numbers in /proc/self/maps: major << 32 | minor */
};

/*
 * All mappings that cp__mappings_note() has ever found, those of the program first. A mapping stays when its
 * object is unloaded. If two objects were loaded at the same address one after the other, nothing tells to
 * which of them an address belonged, and the address counts for the first. All-zero is an empty set.
 */
struct cp__mappings {
    struct cp__mapping *items;
    size_t n;
    size_t capacity;
};

/* Returns whether the mapping is one of the process now, as a whole or as a part. */
bool cp__mapping_is_current(const struct cp__mapping *mapping);
/* Adds the current mappings that are not known yet. Returns 0, -ENOMEM, or why /proc/self/maps cannot be
 * read. Takes the dynamic linker's lock for a moment. */
int cp__mappings_note(struct cp__mappings *mappings);
/* Returns the number of the process's mapping that contains an address; mappings->n if there is none. */
size_t cp__mappings_find(const struct cp__mappings *mappings, uint64_t address);
/* Finds or adds the mapping of the kernel (name "") or of a module ("[MODULE]"). Returns 0 or -ENOMEM. */
int cp__mappings_add_kernel(struct cp__mappings *mappings, const char *name, size_t *number);
void cp__mappings_free(struct cp__mappings *mappings);

#endif
