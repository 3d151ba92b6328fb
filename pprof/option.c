#include "pprof.h"

/* Members take the place of reserved words: three followed the engine. */
_Static_assert(sizeof(struct cp_profiling_option) == offsetof(struct cp_profiling_option, flags) + 24 &&
                   offsetof(struct cp_profiling_option, flags) ==
                       offsetof(struct cp_profiling_option, engine) + 8,
               "programs and this library agree on the size");

struct cp_profiling_option cp_os_timer(struct cp_writer w)
{
    return cp_option_event(w, "timer", 0);
}

struct cp_profiling_option cp_cpu_cycles(struct cp_writer w, uint64_t period)
{
    return cp_option_event(w, "cycles", period);
}

struct cp_profiling_option cp_cpu_instructions(struct cp_writer w, uint64_t period)
{
    return cp_option_event(w, "instructions", period);
}

struct cp_profiling_option cp_cpu_cache_references(struct cp_writer w, uint64_t period)
{
    return cp_option_event(w, "cacheReferences", period);
}

struct cp_profiling_option cp_cpu_cache_misses(struct cp_writer w, uint64_t period)
{
    return cp_option_event(w, "cacheMisses", period);
}

struct cp_profiling_option cp_cpu_branch_instructions(struct cp_writer w, uint64_t period)
{
    return cp_option_event(w, "branches", period);
}

struct cp_profiling_option cp_cpu_branch_misses(struct cp_writer w, uint64_t period)
{
    return cp_option_event(w, "branchMisses", period);
}

struct cp_profiling_option cp_cpu_raw_event(struct cp_writer w, uint64_t period, uint64_t hex)
{
    return (struct cp_profiling_option){.writer = w, .raw_event = hex, .period = period};
}

struct cp_profiling_option cp_option_event(struct cp_writer w, const char *name, uint64_t period)
{
    return (struct cp_profiling_option){.writer = w, .name = name == NULL ? "" : name, .period = period};
}

struct cp_profiling_option cp_option_config(struct cp_writer w, const char *name,
                                            const struct cp_cpu_profile_config *config)
{
    struct cp_profiling_option configured = cp_option_event(w, name, 0);

    configured.config = config;
    return configured;
}
