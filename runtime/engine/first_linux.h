/* An event's first period: see first_linux.c. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_FIRST_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_FIRST_LINUX_H

#include "runtime/m.h"
#include "runtime/slot.h"

/* ---- On the M, with the library's signals blocked or in its handler ---- */

/* Draws the first period of an event of config on m: from 1 to the period. */
uint64_t cp__first_draw_from_handler(struct cp__m *m, const struct cp__slot_config *config);
/* Returns the period that the event is opened with: what was drawn, or more if that would leave a thread
 * little time. */
uint64_t cp__first_bearable_from_handler(uint64_t drawn, const struct cp__slot_config *config);
/* Gives the event its own period, if it still has the first one. Called when its first sample is known of. */
void cp__first_over_from_handler(struct cp__m *m, int slot, int which);

/* ---- On another thread, with the claim OUTSIDE ---- */

/* Does the same if the first period of one of the slot's events is over, and m has not heard of it. */
void cp__first_look(struct cp__m *m, int slot);

#endif
