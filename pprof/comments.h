/* The comments of profiles, "KEY: VALUE # sentence". report.c makes them, and comments.c reads them. */
#ifndef COUNTERPOINT_PPROF_COMMENTS_H
#define COUNTERPOINT_PPROF_COMMENTS_H

#include "profile.h"

/* A comment. Valid during the call that receives it. */
struct cp__comment_line {
    bool is_limit;
    const char *key, *value, *sentence;
};
typedef void cp__comment_line_fn(void *context, const struct cp__comment_line *line);

/* Makes the comments of a profile whose names were left for later, and have been looked up since: those that
 * it had, with what was found in place of the first one that says so. The caller frees them; NULL: no
 * memory. */
struct cp__comments;
struct cp__comments *cp__comments_name(const char *const *known, size_t n,
                                       const struct cp__profile_findings *findings);
const char *const *cp__comments_list(const struct cp__comments *comments, size_t *n);

/* Returns the value of a comment with that key, and what follows it; NULL if the key is another one. */
const char *cp__comment_value(const char *comment, const char *key);
/* Finds a key in a list of keys with commas between, which has n characters. Returns its place, or NULL. */
const char *cp__keys_find(const char *keys, size_t n, const char *key);
/* Returns the boot of the machine of a comment that says that names are left for later, and what follows it;
 * NULL: the comment says something else. */
const char *cp__comment_later(const char *comment);

#endif
