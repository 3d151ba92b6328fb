/* Profiles from servers. */
#ifndef COUNTERPOINT_CMD_REPORT_FETCH_H
#define COUNTERPOINT_CMD_REPORT_FETCH_H

#include "load.h"

/* Returns whether a source's name is a URL, or HOST:PORT with or without a path. A file of that name comes
 * first. */
bool is_url(const char *name);

/* Fetches a profile into source->data, or says why it cannot be had: the server's answer, or that there is
 * none. HOST:PORT alone means its /debug/pprof/profile. */
enum status fetch_profile(struct source *source);

#endif
