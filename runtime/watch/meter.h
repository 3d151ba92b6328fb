/*
 * Meters: what is counted for rounds. Each distinct event that a watch asks for is a meter of the process,
 * which each M opens for itself when the M first needs it.
 *
 * A G that has open rounds with meters has counts: struct cp__watch_g. While the G runs, each of its meters
 * has a base on its M: the M's reading when the G began to run there. When the G leaves the M, the difference
 * goes into the G's totals. So the G's count at any moment is total + reading - base.
 */
#ifndef COUNTERPOINT_RUNTIME_WATCH_METER_H
#define COUNTERPOINT_RUNTIME_WATCH_METER_H

#include "runtime/m.h"
#include "runtime/rounds.h"

#define CP__METERS 16

enum cp__meter_kind {
    CP__METER_CPU_TIME,
    CP__METER_CORE_CYCLES,
    CP__METER_EVENT,
};

/* What is counted. Immutable while a watch refers to it. */
struct cp__meter {
    unsigned refs; /* watches; under the meters' lock. 0: free */
    uint64_t seq;  /* unique in the process, so that an M notices that the place has another meter now */
    enum cp__meter_kind kind;
    struct cp_slot_request request; /* CP__METER_EVENT only */
    char name[160];                 /* the same as in struct cp_event_spec */
};
extern struct cp__meter cp__meters[CP__METERS];

/* Finds the meter of a name, "cpuTime", "coreCycles" or an event's, or makes it, and adds a reference.
 * Returns its number, or a negative errno value: what cp_watch_open() says, and -ENOSPC if there are
 * CP__METERS. */
int cp__meter_take(const char *name, struct cp_error *err);
void cp__meter_release(unsigned meter);

/* In the child of a fork. */
void cp__meters_forget(void);

/* What a meter has counted on an M. `missed` only grows, and grew if something happened that is not in the
 * value: the event had no counter for a while, or was closed. */
struct cp__reading {
    uint64_t value;
    uint64_t missed;
};

/* A meter on an M; all of it is the M's. */
struct cp__meter_on_m {
    uint64_t seq; /* the meter that is open; 0: none */
    unsigned n;
    struct {
        int fd;
        uint64_t id;
        void *page; /* struct perf_event_mmap_page; NULL: the system maps none */
    } events[CP__CORE_PMUS];
    uint64_t missed;    /* ns for which the events had no counter */
    uint64_t failures;  /* readings that failed, and whatever else is missed for good */
    uint64_t page_lock; /* coreCycles: the page's lock at the last reading */
    struct cp__reading base;
};

/* Opens a meter on the calling thread, unless it is open. Returns 0 or a negative errno value. */
int cp__meter_open(struct cp__meter_on_m *on_m, const struct cp__meter *meter);
void cp__meter_close(struct cp__meter_on_m *on_m);
/* In the child of a fork: the events are the parent's. The descriptors may be, too, if clone(2) has made the
 * child. */
void cp__meter_forget(struct cp__meter_on_m *on_m, bool has_descriptors);
/* Reads a meter of the calling thread. If that fails, the value is the base's, and something was missed. */
struct cp__reading cp__meter_read(struct cp__meter_on_m *on_m, const struct cp__meter *meter);
/* Finds out whether the meter can be opened here, and explains if not. */
int cp__meter_try(const struct cp__meter *meter, struct cp_error *err);

#endif
