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

/* The row of an event; NULL where there is no such event. For CP_CPUPROF_NAMED what its encoding's type
 * says: it has no name, and its type and config are the encoding's. */
const struct cp__event *cp__event(enum cp_cpu_event event, const struct cp_event_encoding *encoding);
static inline const struct cp__event *cp__config_event(enum cp_cpu_event event,
                                                       const struct cp_cpu_profile_config *config)
{
    return cp__event(event, &config->encoding);
}

/* The name of what is asked for, for messages. */
struct cp__event_text {
    char text[104];
};
struct cp__event_text cp__request_name(const struct cp_slot_request *request);

/* Whether a config can be run at all; -EINVAL and the reason where not. */
int cp__request_check(const struct cp_slot_request *request, struct cp_error *err);

#endif
