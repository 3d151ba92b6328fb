/* The events that the pages offer, with advice on what each is good for. */
#ifndef COUNTERPOINT_HTTP_EVENTS_H
#define COUNTERPOINT_HTTP_EVENTS_H

#include <stdint.h>

#include "exchange.h"

enum {
    CP__HTTP_MIN_NS = 100000, /* the shortest time between two samples, of events whose rate is known */
    CP__HTTP_MAX_COST = 10,   /* default for the most that samples may cost, in percent of a thread's time */
    CP__HTTP_CYCLES_A_NS = 6, /* cycles per ns; more than any processor runs */
};

/* An event as cp__http_events() hands it out; valid during the call. */
struct cp__http_event {
    const struct cp_event_info *info;
    const char *use;     /* what the event is good for; "": the description says everything */
    uint64_t period;     /* a sensible period that the kernel does not throttle */
    bool is_time;        /* the period is in nanoseconds */
    bool is_wait;        /* the period is of waiting, not of CPU time */
    bool is_wall;        /* of those, that which looks at green threads whatever they do */
    uint64_t max_rate;   /* samples per second above which the kernel throttles a clock; 0: no limit known */
    const char *refusal; /* why the event does not work here; NULL: the event works */
};

/* Calls fn() with each event that the pages list. Asks the kernel about each, which takes milliseconds. */
void cp__http_events(const struct cp__exchange *exchange,
                     void (*fn)(void *context, const struct cp__http_event *event), void *context);

/* Returns the sensible period of an event; 0 if there is no event of that name. */
uint64_t cp__http_period(const struct cp__exchange *exchange, const char *event);

/* Returns the event that says best where CPU time goes, as long as it takes less than a hundredth of that
 * time at switches: taskClock, or the timer. */
const char *cp__http_recommended(const struct cp__exchange *exchange);

/* Returns the smallest period that the endpoint accepts: at that period, samples are at least
 * CP__HTTP_MIN_NS apart, and cost no more of a thread's time than the options allow, together with switches
 * as often as they have been so far, or are now. An event's preset is always accepted. Returns 0, no limit,
 * if nobody can know beforehand how often the event happens. */
uint64_t cp__http_min_period(const struct cp__exchange *exchange, const struct cp_event_spec *spec);

#endif
