/* What Linux tells of another thread of this process. */
#ifndef COUNTERPOINT_RUNTIME_STALL_THREAD_LINUX_H
#define COUNTERPOINT_RUNTIME_STALL_THREAD_LINUX_H

#include "runtime/m.h"

/* Reads the clocks of m's thread. What the system does not tell is 0. */
void cp__stint_clocks_read(const struct cp__m *m, struct cp__stint_clocks *clocks);
/* Returns the system call that the thread sleeps in, and where in the program it was made; -1 if the thread
 * runs or the system does not tell. */
long cp__thread_call(pid_t tid, uintptr_t *pc);

#endif
