/* What the comments of a profile say of the watches in whose rounds samples were taken. */
#ifndef COUNTERPOINT_PPROF_WATCHES_H
#define COUNTERPOINT_PPROF_WATCHES_H

#include "profile.h"

/* A comment. Valid during the call that receives it. */
struct cp__watch_line {
    bool is_limit;
    const char *key, *value, *sentence;
};
typedef void cp__watch_line_fn(void *context, const struct cp__watch_line *line);
/* Calls fn for each comment on watches of a resolved profile. Without memory there are fewer comments. */
void cp__watch_lines(const struct cp__profile *profile, cp__watch_line_fn *fn, void *context);

#endif
