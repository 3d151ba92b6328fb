/* The kernel's limit on samples per second. */
#ifndef COUNTERPOINT_PPROF_RATE_LINUX_H
#define COUNTERPOINT_PPROF_RATE_LINUX_H

#include "pprof.h"

/* Returns kernel.perf_event_max_sample_rate, which the kernel lowers by itself if samples take too much
 * time; 0 if it cannot be read. */
uint64_t cp__rate_limit(void);

/* Writes a warning into text if the config asks a clock for more samples than the limit, else "". The rate
 * of other events is only known afterwards: see cp__rate_judge(). */
void cp__rate_warn(const struct cp_event_spec *event, const struct cp_cpu_profile_config *config,
                   uint64_t limit, char *text, size_t size);
/* The same for the other events, after the session. */
void cp__rate_judge(const struct cp_event_spec *event, const struct cp_cpu_profile_config *config,
                    const struct cp_slot_stats *stats, uint64_t limit, char *text, size_t size);

#endif
