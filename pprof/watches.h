/* What the comments of a profile say of the watches in whose rounds samples were taken. */
#ifndef COUNTERPOINT_PPROF_WATCHES_H
#define COUNTERPOINT_PPROF_WATCHES_H

#include "comments.h"

/* Calls fn for each comment on watches of a resolved profile. Without memory there are fewer comments. */
void cp__watch_lines(const struct cp__profile *profile, cp__comment_line_fn *fn, void *context);

#endif
