/* The kinds of writer: what the constructors of pprof.h fill in. */
#ifndef COUNTERPOINT_PPROF_WRITER_H
#define COUNTERPOINT_PPROF_WRITER_H

#include "pprof.h"

struct cp_writer_ops {
    const char *what; /* for error messages: "file", "descriptor", ... */
    /* Makes sure that writing is possible, changing nothing that exists. May be NULL. */
    int (*open)(struct cp_writer *w, struct cp_error *err);
    /* Called before the first byte of each attempt. May be NULL. */
    int (*begin)(struct cp_writer *w);
    ssize_t (*write)(struct cp_writer *w, const void *data, size_t size);
    /* Called after the last byte of each attempt, to flush. May be NULL. */
    int (*end)(struct cp_writer *w);
    /* Gives back what open took. May be NULL. */
    void (*close)(struct cp_writer *w);
    bool (*same)(const struct cp_writer *a, const struct cp_writer *b);
};

/* Writes all of data, through short writes and EINTR; 0 or a negative errno value. */
int cp__write_all(struct cp_writer *w, const void *data, size_t size);

#endif
