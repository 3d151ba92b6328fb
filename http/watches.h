/* What watches have measured, for the endpoints that tell of it. */
#ifndef COUNTERPOINT_HTTP_WATCHES_H
#define COUNTERPOINT_HTTP_WATCHES_H

#include "watch.h"

/* Prints what all watches have measured. Returns 0 or -ENOMEM. */
int cp__http_print_watches(FILE *out, enum cp_watch_form form, struct cp_error *err);

#endif
