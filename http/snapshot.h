/* Endpoints whose profile is a state of the program, not what happened in a time. */
#ifndef COUNTERPOINT_HTTP_SNAPSHOT_H
#define COUNTERPOINT_HTTP_SNAPSHOT_H

#include <stddef.h>

/* The bytes that a state may have as text or profile; tests take fewer. */
extern size_t cp__http_max_snapshot;

#endif
