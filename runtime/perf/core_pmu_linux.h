/*
 * Processors with several kinds of cores (Intel's performance and efficiency cores, Arm's big and little
 * ones) have a PMU for each kind. An event on one of these PMUs counts nothing while its thread runs on a
 * core of another kind, so such an event is opened on every one of them.
 */
#ifndef COUNTERPOINT_RUNTIME_PERF_CORE_PMU_LINUX_H
#define COUNTERPOINT_RUNTIME_PERF_CORE_PMU_LINUX_H

#include <linux/perf_event.h>
#include <stdint.h>

#include "count.h"

struct cp__core_pmus {
    int n; /* 0 if all cores are of one kind */
    uint32_t types[CP__CORE_PMUS];
};

/* cp__perf_prepare() sets it, once. */
extern struct cp__core_pmus cp__core_pmus;

/* Reads the core PMUs from a folder such as /sys/bus/event_source/devices. */
void cp__core_pmus_find(const char *devices, struct cp__core_pmus *found);

/* Opens an event. Returns 0 or a negative errno value. */
typedef int cp__core_pmu_add_fn(void *context, struct perf_event_attr *attr);
/* Opens attr by add_from_handler(), on the PMU of each kind of core that has the event. If the event does not
 * depend on the kind of core, or no PMU has the event, the function opens attr unchanged. */
int cp__core_pmus_add_from_handler(const struct perf_event_attr *attr, cp__core_pmu_add_fn *add_from_handler,
                                   void *context);

#endif
