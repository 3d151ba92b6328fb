#include "pprof.h"

static struct cp_profiling_option option(struct cp_writer w, enum cp_cpu_event event, uint64_t period)
{
    return (struct cp_profiling_option){.writer = w, .event = event, .period = period};
}

struct cp_profiling_option cp_os_timer(struct cp_writer w)
{
    return option(w, CP_CPUPROF_OS_TIMER, 0);
}

struct cp_profiling_option cp_cpu_cycles(struct cp_writer w, uint64_t period)
{
    return option(w, CP_CPUPROF_HW_CPU_CYCLES, period);
}

struct cp_profiling_option cp_cpu_instructions(struct cp_writer w, uint64_t period)
{
    return option(w, CP_CPUPROF_HW_INSTRUCTIONS, period);
}

struct cp_profiling_option cp_cpu_cache_references(struct cp_writer w, uint64_t period)
{
    return option(w, CP_CPUPROF_HW_CACHE_REFERENCES, period);
}

struct cp_profiling_option cp_cpu_cache_misses(struct cp_writer w, uint64_t period)
{
    return option(w, CP_CPUPROF_HW_CACHE_MISSES, period);
}

struct cp_profiling_option cp_cpu_branch_instructions(struct cp_writer w, uint64_t period)
{
    return option(w, CP_CPUPROF_HW_BRANCH_INSTRUCTIONS, period);
}

struct cp_profiling_option cp_cpu_branch_misses(struct cp_writer w, uint64_t period)
{
    return option(w, CP_CPUPROF_HW_BRANCH_MISSES, period);
}

struct cp_profiling_option cp_cpu_raw_event(struct cp_writer w, uint64_t period, uint64_t hex)
{
    struct cp_profiling_option raw = option(w, CP_CPUPROF_HW_RAW, period);

    raw.raw_event = hex;
    return raw;
}

struct cp_profiling_option cp_event(struct cp_writer w, const char *name, uint64_t period)
{
    struct cp_profiling_option named = option(w, CP_CPUPROF_OS_TIMER, period);

    named.name = name == NULL ? "" : name;
    return named;
}

struct cp_profiling_option cp_event_with_config(struct cp_writer w, const char *name,
                                                const struct cp_cpu_profile_config *config)
{
    struct cp_profiling_option configured = cp_event(w, name, 0);

    configured.config = config;
    return configured;
}
