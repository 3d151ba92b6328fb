/*
 * The events that libpfm4 has for this machine's processor: each that has no unit mask, and each with every
 * one of its unit masks. Older names of the same events are left out.
 *
 * What libpfm4 is asked about it answers under its lock; its strings stay. Names are parsed without the lock,
 * since that takes it, too.
 */
#include <perfmon/pfmlib_perf_event.h>
#include <stdio.h>
#include <string.h>

#include "list.h"
#include "pfm.h"

/* A PMU of the processor's, not of its memory controllers and the like, which count for the whole machine. */
static bool get_pmu(pfm_pmu_t pmu, pfm_pmu_info_t *info)
{
    bool is_core = false;

    *info = (pfm_pmu_info_t){.size = sizeof *info};
    if (cp__pfm_lock() == PFM_SUCCESS && pfm_get_pmu_info(pmu, info) == PFM_SUCCESS)
        is_core = info->is_present && info->type == PFM_PMU_TYPE_CORE;
    cp__pfm_unlock();
    return is_core;
}

/* The number of the event after it; -1 after the last. */
static int get_event(int event, pfm_event_info_t *info)
{
    int next = -1;

    *info = (pfm_event_info_t){.size = sizeof *info};
    if (cp__pfm_lock() == PFM_SUCCESS) {
        if (pfm_get_event_info(event, PFM_OS_PERF_EVENT_EXT, info) != PFM_SUCCESS)
            info->name = NULL;
        next = pfm_get_event_next(event);
    }
    cp__pfm_unlock();
    return next;
}

static bool get_umask(int event, int i, pfm_event_attr_info_t *info)
{
    bool is_umask = false;

    *info = (pfm_event_attr_info_t){.size = sizeof *info};
    if (cp__pfm_lock() == PFM_SUCCESS &&
        pfm_get_event_attr_info(event, i, PFM_OS_PERF_EVENT_EXT, info) == PFM_SUCCESS)
        is_umask = info->type == PFM_ATTR_UMASK;
    cp__pfm_unlock();
    return is_umask;
}

/* Without the PMU where the rest is name enough; not at all where it takes more to name an event. */
static void tell(struct cp__event_list *list, const char *pmu, const char *event, const char *umask,
                 const char *description)
{
    char full[256];
    const char *bare = full + strlen(pmu) + strlen("::");
    struct cp_event_spec spec, other;
    bool is_enough;

    snprintf(full, sizeof full, "%s::%s%s%s", pmu, event, umask[0] != '\0' ? ":" : "", umask);
    if (cp_event_parse(full, &spec, NULL) < 0)
        return;
    is_enough = cp_event_parse(bare, &other, NULL) == 0 && strcmp(spec.name, other.name) == 0;
    cp__event_list_tell(list, &(struct cp_event_info){
                                  .name = is_enough ? bare : full, .group = pmu, .description = description});
}

static int list_event(struct cp__event_list *list, const char *pmu, int event)
{
    pfm_event_info_t info;
    pfm_event_attr_info_t umask;
    int next = get_event(event, &info);
    bool has_umask = false;

    if (info.name == NULL || info.equiv != NULL)
        return next;
    for (int i = 0; i < info.nattrs && list->result == 0; i++) {
        if (get_umask(event, i, &umask)) {
            tell(list, pmu, info.name, umask.name, umask.desc);
            has_umask = true;
        }
    }
    if (!has_umask)
        tell(list, pmu, info.name, "", info.desc);
    return next;
}

void cp__event_list_pfm(struct cp__event_list *list)
{
    pfm_pmu_info_t info;

    for (pfm_pmu_t pmu = PFM_PMU_NONE; pmu < PFM_PMU_MAX; pmu++) {
        if (!get_pmu(pmu, &info))
            continue;
        for (int event = info.first_event; event >= 0 && list->result == 0;)
            event = list_event(list, info.name, event);
    }
}
