/* The beginnings and ends of rounds, and what is counted for the Gs that have some. */
#ifndef COUNTERPOINT_RUNTIME_WATCH_ROUND_H
#define COUNTERPOINT_RUNTIME_WATCH_ROUND_H

#include "recorder.h"

/* Makes what rounds stand on, once in a process. Before the first watch is known. */
void cp__rounds_prepare(void);

/* Stop counting for a G that leaves the calling thread, and start counting for one that is about to run
 * there. own is NULL if there was no memory for what the M counts: then the G's rounds are partial. */
void cp__counting_stop(struct cp__watch_m *own, struct cp__watch_g *counts);
void cp__counting_start(struct cp__watch_m *own, struct cp__watch_g *counts);

/* In a child whose fork handlers have not run, because it was made by a raw clone(2): does their work once.
 */
void cp__rounds_after_raw_fork(void);

#endif
