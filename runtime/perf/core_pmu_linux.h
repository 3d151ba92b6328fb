/*
 * Processors whose cores are of several kinds (Intel's performance and efficiency cores, Arm's big and little
 * ones) have a PMU for each kind. An event that is opened on one counts nothing while its thread is on a core
 * of another kind, so such events are opened on each.
 */
#ifndef COUNTERPOINT_RUNTIME_PERF_CORE_PMU_LINUX_H
#define COUNTERPOINT_RUNTIME_PERF_CORE_PMU_LINUX_H

#include <linux/perf_event.h>
#include <stdint.h>

#define CP__CORE_PMUS 4 /* kinds of cores, at most */

struct cp__core_pmus {
    int n; /* 0 where all cores are of one kind */
    uint32_t types[CP__CORE_PMUS];
};

/* Set by cp__perf_prepare(). */
extern struct cp__core_pmus cp__core_pmus;

/* What a folder as /sys/bus/event_source/devices says. */
void cp__core_pmus_find(const char *devices, struct cp__core_pmus *found);

/* Opens an event; 0 or a negative errno value. */
typedef int cp__core_pmu_add_fn(void *context, struct perf_event_attr *attr);
/* Opens by add_from_handler() what attr asks for: on the PMU of each kind of core that has it, or as it is
 * where that is no matter of kinds, or none has it. */
int cp__core_pmus_add_from_handler(const struct perf_event_attr *attr, cp__core_pmu_add_fn *add_from_handler,
                                   void *context);

#endif
