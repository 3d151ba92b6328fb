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

/* Runs fn(m, arg) on a thread of the library's own, whose M is m, with the library's handlers in place, and
 * waits for its end. The thread blocks all signals but the library's, because the program's are for the
 * program's threads. m has what the engines keep for an M. Returns what fn returns, or a negative errno
 * value. */
int cp__measuring_run(int (*fn)(struct cp__m *m, void *arg), void *arg, struct cp_error *err);

/* ---- On that thread -------------------------------------------------------------------------- */

/* Returns the shortest period to measure with. Its samples are far apart, so that a thread makes progress on
 * any machine that was seen; if the kernel ends no event at a limit, they are farther apart. */
uint64_t cp__measuring_interval_ns(void);
/* Lets an event of that period interrupt the thread, until it has done so `limit` times. Forks are delayed
 * from this call to the next one, because a child would not find the event's descriptor. Returns 0 or a
 * negative errno value. */
int cp__measuring_arm(struct cp__m *m, enum cp_cpu_event event, uint64_t period, uint32_t limit);
void cp__measuring_disarm(struct cp__m *m);

#endif
