/* Files of perf record. */
#ifndef COUNTERPOINT_CMD_REPORT_PERF_H
#define COUNTERPOINT_CMD_REPORT_PERF_H

#include "load.h"
#include "pprof.h"

/* Returns whether a file is one of perf record, by its first bytes. */
bool is_perf_file(const struct source *source);

/* Puts a profile in pprof's format in the place of a file of perf record, which perf script reads, or says
 * why that cannot be. The profile has the values "samples", and those of each event. */
enum status perf_to_pprof(struct source *source);

/* Reads what perf script has printed, which is changed, and stores the profile. Returns 0 or a negative errno
 * value. */
int perf_text_to_pprof(char *text, struct cp_memory *profile);

#endif
