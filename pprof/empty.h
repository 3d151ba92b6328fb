/* Why a profile has no samples, and what would bring some. */
#ifndef COUNTERPOINT_PPROF_EMPTY_H
#define COUNTERPOINT_PPROF_EMPTY_H

#include "pprof.h"

/* What came of an event, on all threads that were sampled. */
struct cp__yield {
    const char *event;
    enum cp_event_kind kind;
    uint64_t period;
    uint64_t samples;
    uint64_t lost;  /* periods that are known to be missing */
    uint64_t count; /* events in the modes that are sampled; ns for the timer and clocks; cp__yield_count() */
    uint64_t threads;
    uint64_t refused;  /* threads for which the system refused the event */
    int refused_errno; /* a negative errno value; 0: unknown */
};

/* Returns what remains of a count without the part in modes that are not sampled. That part is known to a
 * period, so it may be larger than the count. */
static inline uint64_t cp__yield_count(uint64_t count, uint64_t excluded)
{
    return count > excluded ? count - excluded : 0;
}

/* The sizes of the texts below. */
enum { CP__EMPTY_VALUE = 24, CP__EMPTY_TEXT = 320 };

/* If there are no samples because the period is longer than what the threads had of the event, writes the
 * value and the phrase of the comment "empty", and returns true. The value is the longest period that would
 * have brought a hundred samples or so, or "longer" if no sensible period is that short. */
bool cp__empty_by_period(const struct cp__yield *yield, char value[CP__EMPTY_VALUE],
                         char phrase[CP__EMPTY_TEXT]);
/* Writes a sentence that says why there are no samples, whatever the reason is; "" if there are samples. */
void cp__empty_warn(const struct cp__yield *yield, char text[CP__EMPTY_TEXT]);

#endif
