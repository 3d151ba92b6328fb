/* Stalls, as the endpoint tells of them. */
#ifndef COUNTERPOINT_HTTP_STALLS_H
#define COUNTERPOINT_HTTP_STALLS_H

#include <stdint.h>
#include <stdio.h>

#include "pprof.h"

/* Prints the counters of stalls for Prometheus; nothing if stalls were never looked for. */
void cp__http_print_stalls(FILE *out);

/* Has stalls looked for while a request records, if the program does not do so itself. threshold_ns 0: that
 * of the program, or the default. Returns 1 if cp_stalls_stop() is to be called, 0 if not, or a negative
 * errno value: the program looks for stalls with another threshold. */
int cp__http_begin_stalls(uint64_t threshold_ns, struct cp_error *err);

#endif
