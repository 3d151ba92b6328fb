/* From addresses to functions, files and lines, by libdw. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_SYMBOL_H
#define COUNTERPOINT_PPROF_SYMBOL_SYMBOL_H

#include <stddef.h>
#include <stdint.h>

#include "mapping.h"

/* One function that an instruction is part of. */
struct cp__symbol_line {
    const char *function; /* in C++ and Rust the linker's name, "_ZN3foo3barEv"; NULL: unknown */
    const char *file;     /* NULL: unknown */
    unsigned line;        /* of the instruction, or of the call that was inlined; 0: unknown */
    unsigned start_line;  /* of the function; 0: unknown */
};

/* What is known of an address. */
struct cp__symbol {
    const struct cp__symbol_line *lines; /* the innermost inlined function first, the one that the linker sees
                                          * last */
    size_t n;
    uint64_t entry; /* where the linker's function begins, or that part of it that the compiler put elsewhere
                     * (".cold"); 0: unknown */
    bool is_inlining_known; /* were there other inlined functions, they would stand here */
};

/* What is known of addresses[i]; what the symbol points to is valid during the call only. A negative result
 * ends the search. */
typedef int cp__symbol_fn(void *context, size_t i, const struct cp__symbol *symbol);

/*
 * Looks n addresses up, all in one mapping and in ascending order, and calls fn for each of which anything
 * is known; -ENOMEM, what fn returned, or 0. It reads the mapping's file, provided that it is still the one
 * that is mapped, and the separate debug file that the system has for it; it never asks the network for one.
 */
int cp__symbolise(const struct cp__mapping *mapping, const uint64_t *addresses, size_t n, cp__symbol_fn *fn,
                  void *context);

#endif
