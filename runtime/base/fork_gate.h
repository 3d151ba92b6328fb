/* What forks of this process wait for, and how its children are told from it. fork.c forgets in a child. */
#ifndef COUNTERPOINT_RUNTIME_BASE_FORK_GATE_H
#define COUNTERPOINT_RUNTIME_BASE_FORK_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"

/* After this call a child process can be told from its parent, even if no fork handlers have run in the
 * child: neither _Fork() nor a raw system call runs them. */
void cp__fork_mark_prepare(void);
/* Whether this process is a child whose fork handlers have not run: its Ms' events are the parent's, and the
 * Ms' rings are not mapped. Always false before Linux 4.14. */
extern const uint32_t *cp__fork_mark;
static inline bool cp__is_raw_child_from_handler(void)
{
    return cp_load_relaxed(cp__fork_mark) == 0; /* relaxed: written before the first M, or by nobody */
}

/*
 * Between these two calls a thread does what would harm a child if a fork came in the middle: it opens
 * events, whose descriptors the child could not find. Forks of other threads wait for cp__fork_allow(), and
 * cp__fork_delay() waits for a fork that is under way, both for CP__FORK_WAIT_MS at most: a prepare handler
 * of the program's may wait for the very thread. May nest.
 */
#define CP__FORK_WAIT_MS 100
void cp__fork_delay(void);
void cp__fork_allow(void);
/*
 * The same for a thread that asks the dynamic linker. cp__linker_begin() returns false if the linker must not
 * be asked: this process was forked while a thread of its parent's was between these calls, whose lock of the
 * linker's stays locked here. cp__linker_end() follows in either case.
 */
bool cp__linker_begin(void);
void cp__linker_end(void);

/*
 * For the fork handlers. cp__fork_begins() blocks SIGPROF, and waits for the threads that delay a fork.
 * cp__fork_ended() follows in the parent, and at the end of all that is to be done in the child, which begins
 * with cp__fork_made_child().
 */
void cp__fork_begins(void);
void cp__fork_ended(void);
void cp__fork_made_child(void);

#endif
