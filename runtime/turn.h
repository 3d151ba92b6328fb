/* The turn to measure: one thread at a time measures what events cost. */
#ifndef COUNTERPOINT_RUNTIME_TURN_H
#define COUNTERPOINT_RUNTIME_TURN_H

#include <stdint.h>

struct cp_error;

/* Something that is measured. Both are shared and atomic. */
struct cp__measured {
    uint32_t times; /* how often; stored with release, after what was measured has been noted */
    /* no measurement begins before this time of CLOCK_MONOTONIC, because no CPU was free for the last one */
    uint64_t failed_until_ns;
};

/*
 * Calls measure(), which notes what it finds, unless another thread has measured since the number of times
 * was `before`: a thread that measures is waited for, for a second at most. Returns what measure() returns, 0
 * if another thread has measured, -ENODATA if no CPU was free in the last 10 s, and -EBUSY if another thread
 * measures for longer than a second. This is no cancellation point.
 */
int cp__measure_in_turn(struct cp__measured *measured, uint32_t before, int (*measure)(struct cp_error *err),
                        struct cp_error *err);
/* In the child of a fork: nobody measures, even if a thread did in the parent. */
void cp__turn_forget(void);

#endif
