/* All engines. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_ENGINES_H
#define COUNTERPOINT_RUNTIME_ENGINE_ENGINES_H

#include "runtime.h"

/* Opens the events on the calling thread as an M would, all of them together, and closes them. Fills err if
 * one of them fails, or opens and counts nothing (-ENODATA). Lowers each config's precise_ip to the level
 * that works. */
int cp__engines_probe(struct cp_slot_request *requests, size_t n, struct cp_error *err);

#endif
