/* perf_event_open(2), shared between the files that use it. */
#ifndef COUNTERPOINT_RUNTIME_PERF_PERF_LINUX_H
#define COUNTERPOINT_RUNTIME_PERF_PERF_LINUX_H

#include <linux/perf_event.h>

#include "event.h"

/* Finds out what the kernel and the processor have, once in a process. The rest of this room, but for the
 * explanations, is used after this call only. */
void cp__perf_prepare(void);

/* What read(2) of an event returns, and its records carry. */
struct cp__count {
    uint64_t value;
    uint64_t time_enabled;
    uint64_t time_running;
    uint64_t lost; /* records of this event that found the ring full; where the kernel tells */
};

/* Whether the kernel counts the records that found a ring full (PERF_FORMAT_LOST, Linux 6.0). */
extern bool cp__perf_has_lost_count;

/* Opens an event on the calling thread; its descriptor, or a negative errno value. */
int cp__perf_open_from_handler(const struct perf_event_attr *attr);

/* What counts, and in which modes; the same, and how it is sampled; and opening that, with as little as the
 * processor's PMU takes. cp__request_encode() has set the config's encoding. */
struct perf_event_attr cp__perf_attr_from_handler(const struct cp_cpu_profile_config *config);
struct perf_event_attr cp__perf_sample_attr_from_handler(const struct cp_cpu_profile_config *config);
int cp__perf_open_event_from_handler(struct perf_event_attr *attr);

/* The rest takes requests whose encoding cp__request_encode() has set. */

/* The highest level of precise_ip, up to the config's, by which the calling thread gets samples of the event.
 */
enum cp_profile_pc_precision cp__perf_reach_precision(const struct cp_slot_request *request);

/* Whether an event that opens counts, too: 0, also if that cannot be told, or -ENODATA. */
int cp__perf_try_count(const struct cp_slot_request *request);

/* What its refusals mean, in words: see explain_linux.c. Each fills err and returns the code it was given. */
int cp__perf_explain(int code, const struct cp_slot_request *request, struct cp_error *err);
int cp__perf_explain_count(int code, const struct cp_slot_request *request, struct cp_error *err);
int cp__perf_explain_ring(int code, const struct cp_slot_request *request, struct cp_error *err);

#endif
