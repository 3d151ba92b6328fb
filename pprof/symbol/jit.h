/* Finds names of code that a just-in-time compiler has made, in the files that such compilers write for
 * perf. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_JIT_H
#define COUNTERPOINT_PPROF_SYMBOL_JIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "symbol.h"

/* See cp_symbol_use_jit(). */
void cp__jit_use(bool use);
bool cp__jit_is_used(void);

/* Looks up n ascending addresses of this process, and calls fn() for each that one of the files names. Code
 * that was made after ended_ns, a time of CLOCK_MONOTONIC, is passed over if the file tells the time; 0: no
 * code is. Returns 0, -ENOMEM, or what fn() returned. */
int cp__jit_symbolise(const struct cp__mappings *mappings, const uint64_t *addresses, size_t n,
                      int64_t ended_ns, cp__symbol_fn *fn, void *context);

/* ---- The readers of the files ------------------------------------------------------------ */

/*
 * What a file says about one address. A file may have millions of entries, of which few are needed. So a
 * reader passes over the file once, and notes for each of the wanted addresses the place of the last entry
 * that has it. The names are read then.
 */
struct cp__jit_hit {
    uint64_t at;    /* where the file has the entry, plus 1; 0: no entry has the address */
    uint64_t start; /* where the code began */
    /* in a jitdump file only: */
    uint64_t stamp;    /* time of the entry */
    uint64_t index;    /* the compiler's number of code that was moved; its name is in another entry */
    uint64_t origin;   /* where the code began before it was moved */
    uint64_t lines_at; /* where the file has the lines of the code; 0: nowhere */
    bool is_moved;
};

struct cp__jit_search {
    FILE *file;
    const uint64_t *addresses;
    struct cp__jit_hit *hits; /* one for each address */
    size_t n;
    int64_t ended_ns;
};

/* Finds the addresses from "start" to before start + size. Returns whether there are any, from *first to
 * before *end. */
bool cp__jit_find(const struct cp__jit_search *search, uint64_t start, uint64_t size, size_t *first,
                  size_t *end);

/* The longest name of a function or file, with the 0 at its end. Of a longer one, the beginning is taken. */
enum { CP__JIT_NAME = 4096 };
struct cp__jit_answer {
    char name[CP__JIT_NAME]; /* "": unknown */
    char file[CP__JIT_NAME];
    unsigned line; /* 0: unknown */
};

/* perf's map: a line for each function. */
void cp__jit_map_scan(struct cp__jit_search *search);
void cp__jit_map_answer(const struct cp__jit_search *search, size_t i, struct cp__jit_answer *answer);

/* A jitdump file: see linux/tools/perf/Documentation/jitdump-specification.txt. Returns 0 or -ENOMEM. */
int cp__jit_dump_scan(struct cp__jit_search *search);
void cp__jit_dump_answer(const struct cp__jit_search *search, size_t i, struct cp__jit_answer *answer);

#endif
