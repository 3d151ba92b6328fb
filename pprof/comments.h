/* The comments of profiles whose names were left for later. report.c makes them, as it makes all comments. */
#ifndef COUNTERPOINT_PPROF_COMMENTS_H
#define COUNTERPOINT_PPROF_COMMENTS_H

#include "profile.h"

/* Makes the comments of a profile whose names were left for later, and have been looked up since: those that
 * it had, with what was found in place of the one that says so. The caller frees them; NULL: no memory. */
struct cp__comments;
struct cp__comments *cp__comments_name(const char *const *known, size_t n,
                                       const struct cp__profile_findings *findings);
const char *const *cp__comments_list(const struct cp__comments *comments, size_t *n);
/* Returns whether a comment says that names are left for later. */
bool cp__comment_is_later(const char *comment);

#endif
