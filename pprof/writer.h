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
    /* Called after each attempt that begin let begin, with what came of it so far: flushes what was written,
     * or undoes it. Returns what came of all. May be NULL. */
    int (*end)(struct cp_writer *w, int result);
    /* Gives back what open took. May be NULL. */
    void (*close)(struct cp_writer *w);
    bool (*same)(const struct cp_writer *a, const struct cp_writer *b);
};

/* For writers of descriptors: says that the writer was made of nothing, -EINVAL; does one write(); tells
 * whether both are one descriptor or one regular file, of which two writers would overwrite each other. */
int cp__writer_refuse_null(const struct cp_writer *w, struct cp_error *err);
ssize_t cp__writer_fd_write(struct cp_writer *w, const void *data, size_t size);
bool cp__writer_same_file(const struct cp_writer *a, const struct cp_writer *b);

/* Writes all of data, through short writes and EINTR; 0 or a negative errno value. */
int cp__write_all(struct cp_writer *w, const void *data, size_t size);

/* The same for what print() writes to a stream. */
typedef int cp__print_fn(const void *what, FILE *out);
int cp__write_text(struct cp_writer *w, cp__print_fn *print, const void *what);

/* Has fn write to w, in one attempt, from its begin to its end; says why where that fails. Called on a thread
 * of cp__thread_start(). */
typedef int cp__write_fn(const void *what, struct cp_writer *w);
int cp__write_attempt(struct cp_writer *w, cp__write_fn *fn, const void *what, struct cp_error *err);

/* Opens w, has fn called on a thread of its own, to make a profile and an attempt, and closes w: the caller
 * may be a G, and to look names up takes more stack than that has. */
typedef int cp__make_fn(const void *what, struct cp_writer *w, struct cp_error *err);
int cp__write_elsewhere(struct cp_writer w, cp__make_fn *fn, const void *what, struct cp_error *err);
/* Says that a callback ended the thread, by pthread_exit() for instance: -ECANCELED. */
int cp__write_left(struct cp_error *err);
/* Says that there was no thread to write on. */
int cp__write_refused(int result, struct cp_error *err);

#endif
