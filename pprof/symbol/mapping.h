/* What executable memory belongs to. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_MAPPING_H
#define COUNTERPOINT_PPROF_SYMBOL_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An executable mapping of this process, or the kernel or a module of it. Where in its half of the address
 * space those lie nobody needs to know, so each has all of it: profiles of one boot can be added up. */
struct cp__mapping {
    uint64_t start;
    uint64_t limit;
    uint64_t offset; /* of start in the file */
    char *file;      /* absolute, or "[vdso]" and its like; "//anon", perf's name, for memory of no file */
    char *build_id;  /* in hexadecimal digits; NULL: unknown */
    bool deleted;    /* another file may have taken the file's name */
    bool main;       /* the program's own */
    bool kernel;     /* "[kernel.kallsyms]" or "[MODULE]", perf's names */
};

/*
 * All mappings that were ever noted, those of the program first; none is forgotten when its object is
 * unloaded. Where two objects were loaded in one place one after the other, nothing tells which of them an
 * address was in; it counts for the first. Zero is an empty set.
 */
struct cp__mappings {
    struct cp__mapping *items;
    size_t n;
    size_t capacity;
};

/* Adds the mappings that are there now and not known yet. -ENOMEM, or why /proc/self/maps cannot be
 * read, or 0. Takes the dynamic linker's lock for a moment. */
int cp__mappings_note(struct cp__mappings *mappings);
/* The number of the process's mapping that an address is in; mappings->n where it is in none. */
size_t cp__mappings_find(const struct cp__mappings *mappings, uint64_t address);
/* Finds or adds that of the kernel (name "") or of a module ("[MODULE]"). -ENOMEM or 0. */
int cp__mappings_add_kernel(struct cp__mappings *mappings, const char *name, size_t *number);
void cp__mappings_free(struct cp__mappings *mappings);

#endif
