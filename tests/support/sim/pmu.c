/* Which events the simulated kernel and its PMU have, and what these count. */
#include "kernel.h"

#include <errno.h>
#include <limits.h>

static long find_software(const struct perf_event_attr *attr, struct sim_event *event)
{
    switch (attr->config) {
    case PERF_COUNT_SW_CPU_CLOCK:
    case PERF_COUNT_SW_TASK_CLOCK:
        event->what = SIM_TIME;
        return 0;
    case PERF_COUNT_SW_CONTEXT_SWITCHES: /* happen in the kernel */
        event->what = attr->exclude_kernel ? SIM_NEVER : SIM_SWITCHES;
        return 0;
    case PERF_COUNT_SW_PAGE_FAULTS:
    case PERF_COUNT_SW_PAGE_FAULTS_MIN:
        event->what = SIM_FAULTS;
        return 0;
    case PERF_COUNT_SW_PAGE_FAULTS_MAJ:
    case PERF_COUNT_SW_CPU_MIGRATIONS:
    case PERF_COUNT_SW_ALIGNMENT_FAULTS:
    case PERF_COUNT_SW_EMULATION_FAULTS:
    case PERF_COUNT_SW_DUMMY:
        event->what = SIM_NEVER;
        return 0;
    default:
        return -ENOENT;
    }
}

/* Returns the kind of core that attr names; 0: none. The library may know the machine's own kinds, and names
 * one that is none here. */
static unsigned kind_of(const struct perf_event_attr *attr)
{
    bool is_general = attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE;
    uint64_t type = is_general ? attr->config >> PERF_PMU_TYPE_SHIFT : attr->type;

    if (is_general && type != 0 && type <= SIM_PMU_TYPE)
        return UINT_MAX;
    return type > SIM_PMU_TYPE ? (unsigned)type - SIM_PMU_TYPE : 0;
}

static bool is_cycles(const struct perf_event_attr *attr)
{
    return attr->type == PERF_TYPE_HARDWARE && (uint32_t)attr->config == PERF_COUNT_HW_CPU_CYCLES;
}

static long find_hardware(const struct perf_event_attr *attr, struct sim_event *event)
{
    const struct sim_pmu *pmu = &sim->pmu;
    unsigned kind = kind_of(attr);
    bool happens = !pmu->is_silent && (is_cycles(attr) || !pmu->only_cycles_happen);

    if (!pmu->is_there || kind > pmu->kinds || (kind != 0 && kind == pmu->refuses_kind))
        return -ENOENT;
    if (attr->precise_ip > pmu->most_precise || (attr->exclude_idle && !pmu->knows_idle))
        return -EOPNOTSUPP;
    event->what = happens ? SIM_TIME : SIM_NEVER;
    event->kind = kind;
    event->is_silent = pmu->silent_from != 0 && attr->precise_ip >= pmu->silent_from;
    return 0;
}

/* The simulation has no tracepoints, watchpoints and other PMUs. It says so like a kernel without them. */
long sim_find_what(const struct perf_event_attr *attr, struct sim_event *event)
{
    switch (attr->type) {
    case PERF_TYPE_SOFTWARE:
        return find_software(attr, event);
    case PERF_TYPE_HARDWARE:
    case PERF_TYPE_HW_CACHE:
    case PERF_TYPE_RAW:
        return find_hardware(attr, event);
    default:
        return attr->type > SIM_PMU_TYPE ? find_hardware(attr, event) : -ENOENT;
    }
}
