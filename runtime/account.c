/* What programs see of accounts. */
#include "account.h"

#include <errno.h>
#include <string.h>

#include "g_account.h"
#include "prepare.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/lock.h"
#include "runtime/base/sized.h"
#include "ticks.h"

static struct cp__lock setting = CP__LOCK_INIT(CP__RANK_ACCOUNTING);
static bool is_refused; /* shared, atomic: the program wants no accounts */

const char *cp_wait_reason_name(enum cp_wait_reason reason)
{
    static const char *const names[CP_WAIT_REASONS] = {
        [CP_WAIT_OTHER] = "wait",
        [CP_WAIT_PARK] = "park",
        [CP_WAIT_LOCK] = "lock",
        [CP_WAIT_CONDITION] = "condition",
        [CP_WAIT_SEMAPHORE] = "semaphore",
        [CP_WAIT_CHANNEL_SEND] = "channel send",
        [CP_WAIT_CHANNEL_RECEIVE] = "channel receive",
        [CP_WAIT_GROUP] = "wait group",
        [CP_WAIT_JOIN] = "join",
        [CP_WAIT_SLEEP] = "sleep",
        [CP_WAIT_DESCRIPTOR] = "descriptor",
        [CP_WAIT_IO] = "io",
    };

    return names[(unsigned)reason < CP_WAIT_REASONS ? reason : CP_WAIT_OTHER];
}

/* ---- The switch ------------------------------------------------------------------------------ */

/* Under the lock: the clock goes on, for the first time as the stamps do. */
static void resume_clock(void)
{
    struct cp__accounts_clock *clock = &cp__accounts_clock;
    const uint64_t stamp = cp__stamp();
    const bool is_first = clock->begun == 0;

    /* relaxed, all: cp_accounting is stored afterwards, with release */
    cp_store_relaxed(&clock->off, is_first ? 0 : stamp - clock->stopped);
    cp_store_relaxed(&clock->resumed, is_first ? stamp : clock->stopped);
    if (is_first)
        cp_store_relaxed(&clock->begun, stamp);
}

void cp__accounting_set(enum cp__accounting bit, bool on)
{
    uint32_t old, new;

    cp__fork_delay(); /* a child must find the clock as it is said to be */
    cp__lock(&setting);
    old = cp_load_relaxed(&cp_accounting); /* relaxed: stored under the lock */
    new = on ? old | (uint32_t)bit : old & ~(uint32_t)bit;
    if (old == 0 && new != 0)
        resume_clock();
    else if (old != 0 && new == 0)
        cp_store_relaxed(&cp__accounts_clock.stopped, cp__account_now()); /* relaxed: as above */
    cp_store_release(&cp_accounting, new); /* pairs with the acquire in cp__account_time() */
    cp__unlock(&setting);
    cp__fork_allow();
}

void cp__accounting_forget(void)
{
    cp__lock_reset(&setting);
}

void cp__accounts_prepare(void)
{
    cp__ticks_prepare();
    if (!cp_load_relaxed(
            &is_refused)) /* relaxed: a call of cp_accounts_set() at the same time has either result */
        cp__accounting_set(CP__ACCOUNTING_ON, true);
}

void cp_accounts_set(bool on)
{
    cp_store_relaxed(&is_refused, !on); /* relaxed: see above */
    cp__prepare();
    cp__accounting_set(CP__ACCOUNTING_ON, on);
}

/* ---- Reading --------------------------------------------------------------------------------- */

int cp_g_stats(const struct cp_g *g, struct cp_account *account)
{
    struct cp_account read = {.size = sizeof read};
    /* relaxed: lists of Gs may ask while g ends, and look afterwards whether it has; accounts stay mapped */
    const struct cp__account *kept = cp_load_relaxed(&g->account);
    struct cp__account_copy copy;
    int result = cp__struct_check(account, "struct cp_account", NULL);

    if (result < 0)
        return result;
    if (kept == NULL)
        return -ENODATA;
    cp__ticks_measure();
    cp__account_read(kept, &copy);
    if (copy.id == 0)
        return -ENODATA;
    cp__account_advance(&copy, cp__account_now());
    cp__account_tell(&copy.values, 1, &read);
    return CP__GIVE(cp_account, account, &read, NULL);
}
