/* Cycles that the core really makes, by AMD's RDPRU, which works in virtual machines without a PMU, too. */
#ifndef COUNTERPOINT_RUNTIME_WATCH_CORE_CYCLES_H
#define COUNTERPOINT_RUNTIME_WATCH_CORE_CYCLES_H

#include <stdbool.h>

#include "runtime.h"

/* Returns 0 if this process may read the cycles; else -ENODEV, and the reason. */
int cp__core_cycles_probe(struct cp_error *err);

/* Returns whether fn returns in a process of its own, which shares this one's memory, instead of raising
 * SIGILL or SIGSEGV there. Nothing of this process's is changed. Returns false, too, if there can be no such
 * process. */
bool cp__survives(void (*fn)(void));

#endif
