/* How many periods of its event a record stands for. All calls run on the M, or on a thread
 * with the claim CHANGING. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_PERIODS_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_PERIODS_LINUX_H

#include "runtime/m.h"

/* Notes in m's statistics what event number which of the slot has counted. */
void cp__periods_note_count_from_handler(struct cp__m *m, int slot, int which, const struct cp__count *count);
/* Returns how many periods a record with that count stands for. If the periods beyond the first one took too
 * long to be the program's, they are a stall: *stalled receives them, and the result is 1. */
uint64_t cp__periods_of_record_from_handler(struct cp__m *m, int slot, const struct cp__count *count,
                                            uint64_t *stalled);
/* Notes a THROTTLE record (begins) or an UNTHROTTLE record, made at that time in ns, of event number
 * which. */
void cp__periods_throttled_from_handler(struct cp__m *m, int slot, int which, bool begins, uint64_t time);
/* Ends a throttling that goes on: the count is the handle's last one. */
void cp__periods_end_throttling_from_handler(struct cp__m *m, int slot, const struct cp__count *count);
/* Counts periods as lost, so that the next record does not stand for these periods, too. */
void cp__periods_add_lost_from_handler(struct cp__m *m, int slot, uint64_t lost);
/* Counts as lost, when the handle is closed, the periods that no sample stands for, if their number is known.
 * ring_was_full tells that the ring lost records since it was last read. */
void cp__periods_lose_rest_from_handler(struct cp__m *m, int slot, bool ring_was_full);
/* Returns how many periods were over when the handle was closed, and have no record yet: those of one
 * overflow, which the clock's timer has not told in time. More than that are missing for another reason, and
 * the result is 0. */
uint64_t cp__periods_of_rest_from_handler(struct cp__m *m, int slot);
/* Passes over the periods that no sample stands for, so that no later record stands for them. Returns their
 * number. */
uint64_t cp__periods_skip_from_handler(struct cp__m *m, int slot);

#endif
