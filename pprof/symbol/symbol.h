/* Finds functions, files and lines by addresses, with libdw. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_SYMBOL_H
#define COUNTERPOINT_PPROF_SYMBOL_SYMBOL_H

#include <stddef.h>
#include <stdint.h>

#include "mapping.h"

/* One of the functions that an instruction belongs to: the function itself, or one that was inlined. */
struct cp__symbol_line {
    /* For C++ and Rust, the linker's name, "_ZN3foo3barEv", if it is known; else the name in the source.
     * NULL: unknown. */
    const char *function;
    /* The name in the source with scopes and parameters, "foo::bar(int)", if "function" lacks these; else
     * NULL. */
    const char *qualified;
    const char *file;      /* NULL: unknown */
    const char *directory; /* where the compiler ran, to which "file" may be relative; NULL: unknown */
    unsigned line;         /* line of the instruction, or of the inlined call; 0: unknown */
    unsigned start_line;   /* line where the function begins; 0: unknown */
};

/* Returns the name that tells a function from others; NULL: unknown. */
static inline const char *cp__symbol_name(const struct cp__symbol_line *line)
{
    return line->qualified != NULL ? line->qualified : line->function;
}

/* What is known about an address. */
struct cp__symbol {
    const struct cp__symbol_line
        *lines; /* from the innermost inlined function to the function that the linker
                                          * sees */
    size_t n;
    uint64_t entry; /* where the linker's function begins, or the part of it that the compiler has placed
                     * elsewhere (".cold"); 0: unknown */
    bool is_inlining_known; /* "lines" is complete; else inlined functions may be missing */
};

/* Called with what is known about addresses[i]. The symbol and what it points to are valid only during the
 * call. A negative result ends the search. */
typedef int cp__symbol_fn(void *context, size_t i, const struct cp__symbol *symbol);

/* Why functions have no names. */
enum cp__missing {
    CP__MISSING_NOTHING,
    CP__MISSING_FILE,       /* the code is in no file */
    CP__MISSING_GONE,       /* there is no file of that name */
    CP__MISSING_REPLACED,   /* another file has the file's name now */
    CP__MISSING_RIGHT,      /* this user may not read the file */
    CP__MISSING_DESCRIPTOR, /* too many files are open */
    CP__MISSING_MEMFD,      /* the file is in memory only, and this user may not read it */
    CP__MISSING_FORMAT,     /* the file is no ELF object, or a broken one */
    CP__MISSING_SYMBOLS,    /* the file has neither symbols nor debug information, or exported symbols only */
    CP__MISSING_COMPRESSED, /* libdw does not know how the debug information is compressed */
    CP__MISSING_PART,       /* debug information that is in a further file, which is missing or unreadable */
};
/* Returns the sentence, "its file ...". */
const char *cp__missing_explain(enum cp__missing missing);

/*
 * Looks up n ascending addresses, all in one mapping, and calls fn() for each about which anything is known.
 * Returns 0, -ENOMEM, or what fn() returned. Reads the mapping's file if that is still the file that is
 * mapped, else what is mapped of it, and the separate debug file that this machine has for it. Never asks the
 * network. Stores why some of the functions have no names, if there is a reason to tell.
 */
int cp__symbolise_telling(const struct cp__mapping *mapping, const uint64_t *addresses, size_t n,
                          cp__symbol_fn *fn, void *context, enum cp__missing *missing);
/* Returns whether another process can look the mapping's addresses up as well, after this one's end: the
 * linker has loaded the code, and its file has its name still. */
bool cp__mapping_can_wait(const struct cp__mapping *mapping);
/* The same for a caller to whom the reason does not matter. */
int cp__symbolise(const struct cp__mapping *mapping, const uint64_t *addresses, size_t n, cp__symbol_fn *fn,
                  void *context);

#endif
