/* What happens to the profiler in the child of a fork. */
#ifndef COUNTERPOINT_RUNTIME_FORK_H
#define COUNTERPOINT_RUNTIME_FORK_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"

/* After this call a child process can be told from its parent, even if no fork handlers have run in the
 * child: neither _Fork() nor a raw system call runs them. */
void cp__fork_prepare(void);
/* Whether this process is a child whose fork handlers have not run: its Ms' events are the parent's, and the
 * Ms' rings are not mapped. Always false before Linux 4.14. */
extern const uint32_t *cp__fork_mark;
static inline bool cp__is_raw_child_from_handler(void)
{
    return cp_load_relaxed(cp__fork_mark) == 0; /* relaxed: written before the first M, or by nobody */
}

/*
 * Between these two calls a thread does what would harm a child if a fork came in the middle: it asks the
 * dynamic linker, whose lock would stay locked in the child, or opens events, whose descriptors the child
 * could not find. Forks of other
 * threads wait for cp__fork_allow(), and cp__fork_delay() waits for a fork that is under way, both for
 * CP__FORK_WAIT_MS at most: a prepare handler of the program's may wait for the very thread. May nest.
 */
#define CP__FORK_WAIT_MS 100
void cp__fork_delay(void);
void cp__fork_allow(void);
/* Whether this process was forked while another thread was between cp__fork_delay() and cp__fork_allow(). If
 * so, the dynamic linker must not be asked any more. */
bool cp__fork_came_between(void);

#endif
