/* How an M disarms before its thread executes another program. */
#include <errno.h>
#include <unistd.h>

#include "configure.h"
#include "disposition.h"
#include "m.h"
#include "moment.h"
#include "receive.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "stats.h"

/* Returns the calling thread's M; NULL if there is none, or if it is the parent's. A child of vfork() runs in
 * the parent's memory, as another thread. */
static struct cp__m *own_m(void)
{
    struct cp__m *m = cp__m_current;

    return m != NULL && !cp__is_raw_child_from_handler() && m->tid == cp__os_tid() ? m : NULL;
}

/* Takes what is pending, after the last kick. Called with the library's signals blocked. */
static void end_kicks(struct cp__m *m)
{
    struct cp__moment none;

    cp__lock(&cp__runtime_lock);
    m->is_away = true; /* from here on nobody kicks it */
    cp__moment_begin_from_handler(&none, NULL, CP__SINCE_HERE);
    cp__take_pending_from_handler(m, &none);
    cp_store_release(&m->kick.taken, m->kick.sent); /* pairs with the acquire in cp__m_has_kick() */
    cp__unlock(&cp__runtime_lock);
}

void cp_before_exec(void)
{
    struct cp__m *m = own_m();
    int saved_errno = errno;
    uint64_t mask;

    if (m == NULL || m->is_away)
        return;
    mask = cp__os_block_from_handler();
    cp_store_relaxed(&m->life, CP__M_LEAVING); /* relaxed: this thread and its handler only */
    cp__fork_delay();                          /* events are closed */
    while (!cp__configure(m, mask)) {
        cp__lock(&cp__runtime_lock); /* another thread had the claim; that thread holds this lock */
        cp__unlock(&cp__runtime_lock);
    }
    cp__fork_allow();
    end_kicks(m);
    cp__os_unblock_from_handler(mask);
    errno = saved_errno;
}

void cp_after_exec(void)
{
    struct cp__m *m = own_m();
    int saved_errno = errno;

    if (m == NULL || !m->is_away)
        return;
    cp__lock(&cp__runtime_lock);
    m->is_away = false;
    cp__slots_keep_stats_of(m);             /* the slots are armed anew */
    cp_store_relaxed(&m->life, CP__M_LIVE); /* relaxed: this thread and its handler only */
    cp__unlock(&cp__runtime_lock);
    cp_execute_slow(&m->head);
    errno = saved_errno;
}

int cp_execve(const char *path, char *const argv[], char *const envp[])
{
    cp_before_exec();
    execve(path, argv, envp);
    cp_after_exec();
    return -1;
}
