/* Events of perf_event_open(2) on an M. The calls without a comment are those of engine.h. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_EVENTS_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_EVENTS_LINUX_H

#include <signal.h>

#include "runtime/engine.h"
#include "runtime/m.h"
#include "runtime/moment.h"
#include "runtime/slot.h"

int cp__events_open_from_handler(struct cp__m *m, int slot, const struct cp__slot_config *config);
int cp__events_enable_from_handler(struct cp__m *m, int slot);
void cp__events_close_from_handler(struct cp__m *m, int slot, struct cp__moment *moment);
bool cp__events_close_from_outside(struct cp__m *m, int slot, bool has_slept, struct cp__moment *moment);
void cp__events_clear_from_handler(struct cp__m *m, int slot);
void cp__events_own_from_handler(struct cp__m *m);
bool cp__events_read(struct cp__m *m, int slot, struct cp__count *count);
uint64_t cp__events_interval(const struct cp__m *m, int slot);
void cp__events_disable(struct cp__m *m, int slot);
int cp__events_probe(struct cp_slot_request *requests, size_t n, struct cp_error *err);
void cp__events_forget(struct cp__m *m);

/* Called for every SIGPROF of the calling M, since SIGPROF does not queue. Adds to moment what the M's
 * ring holds, or, without a ring, the signal itself. Returns true if the signal is of one of the M's
 * events. */
bool cp__events_on_signal_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment);
bool cp__events_keep_from_handler(struct cp__m *m, const siginfo_t *info);
void cp__events_hear(struct cp__m *m, struct cp__moment *moment);

/* Called when the handler begins and when it ends. In between, the calling M's events in pausing do not
 * count, and the records of its other events belong to the interrupted place. */
void cp__events_pause_from_handler(struct cp__m *m);
void cp__events_resume_from_handler(struct cp__m *m);

#endif
