/* How the files that list events (list_linux.c, list_pfm.c) report each of them. */
#ifndef COUNTERPOINT_RUNTIME_EVENT_LIST_H
#define COUNTERPOINT_RUNTIME_EVENT_LIST_H

#include "event.h"

/* The caller's function and its last result. A result other than 0 ends the list. */
struct cp__event_list {
    cp_event_each_fn *fn;
    void *context;
    int result;
};

/* Reports an event, unless the list has ended. */
static inline void cp__event_list_tell(struct cp__event_list *list, const struct cp_event_info *info)
{
    struct cp_event_info sized = *info;

    sized.size = sizeof sized;
    if (list->result == 0)
        list->result = list->fn(list->context, &sized);
}

/* Lists the events that libpfm4 has for the processor's own PMUs, one group for each PMU; list_pfm.c. */
void cp__event_list_pfm(struct cp__event_list *list);

#endif
