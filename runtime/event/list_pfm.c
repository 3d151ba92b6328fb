/*
 * Lists the events that libpfm4 has for this machine's processor: each event without unit masks, and each
 * other event once for every one of its unit masks. Older names of the same events are left out.
 *
 * libpfm4 is called under its lock, and the strings that it returns stay valid. Names are parsed without the
 * lock, because the parser takes the same lock.
 */
#include <perfmon/pfmlib_perf_event.h>
#include <stdio.h>
#include <string.h>

#include "list.h"
#include "pfm.h"

/* Returns whether a PMU is the processor's own. The PMUs of memory controllers and the like count for the
 * whole machine. */
static bool get_pmu(pfm_pmu_t pmu, pfm_pmu_info_t *info)
{
    bool is_core = false;

    *info = (pfm_pmu_info_t){.size = sizeof *info};
    if (cp__pfm_lock() == PFM_SUCCESS && pfm_get_pmu_info(pmu, info) == PFM_SUCCESS)
        is_core = info->is_present && info->type == PFM_PMU_TYPE_CORE;
    cp__pfm_unlock();
    return is_core;
}

/* Returns the number of the next event; -1 after the last one. */
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

/* Returns whether the i-th attribute of an event is a unit mask. */
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

/* Reports an event. The name leaves the PMU out if the rest is enough to find the event. An event whose name
 * cannot be parsed is not reported. */
static void tell(struct cp__event_list *list, const char *pmu, const char *event, const char *umask,
                 const char *description)
{
    char full[256];
    const char *bare = full + strlen(pmu) + strlen("::");
    struct cp_event_spec spec = {.size = sizeof spec}, other = {.size = sizeof other};
    bool is_enough;

    snprintf(full, sizeof full, "%s::%s%s%s", pmu, event, umask[0] != '\0' ? ":" : "", umask);
    if (cp_event_parse(full, &spec, NULL) < 0)
        return;
    is_enough = cp_event_parse(bare, &other, NULL) == 0 && strcmp(spec.name, other.name) == 0;
    cp__event_list_tell(list, &(struct cp_event_info){
                                  .name = is_enough ? bare : full, .group = pmu, .description = description});
}

/* Reports an event with all of its unit masks; returns the number of the next event. */
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
