/* The thread that looks at all Ms. */
#ifndef COUNTERPOINT_RUNTIME_STALL_WATCHER_H
#define COUNTERPOINT_RUNTIME_STALL_WATCHER_H

#include "stall.h"

struct cp__watcher {
    struct cp_stall_options options; /* immutable while the thread runs */
    uint32_t is_stopping;            /* shared, atomic, and what the thread sleeps on */
    /* Of the thread alone. */
    uint64_t look; /* how often the thread has looked at all Ms */
    struct {
        uint64_t begun_ns; /* CLOCK_MONOTONIC */
        unsigned reports;
    } minute;
};

/* Looks until is_stopping. */
void cp__watcher_run(struct cp__watcher *watcher);
/* Reports the first stall of a place, unless there were too many in this minute. */
void cp__watcher_report(struct cp__watcher *watcher, const struct cp_stall *stall);

#endif
