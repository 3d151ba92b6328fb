/* What an event has counted, for whoever keeps counts and opens no event. */
#ifndef COUNTERPOINT_RUNTIME_PERF_COUNT_H
#define COUNTERPOINT_RUNTIME_PERF_COUNT_H

#include <stdbool.h>
#include <stdint.h>

/* What read(2) of an event returns, and what the event's records carry. */
struct cp__count {
    uint64_t value;
    uint64_t time_enabled;
    uint64_t time_running;
    uint64_t lost; /* records of this event that found the ring full; only if cp__perf_has_lost_count */
};

/* Whether the kernel counts the records that found the ring full (PERF_FORMAT_LOST, Linux 6.0). */
extern bool cp__perf_has_lost_count;

#define CP__CORE_PMUS 4 /* kinds of cores, at most: an event may be opened on each */

#endif
