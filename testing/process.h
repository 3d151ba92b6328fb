#ifndef COUNTERPOINT_TESTING_PROCESS_H
#define COUNTERPOINT_TESTING_PROCESS_H

#include "child.h"

/* Runs the job in a process of its own, at most for so many seconds (0: without limit), and reports what
 * happens in it; where it ends otherwise than by itself, that, with its stacks. */
void cp__process_run(const struct cp__job *job, double timeout_s);

/* From here on a signal that would end the runner (SIGINT, SIGTERM, SIGHUP) ends the test that runs, with all
 * it has, so that what there is can still be reported and kept; a second one ends the runner. */
void cp__process_catch_signals(void);
/* The signal that there was; 0: none. */
int cp__process_signal(void);

#endif
