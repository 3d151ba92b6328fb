/* What happens to the profiler in the child of a fork. */
#ifndef COUNTERPOINT_RUNTIME_FORK_H
#define COUNTERPOINT_RUNTIME_FORK_H

/* After this call a process can tell that it is a child, even if no fork handlers have run in the child. A
 * program that is linked statically has the fork handlers because it has this function: a constructor in the
 * same file registers the handlers. */
void cp__fork_prepare(void);

#endif
