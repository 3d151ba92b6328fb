/* The limits of sampling events: see limits_linux.c. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_LIMITS_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_LIMITS_LINUX_H

#include "perf_m_linux.h"
#include "runtime/engine.h"

/* ---- On the M, with the library's signals blocked or in its handler ---- */

/* Lets the slot's events count, each up to the handle's limit. Returns 0 or a negative errno value. */
int cp__limits_begin_from_handler(struct cp__m *m, int slot);
/* Counts n more overflows of one event of the handle. */
static inline void cp__limits_take_from_handler(struct cp__perf_handle *handle, int which, uint64_t n)
{
    cp_add_single_writer(&handle->events[which].taken, n);
}
/* Renews the limits of which half is used. The ring has just been read: records that wait in it would hide
 * that an event has reached its limit. */
void cp__limits_renew_from_handler(struct cp__m *m);
/* Returns whether the slot's first event, which has no ring, has overflowed as often as its limit allows. */
bool cp__limits_are_used_up_from_handler(const struct cp__m *m, int slot);
/* Lets one event of the slot, which has no ring and has reached its limit, count again if its thread made
 * progress. */
void cp__limits_ended_from_handler(struct cp__m *m, int slot, int which);
/* Tells that the slot's event, which is about to be closed, has reached its limit, if it has. If another
 * thread closes the event (is_outside), the M may sleep. */
void cp__limits_tell_end_from_handler(struct cp__m *m, int slot, bool is_outside);
/* Lets the handle's events, which the handler has disabled for its own time, count again, unless they have
 * reached their limit. */
void cp__limits_resume_from_handler(struct cp__m *m, int slot);

/* ---- From any thread: see has_ended and restart of struct cp__engine ---- */

bool cp__limits_have_ended(struct cp__m *m, int slot, struct cp__ending *ending);
void cp__limits_restart(struct cp__m *m, int slot);

#endif
