/* Endpoints whose profile is a state of the program, such as its threads, and not what happened in a time. */
#ifndef COUNTERPOINT_HTTP_SNAPSHOT_H
#define COUNTERPOINT_HTTP_SNAPSHOT_H

#include <stddef.h>

/* The most bytes of a state as text or profile. Tests set fewer. */
extern size_t cp__http_max_snapshot;

#endif
