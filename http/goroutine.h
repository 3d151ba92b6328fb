/* The stacks of Gs that do not run. */
#ifndef COUNTERPOINT_HTTP_GOROUTINE_H
#define COUNTERPOINT_HTTP_GOROUTINE_H

#include "pprof.h"

/* By the unwind tables, through all code that has them. A cp_unwind_fn. */
unsigned cp__http_unwind(const struct cp_sched_g *g, uintptr_t *frames, unsigned max);

#endif
