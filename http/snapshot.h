/* Endpoints whose profile is a state of the program, not what happened in a time. */
#ifndef COUNTERPOINT_HTTP_SNAPSHOT_H
#define COUNTERPOINT_HTTP_SNAPSHOT_H

#include "exchange.h"

/* Writes the state as it is now: as a profile with debug 0, otherwise as text. */
typedef int cp__http_take_fn(struct cp_writer w, unsigned debug, struct cp_error *err);

/* Answers with the state or, if the query has "seconds", with what changes in so many seconds, as
 * net/http/pprof does. The name is that of the file that is sent. */
int cp__http_snapshot(struct cp__exchange *exchange, const char *name, cp__http_take_fn *take);

/* The bytes that a state may have as text or profile; tests take fewer. */
extern size_t cp__http_max_snapshot;

#endif
