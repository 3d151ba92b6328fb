/* An event's first period: see first_linux.c. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_FIRST_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_FIRST_LINUX_H

#include "runtime/m.h"
#include "runtime/slot.h"

/* ---- On the M, with the library's signals blocked or in its handler ---- */

/* Draws the first period of an event of config on m: from 1 to the period. */
uint64_t cp__first_draw_from_handler(struct cp__m *m, const struct cp__slot_config *config);
/* Returns the period that an event of this kind begins with: so much, or more if that would leave a thread
 * little time, but at most its own period. */
uint64_t cp__first_bearable_from_handler(uint64_t first, enum cp_event_kind kind, uint64_t period);
/* Returns the CPU time of m's thread so far, if the thread is attaching and the time is less than a period:
 * it belongs to the first period, which began with the thread. Else 0, also if the event
 * samples one mode only, because nobody knows how much of the time was in that mode. */
uint64_t cp__first_head_from_handler(const struct cp__m *m, int slot, uint64_t period);
/* Returns what is left of a first period that was drawn, after so much of it. If nothing is left, a sample of
 * the slot is due, and the result is what is left of the next period. Notes in m's figures where the first
 * period began. */
uint64_t cp__first_left_from_handler(struct cp__m *m, int slot, uint64_t period, uint64_t drawn,
                                     uint64_t head);
/* Before a clock begins to count: takes what its thread has run so far off its first period. */
void cp__first_begin_from_handler(struct cp__m *m, int slot);
/* Gives the event its own period, if it still has the first one. Called when its first sample is known of. */
void cp__first_over_from_handler(struct cp__m *m, int slot, int which);

/* ---- On another thread, with the claim OUTSIDE ---- */

/* Does the same if the first period of one of the slot's events is over, and m has not heard of it. */
void cp__first_look(struct cp__m *m, int slot);

#endif
