/*
 * A child starts unprofiled: its perf descriptors lead to the parent's events, its ring is not mapped, its
 * timers and all threads but one are gone. It lets go of all that, touching nothing that it shares, and can
 * start afresh. The locks are held over the fork, so that the child finds the registry whole.
 */
#include "fork.h"

#include <pthread.h>
#include <string.h>

#include "config.h"
#include "event.h"
#include "label.h"
#include "m.h"
#include "os.h"
#include "slot.h"

static uint64_t mask; /* of the forking thread; under the runtime lock */

/* With SIGPROF blocked, the child cannot be interrupted before it has forgotten. */
static void before(void)
{
    uint64_t old = cp__os_block_from_handler();

    cp__configs_before_fork();
    cp__lock(&cp__runtime_lock);
    cp__pfm_before_fork();
    cp__labels_before_fork();
    mask = old;
}

static void after_in_parent(void)
{
    uint64_t old = mask;

    cp__labels_after_fork();
    cp__pfm_after_fork();
    cp__unlock(&cp__runtime_lock);
    cp__configs_after_fork(false);
    cp__os_unblock_from_handler(old);
}

static void forget(struct cp__m *m)
{
    cp__perf_forget(m);
    memset(m->handles, 0, sizeof m->handles);
    cp_store_relaxed(&m->armed, 0); /* relaxed: this is the only thread */
    cp_store_relaxed(&m->kick_taken, m->kick_sent);
    cp_store_relaxed(&m->configuring, 0);
    m->refs = 0;
    m->undrained = 0;
    m->exited = m != cp__m_current;
}

static void after_in_child(void)
{
    uint64_t old = mask;
    struct cp__m *m = cp__m_current;

    cp__slots_forget();
    for (struct cp__m *each = cp__ms; each != NULL; each = each->next)
        forget(each);
    cp__m_sweep();
    if (m != NULL) {
        m->tid = cp__os_tid();
        m->cpu_clock = cp__os_thread_clock(m->tid);
    }
    cp__slots_settle();
    cp__labels_after_fork();
    cp__pfm_after_fork();
    cp__unlock(&cp__runtime_lock);
    cp__configs_after_fork(true);
    cp__os_unblock_from_handler(old);
}

void cp__fork_prepare(void)
{
    pthread_atfork(before, after_in_parent, after_in_child);
}
