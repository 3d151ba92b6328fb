/* Handing out events one by one; list_linux.c. */
#ifndef COUNTERPOINT_RUNTIME_EVENT_LIST_H
#define COUNTERPOINT_RUNTIME_EVENT_LIST_H

#include "event.h"

/* Whom to tell, and what that returned last: other than 0 is the end. */
struct cp__event_list {
    cp_event_list_fn *fn;
    void *context;
    int result;
};

/* Does nothing past the end. */
static inline void cp__event_list_tell(struct cp__event_list *list, const struct cp_event_info *info)
{
    if (list->result == 0)
        list->result = list->fn(list->context, info);
}

/* What libpfm4 has for the processor's own PMUs, a group for each; list_pfm.c. */
void cp__event_list_pfm(struct cp__event_list *list);

#endif
