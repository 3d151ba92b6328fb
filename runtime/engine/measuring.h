/*
 * A thread of the library's own that measures what events cost on this machine.
 *
 * The thread is an M that is not in the registry. Its signals are handled as any other M's, up to the
 * sample buffer, which this M lacks. The M's claim stays taken, so the handler does not look at the slots
 * for this M.
 */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_MEASURING_H
#define COUNTERPOINT_RUNTIME_ENGINE_MEASURING_H

#include "runtime.h"

struct cp__m;

/* Runs fn(arg) on a thread of the library's own, with the library's handlers in place, and waits for its end.
 * The thread blocks all signals, because the program's signals are for the program's threads. Returns 0 or a
 * negative errno value. */
int cp__measuring_run(void *(*fn)(void *), void *arg, struct cp_error *err);

/* ---- On that thread -------------------------------------------------------------------------- */

/* Makes m, whose bytes are 0, the calling thread's M. */
void cp__measuring_begin(struct cp__m *m);
/* Gives back a signal of the program's that waits for the thread, and ends that. */
void cp__measuring_end(void);
/* Returns the shortest period to measure with. Its samples are far apart, so that a thread makes progress on
 * any machine that was seen; if the kernel ends no event at a limit, they are farther apart. */
uint64_t cp__measuring_interval_ns(void);
/* Lets an event of that period interrupt the thread, until it has done so `limit` times. m has what the
 * engine keeps for an M. The timer's period is a second. Forks are delayed from before this call until after
 * the next one, because a child would not find the event's descriptor. Returns 0 or a negative errno
 * value. */
int cp__measuring_arm(struct cp__m *m, enum cp_cpu_event event, uint64_t period, uint32_t limit);
void cp__measuring_disarm(struct cp__m *m);

#endif
