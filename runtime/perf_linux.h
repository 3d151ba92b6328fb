/* What perf_event_open's refusals mean, in words; perf_explain_linux.c. */
#ifndef COUNTERPOINT_RUNTIME_PERF_LINUX_H
#define COUNTERPOINT_RUNTIME_PERF_LINUX_H

#include "runtime.h"

/* Each fills err and returns the code it was given. */
int cp__perf_explain(int code, const struct cp_slot_request *request, struct cp_error *err);
int cp__perf_explain_ring(int code, const struct cp_slot_request *request, struct cp_error *err);

#endif
