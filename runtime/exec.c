/* How an M disarms before its thread executes another program. */
#include <errno.h>
#include <unistd.h>

#include "configure.h"
#include "m.h"
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

void cp_before_exec(void)
{
    struct cp__m *m = own_m();
    int saved_errno = errno;
    uint64_t mask;

    if (m == NULL || cp_load_relaxed(&m->life) != CP__M_LIVE) /* relaxed: stored by this thread */
        return;
    mask = cp__os_block_from_handler();
    cp__configure_leave(m, mask);
    /* the new program has what this one has blocked */
    cp__os_unblock_from_handler(cp__os_mask_of_program(m->blocked_traps_with, mask));
    errno = saved_errno;
}

void cp_after_exec(void)
{
    struct cp__m *m = own_m();
    int saved_errno = errno;

    if (m == NULL || cp_load_relaxed(&m->life) != CP__M_LEAVING) /* relaxed: stored by this thread */
        return;
    cp__lock(&cp__runtime_lock);
    cp__slots_keep_stats_of(m);             /* the slots are armed anew */
    cp_store_relaxed(&m->life, CP__M_LIVE); /* relaxed: others look under the lock */
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
