/* The events that the pages offer, with what one takes them for. */
#ifndef COUNTERPOINT_HTTP_EVENTS_H
#define COUNTERPOINT_HTTP_EVENTS_H

#include <stdint.h>

#include "exchange.h"

struct cp__http_event {
    const struct cp_event_info *info;
    const char *use;     /* when to take it; "": the description says all */
    uint64_t period;     /* a sensible one */
    bool is_time;        /* the period is nanoseconds */
    const char *refusal; /* why it does not work here; NULL: it works */
};

/* Hands the events to fn, those that are to be listed; asks the kernel about each. */
void cp__http_events(void (*fn)(void *context, const struct cp__http_event *event), void *context);

#endif
