/* The stacks of Gs that do not run on a thread. */
#ifndef COUNTERPOINT_HTTP_GOROUTINE_H
#define COUNTERPOINT_HTTP_GOROUTINE_H

#include "pprof.h"

/* A cp_unwind_fn that uses the unwind tables, and so passes through all code that has such tables. */
unsigned cp__http_unwind(const struct cp_g_info *g, uintptr_t *frames, unsigned max);

#endif
