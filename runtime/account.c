/* What programs see of accounts. */
#include "account.h"

#include <errno.h>
#include <string.h>

#include "g_account.h"
#include "prepare.h"
#include "runtime/base/sized.h"
#include "ticks.h"

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

void cp__accounting_set(enum cp__accounting bit, bool on)
{
    /* relaxed, both: switches that come meanwhile see either */
    if (on)
        cp_fetch_or_relaxed(&cp_accounting, (uint32_t)bit);
    else
        cp_fetch_and_relaxed(&cp_accounting, ~(uint32_t)bit);
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
    struct cp__account_copy copy;
    int result = cp__struct_check(account, "struct cp_account", NULL);

    if (result < 0)
        return result;
    if (g->account == NULL)
        return -ENODATA;
    cp__ticks_measure();
    cp__account_read(g->account, &copy);
    cp__account_advance(&copy, cp__stamp());
    cp__account_tell(&copy.values, 1, &read);
    return CP__GIVE(cp_account, account, &read, NULL);
}
