/* What happens to the profiler in the child of a fork. */
#ifndef COUNTERPOINT_RUNTIME_FORK_H
#define COUNTERPOINT_RUNTIME_FORK_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"

/* From here on children are told from their parent, also those that _Fork() or a system call has made and
 * whose fork handlers have not run. */
void cp__fork_prepare(void);
/* Whether this is such a child: what its Ms hold is the parent's, and their rings are not mapped. Always
 * false before Linux 4.14. */
extern const uint32_t *cp__fork_mark;
static inline bool cp__is_raw_child_from_handler(void)
{
    return cp_load_relaxed(cp__fork_mark) == 0; /* relaxed: written before the first M, or by nobody */
}

/*
 * Between the two a thread does what a child had better not find half done: asks the dynamic linker, whose
 * lock stays locked in the child, or opens events, whose descriptors the child could not find. Forks of other
 * threads wait for cp__fork_allow(), and cp__fork_delay() waits for a fork that is under way, both for
 * CP__FORK_WAIT_MS at most: a prepare handler of the program's may wait for the very thread. May nest.
 */
#define CP__FORK_WAIT_MS 100
void cp__fork_delay(void);
void cp__fork_allow(void);
/* Whether this process was forked although another thread was between the two: the dynamic linker must not
 * be asked any more. */
bool cp__fork_came_between(void);

#endif
