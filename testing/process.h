/* The runner's side of a test's process: starts the process, follows it, and reports how it ended. */
#ifndef COUNTERPOINT_TESTING_PROCESS_H
#define COUNTERPOINT_TESTING_PROCESS_H

#include "child.h"

/* Runs the job in a process of its own and reports its events. The process is killed after timeout_s seconds
 * (0: no limit). If the process ends abnormally, the report says how, and shows the stacks. */
void cp__process_run(const struct cp__job *job, double timeout_s);

/* Catches SIGINT, SIGTERM and SIGHUP from now on. The first such signal kills the running test with all its
 * processes, * so that the runner can still write its reports and profiles; a second signal ends the
 * runner. */
void cp__process_catch_signals(void);
/* Returns the number of the signal that was caught, or 0. */
int cp__process_signal(void);

#endif
