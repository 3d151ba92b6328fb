/* What happens to the profiler in the child of a fork. */
#ifndef COUNTERPOINT_RUNTIME_FORK_H
#define COUNTERPOINT_RUNTIME_FORK_H

/* Registers the handlers; once. */
void cp__fork_prepare(void);

#endif
