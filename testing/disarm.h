/* Takes the perf events from processes that are about to be ended. */
#ifndef COUNTERPOINT_TESTING_DISARM_H
#define COUNTERPOINT_TESTING_DISARM_H

#include "processes.h"

/* Disables the perf events that the chosen processes hold, from outside. A thread whose events leave it no
 * time cannot end, not by SIGKILL either, and as soon as its process is gone nobody can disable the events:
 * so this comes before SIGKILL. Returns NULL, or a line for each process whose events could not all be taken,
 * which says why; the caller frees the text. Takes as many seconds at most, and sets *is_late if that was not
 * enough, because a thread holds a lock that the kernel needs for it. */
char *cp__disarm(const struct cp__processes *all, double seconds, bool *is_late);

#endif
