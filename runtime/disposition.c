#include "disposition.h"

#include "m.h"
#include "runtime/base/os.h"
#include "runtime/base/signals.h"
#include "slot.h"

/* Both are guarded by the runtime lock. */
static bool installed;
static unsigned holds;

static uint32_t is_kept; /* 1: for the life of the process; shared, stored by Ms that hold the claim */

int cp__disposition_take(struct cp_error *err)
{
    int result = 0;

    if (!installed)
        result = cp__signal_install(SIGPROF, err);
    installed = result == 0;
    return result;
}

int cp__disposition_take_traps(struct cp_error *err)
{
    if (cp__signal_was_installed_from_handler(SIGTRAP))
        return 0;
    cp__os_use_traps();
    return cp__signal_install(SIGTRAP, err);
}

int cp__disposition_hold(struct cp_error *err)
{
    int result;

    cp__lock(&cp__runtime_lock);
    result = cp__disposition_take(err);
    holds += result == 0;
    cp__unlock(&cp__runtime_lock);
    return result;
}

void cp__disposition_drop(void)
{
    cp__lock(&cp__runtime_lock);
    holds--;
    cp__disposition_settle();
    cp__unlock(&cp__runtime_lock);
}

void cp__disposition_keep_from_handler(void)
{
    cp_store_relaxed(&is_kept, 1u); /* relaxed: ordered by the release of the claim */
}

bool cp__disposition_is_taken(void)
{
    return installed;
}

/* Returns whether no SIGPROF of the library's can reach m any more: m has no handle, is not about to open one
 * after it saw the slots before they were emptied, and has no kick under way. */
static bool is_settled(const struct cp__m *m)
{
    if (cp__m_is_gone(m))
        return true;
    /* acquire: pairs with the release in cp__m_unclaim_from_handler() */
    return cp_load_acquire(&m->claim) == CP__CLAIM_NONE && !cp__m_has_kick(m) &&
           cp_load_relaxed(&m->armed) == 0; /* relaxed: ordered by the acquire of the claim */
}

void cp__disposition_settle(void)
{
    if (!installed || holds != 0 || cp__slots_running())
        return;
    cp_fence_seq_cst(); /* pairs with the fence in cp__configure_from_handler(): the slots are empty, then
                           look */
    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (!is_settled(m))
            return;
    }
    if (cp_load_relaxed(&is_kept) != 0) /* relaxed: ordered by the acquires of the claims */
        return;
    cp__signal_restore(SIGPROF);
    installed = false;
}

void cp__disposition_forget(void)
{
    holds = 0; /* the thread that measures exists in the parent only */
    cp__signal_restore(SIGPROF);
    cp__signal_restore(SIGTRAP);
    installed = false;
    /* A child has none of its parent's timers. relaxed: this is the only thread */
    cp_store_relaxed(&is_kept, 0u);
}
