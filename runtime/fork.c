/*
 * A child of fork() starts unprofiled: its perf descriptors lead to the parent's events, its ring is not
 * mapped, its timers and all threads but one are gone. The child lets go of all that, touches nothing that it
 * shares with its parent, and can start afresh.
 *
 * No lock is held over the fork. Prepare handlers run in the reverse order of their registration, so foreign
 * ones may run after ours: one that waits for a thread which waits for a lock of ours would wait for ever. So
 * other threads may be in the midst of anything at the moment of the fork, and the child needs nothing of
 * what they may leave half done:
 *
 *   locks       are made anew (cp__lock_reset()).
 *   slots       are emptied; what was running or half published is the parent's.
 *   registry    Each change of the list is one store: an M is pushed when it is complete, and unlinked before
 *               anything of it is freed. So the child finds every M that it can reach whole. It keeps its own
 *               thread's, and frees the others when it first uses the profiler: the handler frees nothing,
 *               because the program's allocator may have a lock that another thread held. What was unlinked
 *               or not pushed yet is lost to the child: as much as one M for each thread that was just coming
 *               or going.
 *   references  are taken before, and given back after, what they are for is visible: a sample's label set is
 *               released when the buffer's tail has passed the sample. A fork in between leaks a reference
 *               in the child, and never lets one be given back twice.
 *   readers     An M that somebody holds (cp__m_next()) stays: the thread that forks may be the one, in a
 *               callback.
 *   descriptors A number that another thread was just closing may be a file of the program's by now: the
 *               child closes only what the kernel says is that very event (cp__events_forget()).
 *   SIGPROF     is given back if ours is the handler in place. Whether a flag says so does not matter.
 *   libpfm4     is refused, in words, if another thread was just initialising it.
 *
 * Two things cannot be mended in the child: the dynamic linker's lock, and a descriptor that another thread
 * has been given and has not noted yet. So a fork waits for threads in these, but not for ever:
 * cp__linker_begin() and cp__fork_delay(). A handler does not wait for a fork, but opens its M's events after
 * the fork: cp__fork_delay_from_handler().
 *
 * This relies on the order in which the child sees another thread's stores. It is the order of any reader:
 * the kernel makes a page read-only before it shares the page with the child, and a thread that writes to
 * such a page waits in its page fault until the fork has ended; what it would have written after that it
 * writes after the fork. So the stores named above are releases, and the child's loads are acquires.
 *
 * The handlers are registered by a constructor: once, whatever threads do, and mostly before those of the
 * program. Child handlers run in the order of their registration, so the program's find the profiler usable.
 */
#include "fork.h"

#include <pthread.h>

#include "cost.h"
#include "disposition.h"
#include "label.h"
#include "m.h"
#include "proposal.h"
#include "queue.h"
#include "runtime/base/fork_gate.h"
#include "runtime/event/rows.h"
#include "runtime/unwind/code.h"
#include "slot.h"

/* SIGPROF stays blocked until cp__fork_ended(): the child cannot be interrupted before it has forgotten. */
static void after_in_child(void)
{
    cp__fork_made_child();
    cp__lock_reset(&cp__runtime_lock);
    cp__labels_forget();
    cp__pfm_forget();
    cp__proposal_forget();
    cp__slots_forget();
    cp__queues_forget();
    cp__disposition_forget();
    cp__cost_forget();
    cp__ms_forget();
    cp__code_after_fork();
    cp__fork_ended();
}

__attribute__((constructor)) static void register_handlers(void)
{
    pthread_atfork(cp__fork_begins, cp__fork_ended, after_in_child);
}

void cp__fork_prepare(void)
{
    cp__fork_mark_prepare();
}
