/* The names of a watch's stages. */
#ifndef COUNTERPOINT_RUNTIME_WATCH_STAGES_H
#define COUNTERPOINT_RUNTIME_WATCH_STAGES_H

#include "error.h"
#include "watch.h"

/* All zeros means no stages. */
struct cp__stages {
    char *text; /* the names, one after the other */
    const char *names[CP_WATCH_STAGES_MAX];
    unsigned n;
};

/* Reads the names of a list with commas between them; NULL: no stages. Returns 0, -EINVAL or -ENOMEM, and
 * then *stages has no stages. */
int cp__stages_parse(struct cp__stages *stages, const char *list, struct cp_error *err);
void cp__stages_free(struct cp__stages *stages);

#endif
