/* An event's first period, and what its first signal changes: see first_linux.c. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_FIRST_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_FIRST_LINUX_H

#include "runtime/m.h"
#include "runtime/moment.h"
#include "runtime/slot.h"

/* ---- With the claim SELF or CHANGING ---- */

/* Draws the first period of an event of config on m: from 1 to the period. */
uint64_t cp__first_draw_from_handler(struct cp__m *m, const struct cp__slot_config *config);
/* Returns the period that an event of this kind begins with: so much, or more if that would leave a thread
 * little time, but at most its own period. */
uint64_t cp__first_bearable_from_handler(uint64_t first, enum cp_event_kind kind, uint64_t period);
/* Returns whether a thread surely gets on while an event begins with that period, and has no limit yet. The
 * event keeps that period, because the thread's handler keeps off. If the event is no clock's and no PMU's,
 * nobody knows. */
bool cp__first_leaves_time_from_handler(uint64_t begins_with, enum cp_event_kind kind);
/* After an event that counts at once has been enabled: if the M's handler has run since, and kept off, passes
 * over what the event has counted. */
void cp__first_kept_off_from_handler(struct cp__m *m, int slot);
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

/* Returns whether the slot's event, which has just been opened, does without a ring until its first
 * signal. */
bool cp__first_can_wait_from_handler(const struct cp__m *m, int slot);
/* Makes the slot's events members of m's ring, which is made if there is none, large if records will wait in
 * it. Returns 0, or what was wrong with the ring. */
int cp__first_join_from_handler(struct cp__m *m, int slot, bool will_wait);
/* Does the same, and ends the time without a ring, for better or worse. */
void cp__first_give_ring_from_handler(struct cp__m *m, int slot, bool will_wait);

/* ---- In the handler ---- */

/* Returns whether a signal without a record that names the slot's event is of an earlier one: another thread
 * has closed that one, and the slot's has the number of its descriptor. The count tells: no period is
 * over. */
bool cp__first_is_earlier_from_handler(struct cp__m *m, int slot);
/* A signal of the slot's event has come, and there is no ring yet: adds the sample to moment, and gives the
 * event its period and its ring. If another thread has the claim, or forks, the next signal tries again. */
void cp__first_heard_from_handler(struct cp__m *m, int slot, int which, struct cp__moment *moment);

/* ---- On another thread with the claim CHANGING, which delays forks ---- */

/* Does the same if the event has overflowed and m has not heard of it, because its thread blocks the
 * signal. */
void cp__first_unheard(struct cp__m *m, int slot);

/* ---- On another thread, with the claim OUTSIDE or CHANGING ---- */

/* Does the same if the first period of one of the slot's events is over, and m has not heard of it. */
void cp__first_look(struct cp__m *m, int slot);

#endif
