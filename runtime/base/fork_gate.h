/* What the forks of this process wait for, and how a child process differs from its parent. fork.c resets the
 * state of a child. */
#ifndef COUNTERPOINT_RUNTIME_BASE_FORK_GATE_H
#define COUNTERPOINT_RUNTIME_BASE_FORK_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"

/* After this call, a child process can be told from its parent even if no fork handlers have run in the
 * child: neither _Fork() nor a raw system call runs fork handlers. */
void cp__fork_mark_prepare(void);
/* Returns whether this process is a child whose fork handlers have not run. In such a child, the Ms' events
 * belong to the parent, and the Ms' rings are not mapped. Before Linux 4.14 the function always returns
 * false. */
extern const uint32_t *cp__fork_mark;
static inline bool cp__is_raw_child_from_handler(void)
{
    return cp_load_relaxed(cp__fork_mark) == 0; /* relaxed: written before the first M, or by nobody */
}

/* Returns true once in each such child, to the first caller. */
bool cp__fork_mark_take(void);

/*
 * A thread calls cp__fork_delay() before, and cp__fork_allow() after, an action that would harm a child if a
 * fork came in the middle. Opening events is such an action: the child could not find their descriptors.
 * Forks of other threads wait for cp__fork_allow(), for at most CP__FORK_WAIT_MS, and cp__fork_delay() waits
 * for the end of a fork that has begun, for at most CP__FORK_LONGEST_MS. Both waits end because a prepare
 * handler of the program may wait for this very thread. The second one is longer because a fork of a large
 * process, or on a busy machine, takes hundreds of milliseconds; a thread that waited so long for a fork does
 * not wait for it again. The calls nest.
 */
#define CP__FORK_WAIT_MS 100
#define CP__FORK_LONGEST_MS 500
void cp__fork_delay(void);
void cp__fork_allow(void);
/* The same for a signal handler, which cannot wait: if a fork has begun that does not wait for this thread,
 * the function returns false, and the handler leaves the action for later. */
bool cp__fork_delay_from_handler(void);
void cp__fork_allow_from_handler(void);
/*
 * The same for a thread that calls the dynamic linker. cp__linker_begin() returns false if the linker must
 * not be called: this process was forked while a thread of the parent was between these two calls, and that
 * thread's lock of the linker stays locked in this process. The caller calls cp__linker_end() in either case.
 */
bool cp__linker_begin(void);
void cp__linker_end(void);

/* For the fork handlers. cp__fork_begins() blocks SIGPROF and waits for the threads that delay a fork. The
 * parent then calls cp__fork_ended(). The child calls cp__fork_made_child() first, and cp__fork_ended() after
 * the rest of its work. */
void cp__fork_begins(void);
void cp__fork_ended(void);
void cp__fork_made_child(void);

#endif
