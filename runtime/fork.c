/*
 * A child of fork() starts without a profile. Its perf descriptors lead to the parent's events, its ring is
 * not mapped, and its timers and all threads but one are gone. The child releases all that, changes nothing
 * that it shares with its parent, and can start profiles of its own.
 *
 * No lock is held during the fork. Prepare handlers run in the reverse order of their registration, so
 * handlers of others may run after the library's: if such a handler waited for a thread that waits for a lock
 * of the library's, the fork would never end. So at the fork, other threads may be in the middle of anything,
 * and the child relies on nothing that they may leave half done:
 *
 *   locks       The child makes them anew (cp__lock_reset()).
 *   slots       The child empties them, because what ran or was half published is the parent's.
 *   registry    Each change of the list is one store: an M is pushed when it is complete, and unlinked before
 *               anything of it is freed. So every M that the child can reach is complete. The child keeps the
 *               M of its own thread, and frees the others when it first uses the profiler. The fork handler
 *               frees nothing, because the program's allocator may have a lock that another thread held. An M
 *               that was unlinked, or not pushed yet, is lost to the child: at most one M for each thread
 *               that was just attaching or detaching.
 *   references  A reference is taken before what it is for can be seen, and released when that can no longer
 *               be seen: a sample's label set is released when the buffer's tail has passed the sample. A
 *               fork in between leaks a reference in the child, but the child never releases one twice.
 *   readers     An M with a reader's reference (cp__m_next()) stays, because the thread that forks may be
 *               that reader, in a callback.
 *   descriptors If another thread was just closing a descriptor, its number may be a file of the program's by
 *               now. So the child closes a descriptor only if the kernel says that it is that very event
 *               (cp__events_forget()).
 *   SIGPROF     is given back if the library's handler is installed, whatever a flag says. So is
 *               SIGTRAP: a trap that is pending in the parent does not come to the child.
 *   watches     What an M keeps for them changes between cp__fork_delay() and cp__fork_allow(). The child
 *               closes the events of all Ms, and frees the memory of the others with these.
 *   accounts    Lists of free accounts change between cp__fork_delay() and cp__fork_allow(). Gs of the parent
 *               keep their accounts, which begin anew, as sums by label set do.
 *   recordings  The tables of waits change their shape between cp__fork_delay() and cp__fork_allow(). The
 *               child has no recording, and frees those of its parent's if it is told to.
 *   libpfm4     is refused with a message if another thread was just initialising it.
 *
 * Two things cannot be repaired in the child: the dynamic linker's lock, and a descriptor that another thread
 * has opened and not stored yet. So a fork waits, though not for ever, for threads that have one of these:
 * cp__linker_begin() and cp__fork_delay(). A handler does not wait for a fork, but opens its M's events after
 * the fork: cp__fork_delay_from_handler().
 *
 * All this relies on the order in which the child sees another thread's stores. The child sees them as any
 * reader does: the kernel makes a page read-only before it shares the page with the child, and a thread that
 * writes to such a page waits in its page fault until the fork has ended, so that its later stores come after
 * the fork, too. So the stores named above are releases, and the child's loads are acquires.
 *
 * A constructor registers the handlers: once, whatever threads do, and mostly before the program registers
 * its own. Child handlers run in the order of their registration, so the program's can use the profiler.
 */
#include "prepare.h"

#include <pthread.h>

#include "asked.h"
#include "chunk.h"
#include "disposition.h"
#include "g_account.h"
#include "handler.h"
#include "label.h"
#include "label_sum.h"
#include "m.h"
#include "queue.h"
#include "rounds.h"
#include "runtime/base/fork_child.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/loads.h"
#include "runtime/base/os.h"
#include "runtime/base/signals.h"
#include "runtime/base/thread.h"
#include "runtime/event/rows.h"
#include "runtime/unwind/code.h"
#include "runtime/unwind/switches.h"
#include "slot.h"
#include "turn.h"

static void before(void)
{
    const struct cp__watch_calls *calls = cp__watch_calls_get();

    cp__fork_begins();
    if (calls != NULL)
        calls->before_fork();
}

static void after_in_parent(void)
{
    const struct cp__watch_calls *calls = cp__watch_calls_get();

    if (calls != NULL)
        calls->after_fork_in_parent();
    cp__fork_ended();
}

/* The library's signals stay blocked until cp__fork_ended(), so no signal interrupts the child before the
 * child has forgotten its parent's profile. */
static void after_in_child(void)
{
    const struct cp__watch_calls *calls = cp__watch_calls_get();
    const struct cp__wait_calls *wait_calls = cp__wait_calls_get();
    struct cp__m *m = cp__m_current;
    const bool opened_traps = m != NULL && m->blocked_traps_with != 0;

    cp__fork_child_resets();
    cp__fork_made_child();
    cp__lock_reset(&cp__runtime_lock);
    cp__own_threads_forget();
    cp__labels_forget();
    cp__pool_forget();
    cp__pfm_forget();
    cp__slots_forget();
    cp__queues_forget();
    cp__disposition_forget();
    cp__turn_forget();
    cp__ms_forget();
    cp__accounts_forget(m);
    cp__label_sums_forget();
    cp__accounting_forget();
    cp__asked_forget();
    cp__code_after_fork();
    if (calls != NULL)
        calls->after_fork_in_child();
    if (wait_calls != NULL)
        wait_calls->after_fork_in_child();
    cp__fork_ended();
    if (opened_traps)
        cp__os_close_traps(); /* the child's thread is no M */
    cp__fork_child_has_reset();
}

__attribute__((constructor)) static void register_handlers(void)
{
    pthread_atfork(before, after_in_parent, after_in_child);
}

/* ---- Once in a process ----------------------------------------------------------------------- */

/* Reading files is a cancellation point. A thread that ended here would leave the work half done for the next
 * thread. */
static void prepare_once(void)
{
    int cancel_state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    cp__loads_prepare();
    cp__os_barrier_prepare();
    cp__code_prepare();
    cp__switches_prepare();
    cp__fork_mark_prepare();
    cp__accounts_prepare();
    cp__signals_use(cp__on_signal_from_handler);
    pthread_setcancelstate(cancel_state, NULL);
}

void cp__prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, prepare_once);
}
