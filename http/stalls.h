/* Stalls, as the endpoint tells of them. */
#ifndef COUNTERPOINT_HTTP_STALLS_H
#define COUNTERPOINT_HTTP_STALLS_H

#include <stdio.h>

/* Prints the counters of stalls for Prometheus; nothing if stalls were never looked for. */
void cp__http_print_stalls(FILE *out);

#endif
