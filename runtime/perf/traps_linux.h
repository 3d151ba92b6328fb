/* Whether samples may come by traps. */
#ifndef COUNTERPOINT_RUNTIME_PERF_TRAPS_LINUX_H
#define COUNTERPOINT_RUNTIME_PERF_TRAPS_LINUX_H

#include <stdbool.h>

#include "event.h"

/* Returns what speaks against traps here and now, as a phrase that is never freed; NULL: nothing. An event is
 * opened and closed for that: see cp__fork_delay(). */
const char *cp__traps_find_obstacle(void);
/* Replaces AUTO by what CP_ENGINE in the environment asks for, if it does. Returns 0, or -EINVAL if CP_ENGINE
 * names no engine. */
int cp__traps_ask_environment(enum cp_engine *engine, struct cp_error *err);
/* Returns whether an event that asks for no engine is sampled by traps. */
bool cp__traps_are_default(void);

#endif
