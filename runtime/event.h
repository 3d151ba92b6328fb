/* The event table, for the runtime's own files. */
#ifndef COUNTERPOINT_RUNTIME_EVENT_H
#define COUNTERPOINT_RUNTIME_EVENT_H

#include "runtime.h"

/* Whether an event is of use when only user mode counts. */
enum cp__kernel_mode {
    CP__KERNEL_NEVER,     /* counts user mode unless the config says otherwise */
    CP__KERNEL_PREFERRED, /* counts kernel mode too where the system lets it */
    CP__KERNEL_REQUIRED,  /* happens in kernel mode only */
};

struct cp__event {
    const char *name;
    const char *alias; /* perf's name */
    enum cp_event_kind kind;
    uint32_t perf_type; /* PERF_TYPE_... */
    uint64_t perf_config;
    uint64_t preset_period;
    uint64_t min_period;
    enum cp__kernel_mode kernel_mode;
};

/* The row of an event; NULL where there is no such event. */
const struct cp__event *cp__event(enum cp_cpu_event event);

/* Whether a config can be run at all; -EINVAL and the reason where not. */
int cp__config_check(enum cp_cpu_event event, const struct cp_cpu_profile_config *config,
                     struct cp_error *err);

#endif
