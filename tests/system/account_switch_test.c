/* Accounts that are switched off and on again. */
#include "tests/support/g_accounts.h"

#include <errno.h>

static char stack[64];

static void init_g(struct cp_g *g)
{
    cp_g_init(g, stack, stack + sizeof stack, NULL);
}

/* The time that is in an account, compared with the test's own: from when it was on to when it was off. */
static void check_lifetime(const struct cp_account *account, uint64_t least, uint64_t most)
{
    CHECKF(account->lifetime_ns >= LONG(least) && LONG(account->lifetime_ns) <= most,
           "%llu, and not from %llu to %llu", (unsigned long long)account->lifetime_ns,
           (unsigned long long)least, (unsigned long long)most);
}

CP_TEST(time_while_accounts_are_off_is_in_none)
{
    struct cp_m *m = attached();
    uint64_t before, begun, stopped, stopped_after;
    struct cp_account off, on;
    struct cp_g g;

    before = wall_ns();
    init_g(&g);
    begun = wall_ns();
    cp_execute(m, &g);
    compute(2 * MS);
    stopped = wall_ns();
    cp_accounts_set(false);
    stopped_after = wall_ns();
    compute(20 * MS);
    off = account_of(&g);
    check_lifetime(&off, stopped - begun, stopped_after - before);
    compute(20 * MS);
    on = account_of(&g);
    CHECK_EQ(on.lifetime_ns, off.lifetime_ns);
    CHECK_EQ(total().lifetime_ns, off.lifetime_ns);
    begun = wall_ns();
    cp_accounts_set(true);
    compute(2 * MS);
    cp_execute(m, NULL);
    on = account_of(&g);
    CHECK(on.lifetime_ns >= off.lifetime_ns + LONG(2 * MS));
    CHECK(LONG(on.lifetime_ns - off.lifetime_ns) <= wall_ns() - begun);
    CHECK_EQ(on.switches, 1);
    cp_g_fini(&g);
    cp_m_detach(m);
}

/* Until it is told otherwise, a G does what it did. */
CP_TEST(a_g_goes_on_with_what_it_did)
{
    struct cp_m *m = attached();
    struct cp_account before, after;
    struct cp_g waits, runs;

    init_g(&waits);
    init_g(&runs);
    cp_execute(m, &waits);
    cp_g_park(&waits, CP_WAIT_LOCK, NULL);
    cp_execute(m, &runs);
    cp_accounts_set(false);
    cp_g_park(&runs, CP_WAIT_SLEEP, NULL);
    cp_execute(m, NULL);
    cp_g_ready(&waits);
    cp_execute(m, &waits);
    cp_accounts_set(true);
    compute(2 * MS);
    before = account_of(&waits);
    cp_g_park(&waits, CP_WAIT_IO, NULL);
    after = account_of(&waits);
    CHECK(after.waited_ns[CP_WAIT_LOCK] >= LONG(2 * MS) &&
          after.waited_ns[CP_WAIT_LOCK] >= before.waited_ns[CP_WAIT_LOCK]);
    CHECK_EQ(after.waits[CP_WAIT_LOCK], 1);
    CHECK_EQ(after.waited_ns[CP_WAIT_IO], 0);
    before = account_of(&runs);
    cp_execute(m, &runs);
    after = account_of(&runs);
    CHECK(after.running_ns >= before.running_ns && after.running_ns >= LONG(2 * MS));
    CHECK(after.waiting_ns == 0 && after.runnable_ns >= before.runnable_ns);
    cp_execute(m, NULL);
    CHECK(account_of(&waits).waiting_ns >= LONG(2 * MS));
    cp_g_fini(&waits);
    cp_g_fini(&runs);
    cp_m_detach(m);
}

CP_TEST(gs_that_begin_while_accounts_are_off_have_none)
{
    struct cp_account account = {.size = sizeof account};
    struct cp_m *m = attached();
    struct cp_g g;

    cp_accounts_set(false);
    init_g(&g);
    CHECK_EQ(cp_g_stats(&g, &account), -ENODATA);
    cp_execute(m, &g);
    CHECK_EQ(cp_label_set("route", "a"), 0);
    cp_execute(m, NULL);
    CHECK_EQ(cp_g_stats(&g, &account), -ENODATA);
    CHECK_EQ(total().gs, 0);
    cp_accounts_set(true);
    CHECK_EQ(cp_g_stats(&g, &account), -ENODATA);
    cp_execute(m, &g);
    compute(MS);
    CHECK_EQ(account_of(&g).switches, 1);
    CHECK_EQ(total().gs, 1);
    CHECK(account_of(&g).running_ns >= LONG(MS));
    cp_execute(m, NULL);
    cp_g_fini(&g);
    CHECK_EQ(total().gs, 1);
    cp_m_detach(m);
}

CP_TEST(a_program_may_have_no_accounts_from_the_begin)
{
    struct cp_account account = {.size = sizeof account};
    struct cp_m *m;
    struct cp_g g;

    cp_accounts_set(false);
    m = attached();
    init_g(&g);
    cp_execute(m, &g);
    cp_execute(m, NULL);
    CHECK_EQ(cp_g_stats(&g, &account), -ENODATA);
    CHECK_EQ(total().lifetime_ns, 0);
    cp_g_fini(&g);
    cp_accounts_set(true);
    cp_wait_begin(CP_WAIT_IO, NULL);
    cp_wait_end();
    CHECK(total().lifetime_ns < wall_ns()); /* and has not lived since the machine was started */
    CHECK_EQ(total().waits[CP_WAIT_IO], 1);
    cp_m_detach(m);
}

/* A wait that has begun with accounts, and ended without, is over. */
CP_TEST(waits_of_threads_begin_anew)
{
    struct cp_m *m = attached();

    cp_wait_begin(CP_WAIT_IO, NULL);
    cp_accounts_set(false);
    cp_wait_end();
    cp_accounts_set(true);
    for (int i = 1; i <= 3; i++) {
        cp_wait_begin(CP_WAIT_LOCK, NULL);
        compute(MS);
        cp_wait_end();
        CHECK_EQ(total().waits[CP_WAIT_LOCK], i);
        CHECK(total().waited_ns[CP_WAIT_LOCK] >= LONG((uint64_t)i * MS));
    }
    CHECK_EQ(total().waits[CP_WAIT_IO], 1);
    cp_m_detach(m);
}

/* An M that has left a G long ago does not take that time for the next switch. */
CP_TEST(a_switch_is_not_as_old_as_the_last_one_with_accounts)
{
    struct cp_m *m = attached();
    struct cp_account account;
    struct cp_g g, other;

    init_g(&g);
    init_g(&other);
    cp_execute(m, &g);
    cp_execute(m, NULL);
    cp_accounts_set(false);
    cp_execute_next(m, &g);
    cp_execute(m, NULL);
    cp_accounts_set(true);
    compute(3 * MS);
    cp_execute_next(m, &other);
    cp_execute(m, NULL);
    account = account_of(&other);
    CHECK(account.runnable_ns >= LONG(3 * MS));
    cp_g_fini(&g);
    cp_g_fini(&other);
    cp_m_detach(m);
}
