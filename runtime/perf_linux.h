/* perf_event_open(2), shared between the files that use it. */
#ifndef COUNTERPOINT_RUNTIME_PERF_LINUX_H
#define COUNTERPOINT_RUNTIME_PERF_LINUX_H

#include <linux/perf_event.h>

#include "runtime.h"

/* Whether the kernel counts the records that found a ring full (PERF_FORMAT_LOST, Linux 6.0). */
extern bool cp__perf_has_lost_count;

/* Opens an event on the calling thread; its descriptor, or a negative errno value. */
int cp__perf_open_from_handler(const struct perf_event_attr *attr);

/* What its refusals mean, in words; perf_explain_linux.c. Each fills err and returns the code it was given.
 */
int cp__perf_explain(int code, const struct cp_slot_request *request, struct cp_error *err);
int cp__perf_explain_ring(int code, const struct cp_slot_request *request, struct cp_error *err);

#endif
