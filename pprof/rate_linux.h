/* How many samples a second the kernel lets an event have. */
#ifndef COUNTERPOINT_PPROF_RATE_LINUX_H
#define COUNTERPOINT_PPROF_RATE_LINUX_H

#include "pprof.h"

/* kernel.perf_event_max_sample_rate, which the kernel lowers by itself where samples take too much time; 0
 * where it cannot be read. */
uint64_t cp__rate_limit(void);

/* Says in text where the config asks a clock for more than the limit; what other events come to is known
 * afterwards only. "" where it does not. */
void cp__rate_warn(const struct cp_event_spec *event, const struct cp_cpu_profile_config *config,
                   uint64_t limit, char *text, size_t size);
/* The same for the others, after the fact. */
void cp__rate_judge(const struct cp_event_spec *event, const struct cp_cpu_profile_config *config,
                    const struct cp_slot_stats *stats, uint64_t limit, char *text, size_t size);

#endif
