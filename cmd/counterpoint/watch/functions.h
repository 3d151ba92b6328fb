/* Functions to watch: which file has the code of each, and where in the file. */
#ifndef COUNTERPOINT_CMD_WATCH_FUNCTIONS_H
#define COUNTERPOINT_CMD_WATCH_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"

/* How many functions one command can watch. */
#define WATCH_FUNCTIONS 32

/* A function whose code was found. */
struct watch_function {
    char *name;      /* as the command line has it */
    char *path;      /* of the file with the code, for the kernel */
    uint64_t offset; /* of the code's first instruction in that file */
};
void watch_function_free(struct watch_function *function);

/* ---- Files: files.c -------------------------------------------------------------------------- */

/* An ELF file of the program. */
struct watch_file {
    char *path; /* for open(2), and for the kernel */
    char *name; /* for people: the path as the program has it */
};

/* The program's files: its own first, then its libraries. */
struct watch_files {
    struct watch_file *items;
    size_t n;
    size_t capacity;
};

/* Finds the files of a program that is to be run, and of a process. Libraries are those that the program's
 * own dynamic linker lists, or those that the process has mapped. A script has no files. Return 0, or a
 * negative errno value and a sentence. */
int watch_files_of_program(struct watch_files *files, const char *path, struct cp_error *err);
int watch_files_of_process(struct watch_files *files, pid_t pid, struct cp_error *err);
/* Returns the file that a name means: a path, or the name of one of the files without its folder, with or
 * without what follows ".so". A path need not be of the files: the program may load it later. NULL: there is
 * none. */
const struct watch_file *watch_files_find(struct watch_files *files, const char *name);
void watch_files_free(struct watch_files *files);

/* ---- Symbols: symbols.c ---------------------------------------------------------------------- */

/* How many of the functions that share a name are kept; their number is not limited. */
#define WATCH_SHOWN 5

/* What a search in files has found. The caller sets the struct to zero first, and frees it. */
struct watch_search {
    const char *name; /* the linker's name, or the demangled one, with or without parameters */
    uint64_t address; /* of the function, if has_address: "NAME@ADDRESS" chooses one of several */
    bool has_address;
    /* How many functions have the name, and the first ones of them. */
    size_t n;
    struct watch_place {
        char *path;
        char *where; /* for people: the file, the address, and the source if it is known */
        uint64_t offset;
        bool is_go;       /* the file has Go's runtime */
        bool is_indirect; /* the symbol is of a resolver, which returns the function to use */
        bool is_in_file;  /* the code is in the file; else the offset has no meaning */
    } places[WATCH_SHOWN];
    /* Names that are similar, and whether the function is there in inlined copies only. */
    size_t n_near;
    char *near[WATCH_SHOWN];
    bool is_inlined;
    bool is_stripped; /* the last file has no names but those for the dynamic linker */
};

/* Searches one file. Returns 0, or a negative errno value and a sentence: the file cannot be read. */
int watch_search_file(struct watch_search *search, const struct watch_file *file, struct cp_error *err);
void watch_search_free(struct watch_search *search);

/* ---- Functions: functions.c ------------------------------------------------------------------ */

/* Finds the function that "NAME" or "LIBRARY:NAME" means. Returns 0, or a negative errno value and a
 * sentence. */
int watch_find_function(struct watch_function *function, const char *text, struct watch_files *files,
                        struct cp_error *err);

#endif
