/* The events that the pages offer, with what one takes them for. */
#ifndef COUNTERPOINT_HTTP_EVENTS_H
#define COUNTERPOINT_HTTP_EVENTS_H

#include <stdint.h>

#include "exchange.h"

struct cp__http_event {
    const struct cp_event_info *info;
    const char *use;     /* when to take it; "": the description says all */
    uint64_t period;     /* a sensible one, which the kernel does not throttle */
    bool is_time;        /* the period is nanoseconds */
    uint64_t max_rate;   /* past which it throttles a clock, in samples a second; 0: it does not */
    const char *refusal; /* why it does not work here; NULL: it works */
};

/* Hands the events to fn, those that are to be listed; asks the kernel about each. */
void cp__http_events(void (*fn)(void *context, const struct cp__http_event *event), void *context);

/* The period of one of them; 0: there is no event of that name. */
uint64_t cp__http_period(const char *event);

/* ---- The kernel's limit (limit_linux.c) ------------------------------------------------------ */

/* How many samples a second of one event it takes (kernel.perf_event_max_sample_rate); 0: unknown. The kernel
 * lowers that by itself where interrupts take long, so it is read anew each time. */
uint64_t cp__http_max_rate(void);
extern const char *cp__http_max_rate_file; /* where it stands; tests have one of their own */

#endif
