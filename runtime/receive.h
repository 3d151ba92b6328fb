/* What a signal of the library's stands for: an event, or a timer's tick. This runs on the M. */
#ifndef COUNTERPOINT_RUNTIME_RECEIVE_H
#define COUNTERPOINT_RUNTIME_RECEIVE_H

#include <signal.h>

#include "m.h"
#include "moment.h"

/* Adds the samples of a signal to moment. Returns false if the signal is not the profiler's. */
bool cp__receive_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment);
/* The same while another thread changes the M's handles: touches none of them. Records stay in the ring, for
 * that thread or for the next run, and ticks are kept for the next tick of their timer. An event's SIGPROF
 * cannot be told from that of somebody else's event now, and is taken for the library's. */
bool cp__receive_keep_from_handler(struct cp__m *m, const siginfo_t *info);
/* Returns whether the signal is of an event of this process, or of one that is gone: a trap that is pending
 * for a thread that sleeps arrives when the thread wakes, also if the event was disabled and closed
 * meanwhile. */
bool cp__receive_is_of_event_from_handler(const siginfo_t *info);
/* Takes the pending signals, except foreign ones. A signal that was raised before its source was closed must
 * not outlive the handle. */
void cp__take_pending_from_handler(struct cp__m *m, struct cp__moment *moment);

#endif
