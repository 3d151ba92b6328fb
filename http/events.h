/* The events that the pages offer, with what one takes them for. */
#ifndef COUNTERPOINT_HTTP_EVENTS_H
#define COUNTERPOINT_HTTP_EVENTS_H

#include <stdint.h>

#include "exchange.h"

enum {
    CP__HTTP_MIN_NS = 100000, /* between two samples of an event of which that is known */
    CP__HTTP_MAX_COST = 10,   /* percent of a thread's time, by default */
    CP__HTTP_CYCLES_A_NS = 6, /* more than any processor runs */
};

struct cp__http_event {
    const struct cp_event_info *info;
    const char *use;     /* when to take it; "": the description says all */
    uint64_t period;     /* a sensible one, which the kernel does not throttle */
    bool is_time;        /* the period is nanoseconds */
    uint64_t max_rate;   /* past which it throttles a clock, in samples a second; 0: it does not */
    const char *refusal; /* why it does not work here; NULL: it works */
};

/* Hands the events to fn, those that are to be listed; asks the kernel about each. */
void cp__http_events(const struct cp__exchange *exchange,
                     void (*fn)(void *context, const struct cp__http_event *event), void *context);

/* The period of one of them; 0: there is no event of that name. */
uint64_t cp__http_period(const struct cp__exchange *exchange, const char *event);

/* The smallest period that the endpoint takes: samples every CP__HTTP_MIN_NS at most, which take no more of a
 * thread's time than the options allow. An event's preset is always taken. 0: there is none, as how often the
 * event happens is not known beforehand. */
uint64_t cp__http_min_period(const struct cp__exchange *exchange, const struct cp_event_spec *spec);

/* ---- The kernel's limit (limit_linux.c) ------------------------------------------------------ */

/* How many samples a second of one event it takes (kernel.perf_event_max_sample_rate); 0: unknown. The kernel
 * lowers that by itself where interrupts take long, so it is read anew each time. */
uint64_t cp__http_max_rate(void);
extern const char *cp__http_max_rate_file; /* where it stands; tests have one of their own */

#endif
