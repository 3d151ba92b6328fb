/* The kinds of writers, which the constructors of pprof.h fill in. */
#ifndef COUNTERPOINT_PPROF_WRITER_H
#define COUNTERPOINT_PPROF_WRITER_H

#include "pprof.h"

struct cp_writer_ops {
    const char *what; /* for error messages: "file", "descriptor", ... */
    /* Checks that writing is possible, without changing anything that exists. May be NULL. */
    int (*open)(struct cp_writer *w, struct cp_error *err);
    /* Called before the first byte of each attempt. May be NULL. */
    int (*begin)(struct cp_writer *w);
    ssize_t (*write)(struct cp_writer *w, const void *data, size_t size);
    /* Called with the result so far after each attempt whose begin() succeeded: flushes what was written, or
     * undoes it. Returns the result of the whole attempt. May be NULL. */
    int (*end)(struct cp_writer *w, int result);
    /* Releases what open() has taken. May be NULL. */
    void (*close)(struct cp_writer *w);
    /* Returns whether two writers would overwrite each other's profile. */
    bool (*same)(const struct cp_writer *a, const struct cp_writer *b);
};

/* For several kinds of writers: refuse_null fails with -EINVAL because the writer was made of NULL; fd_write
 * does one write(); same_file tells whether both writers have one descriptor or one regular file. */
int cp__writer_refuse_null(const struct cp_writer *w, struct cp_error *err);
ssize_t cp__writer_fd_write(struct cp_writer *w, const void *data, size_t size);
bool cp__writer_same_file(const struct cp_writer *a, const struct cp_writer *b);

/* Writes all data, through short writes and EINTR. Returns 0 or a negative errno value. */
int cp__write_all(struct cp_writer *w, const void *data, size_t size);

/* The same for the text that print() writes to a stream. */
typedef int cp__print_fn(const void *what, FILE *out);
int cp__write_text(struct cp_writer *w, cp__print_fn *print, const void *what);

/* Calls fn() between the writer's begin() and end(), as one attempt; if that fails, *err says why. Must be
 * called on a thread of cp__thread_start(), which blocks all signals. */
typedef int cp__write_fn(const void *what, struct cp_writer *w);
int cp__write_attempt(struct cp_writer *w, cp__write_fn *fn, const void *what, struct cp_error *err);

/* Opens w, calls fn() on a thread of its own, to make a profile and an attempt, and closes w. The thread is
 * needed because the caller may be a G, whose stack is too small for looking up names. */
typedef int cp__make_fn(const void *what, struct cp_writer *w, struct cp_error *err);
int cp__write_elsewhere(struct cp_writer w, cp__make_fn *fn, const void *what, struct cp_error *err);
/* Fails with -ECANCELED, because a callback has ended the thread, for instance by pthread_exit(). */
int cp__write_left(struct cp_error *err);
/* Fails because there was no thread to write on. */
int cp__write_refused(int result, struct cp_error *err);

#endif
