#ifndef COUNTERPOINT_TESTING_PROCESS_H
#define COUNTERPOINT_TESTING_PROCESS_H

#include "child.h"

/* Runs the job in a process of its own, at most for so many seconds (0: without limit), and reports what
 * happens in it; where it ends otherwise than by itself, that, with its stacks. */
void cp__process_run(const struct cp__job *job, double timeout_s);

#endif
