/* The files, or parts of the kernel, that executable memory belongs to. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_MAPPING_H
#define COUNTERPOINT_PPROF_SYMBOL_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An executable mapping of this process or another one, or the kernel, or one of its modules. The exact
 * addresses of the kernel and its modules do not matter, so each of these has the whole upper half of the
 * address space. Profiles of one boot can therefore be merged. */
struct cp__mapping {
    uint64_t start;
    uint64_t limit;
    uint64_t offset; /* offset of start in the file */
    char *file;      /* an absolute path, or "[vdso]" and the like; "[anon]" if there is no file */
    char *build_id;  /* in hexadecimal digits; NULL: unknown */
    bool deleted;    /* the file was deleted, and another file may have its name now */
    bool main;       /* the mapping belongs to the program's own file */
    bool kernel;     /* "[kernel.kallsyms]" or "[MODULE]", as in perf */

    bool is_code;    /* executable; the other mappings of files are not kept */
    bool is_linked;  /* the dynamic linker has loaded the object */
    uint64_t bias;   /* what the linker has added to the object's addresses, if it has loaded the object */
    uint64_t header; /* where the linker has put the beginning of the object's file; 0: unknown */
    uint64_t inode;  /* of the file; 0: unknown, or there is no file */
    uint64_t device; /* as the major and minor numbers in /proc/self/maps: major << 32 | minor */
    uint64_t written_ns; /* when the file was last written, as it was when it was seen first; 0: unknown */

    uint32_t process;  /* number of the process that has the mapping; 0: this one */
    uint32_t object;   /* the place of the object in the linker's list, as it was; 0: in no object */
    bool is_permanent; /* the object was loaded with the program, so it is never unloaded */
    bool is_used;      /* a frame is in the mapping, so that it keeps its number */
};

/* Where the mappings were at one time, sorted by address. */
struct cp__places {
    struct cp__place {
        uint64_t start;
        uint64_t limit;
        uint32_t number; /* of the mapping */
    } * items;
    size_t n;
    size_t capacity;
    uint64_t loads;     /* how many objects the linker had loaded by then, */
    uint64_t unloads;   /* and unloaded */
    uint64_t stamps[2]; /* of what was loaded then; see runtime/base/loads.h */
    uint64_t fresh;     /* how many of the objects were not known at the time before */
};

/*
 * The mappings as cp__mappings_note() has found them, those of the program first, and where they were at
 * the last call and the one before. A mapping that is unmapped keeps its number if it is in use, or was
 * there at one of these two times; else its number is free for another one, and its file is NULL. All-zero is
 * an empty set.
 *
 * Other processes have numbers from 1 on, and the mappings that cp__mappings_add_of() has been told of.
 */
struct cp__mappings {
    struct cp__mapping *items;
    size_t n;
    size_t capacity;
    struct cp__places now;
    struct cp__places before;
    /* why /proc/self/maps could not be read once, as a negative errno; then the mappings are those that the
     * linker knows; 0: it could always be read */
    int unread;
    struct cp__places *others; /* of process 1, process 2 and so on: where their mappings are */
    size_t n_others;
    size_t others_capacity;
};

/* Stores copies of a mapping's strings in the mapping itself. Returns 0 or -ENOMEM. */
int cp__mapping_own_strings(struct cp__mapping *mapping, const char *file, const char *build_id);
/* Returns whether a file is the one that the mapping was made of, by the number that the file has and the
 * time at which the file was last written. */
struct stat;
bool cp__mapping_is_of(const struct cp__mapping *mapping, const struct stat *status);
/* Returns whether the mapping is one of this process now, as a whole or as a part. */
bool cp__mapping_is_current(const struct cp__mapping *mapping);
/* Finds the current mappings, and adds those that are not known yet. Returns 0 or -ENOMEM, which changes
 * nothing. Takes the dynamic linker's lock for a moment. */
int cp__mappings_note(struct cp__mappings *mappings);
/* Returns whether the linker has loaded or unloaded objects since the mappings were noted. */
bool cp__mappings_have_changed(const struct cp__mappings *mappings);
/* Returns the number of this process's mapping that contains an address now; mappings->n if there is none. */
size_t cp__mappings_find(const struct cp__mappings *mappings, uint64_t address);
/* The same, faster if the address is at the same place as the last one; *last is for this function. */
size_t cp__mappings_find_near(const struct cp__mappings *mappings, uint64_t address, size_t *last);
/*
 * The same for an address of which is known that it was sampled between the last two calls of
 * cp__mappings_note(). Returns CP__MAPPING_REPLACED if nothing tells which one of several objects it was in:
 * if there were different ones at the two times, or if others may have come and gone in between.
 */
#define CP__MAPPING_REPLACED SIZE_MAX
size_t cp__mappings_find_between(const struct cp__mappings *mappings, uint64_t address);
/* The same for an address of which the stamp of its sample is known, and whether it was sampled between these
 * calls or after them. The stamp decides if it is that of one of the two times. If the
 * mappings are of now, the address is where cp__mappings_find() finds one. */
bool cp__mappings_are_of_now(const struct cp__mappings *mappings, uint64_t stamp, bool is_between);
size_t cp__mappings_find_then(const struct cp__mappings *mappings, uint64_t address, uint64_t stamp,
                              bool is_between);
/* Adds another process, and stores its number. Returns 0 or -ENOMEM. */
int cp__mappings_add_process(struct cp__mappings *mappings, uint32_t *process);
/* Adds a mapping of the process mapping->process, with copies of its strings. It has a file with an inode
 * number or a build id, without which symbols are those of whatever has the file's name. Returns 0; -ESRCH:
 * there is no other process of that number; -EEXIST: the process has a mapping there; or -ENOMEM. */
int cp__mappings_add_of(struct cp__mappings *mappings, const struct cp__mapping *mapping);
/* Returns the number of another process's mapping that contains an address; mappings->n if there is none. */
size_t cp__mappings_find_of(const struct cp__mappings *mappings, uint32_t process, uint64_t address);
/* Adds the code of the objects that the linker knows. Returns 0 or -ENOMEM. */
int cp__mappings_add_linked(struct cp__mappings *mappings);
/* Finds or adds the mapping of the kernel (name "") or of a module ("[MODULE]"). Returns 0 or -ENOMEM. */
int cp__mappings_add_kernel(struct cp__mappings *mappings, const char *name, size_t *number);
void cp__mappings_free(struct cp__mappings *mappings);

#endif
