/* perf_event_open(2), for all files that use it. */
#ifndef COUNTERPOINT_RUNTIME_PERF_PERF_LINUX_H
#define COUNTERPOINT_RUNTIME_PERF_PERF_LINUX_H

#include <linux/perf_event.h>
#include <sys/types.h>

#include "count.h"
#include "event.h"

/* Finds out what the kernel and the processor support, once in a process. Callers call this function before
 * all others of this room, except the explanations. */
void cp__perf_prepare(void);

/* Faults of the kernel that this library has to know. */
enum cp__perf_fault {
    CP__FAULT_TRAPS,  /* events that raise traps cannot be had, or cannot be closed */
    CP__FAULT_LIMITS, /* an event must not reach its limit */
};
/* Returns what is wrong, as a phrase that is never freed; NULL: nothing that is known. */
const char *cp__perf_find_fault(enum cp__perf_fault fault);

extern size_t cp__perf_page_size; /* a ring consists of pages */
/* Whether the kernel can disable an event by itself after a number of samples. */
extern bool cp__perf_has_limits;
/* Lets a sampling event count. The kernel disables the event after so many samples, together with those that
 * remain of an earlier call. Nothing else enables a sampling event: PERF_EVENT_IOC_ENABLE takes a limit away
 * that has been reached. Without cp__perf_has_limits, the event counts until it is disabled. Returns 0 or a
 * negative errno value. */
int cp__perf_let_count_from_handler(int fd, uint64_t samples);

/* Returns whether the descriptor is still the event with that id. A program may close all descriptors that it
 * does not know, as a daemon does, and open files of its own under these numbers. */
bool cp__perf_is_event_from_handler(int fd, uint64_t id);
/* Closes the descriptor if it is still that event. */
void cp__perf_close_from_handler(int fd, uint64_t id);
/* Returns the id of an event that has just been opened; 0: it is no event any more. */
uint64_t cp__perf_id_from_handler(int fd);

/* Returns what an event that counts nothing is asked for with. */
struct perf_event_attr cp__perf_dummy_attr_from_handler(void);
/* Tries whether an event opens on the calling thread. Returns 0 or a negative errno value. */
int cp__perf_try_open(const struct perf_event_attr *attr);
/* Opens an event on a thread of this process (0: the calling thread). Returns its descriptor or a negative
 * errno value. */
int cp__perf_open_from_handler(const struct perf_event_attr *attr, pid_t tid);

/* The first function returns what an event counts and in which modes; the second one adds how the event is
 * sampled. The third one opens the result, without what the processor's PMU refuses and the profiler can do
 * without. */
struct perf_event_attr cp__perf_attr_from_handler(const struct cp_cpu_profile_config *config);
struct perf_event_attr cp__perf_sample_attr_from_handler(const struct cp_cpu_profile_config *config);
int cp__perf_open_event_from_handler(struct perf_event_attr *attr, pid_t tid);
/* Returns whether a descriptor is one of the last eighth of those that the process may have, when the soft
 * limit has been raised to the hard one: if all threads are armed, the program needs some for itself. */
bool cp__perf_is_left_from_handler(int fd);

/* Returns the highest level of precise_ip, up to the config's, at which the calling thread receives samples
 * of the event. */
enum cp_profile_pc_precision cp__perf_reach_precision(const struct cp_slot_request *request);

/* Finds out whether an event that opens also counts. Returns 0 if the event counts, or if that cannot be
 * found out; else -ENODATA. */
int cp__perf_try_count(const struct cp_slot_request *request);

/* Explain a refusal in words: see explain_linux.c. Each function fills err and returns the code that it was
 * given. */
int cp__perf_explain(int code, const struct cp_slot_request *request, struct cp_error *err);
int cp__perf_explain_count(int code, const struct cp_slot_request *request, struct cp_error *err);
int cp__perf_explain_ring(int code, const struct cp_slot_request *request, struct cp_error *err);

#endif
