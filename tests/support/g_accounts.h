/* Accounts of Gs that a test reads: of the scheduler's, and of those that the test runs itself. */
#ifndef COUNTERPOINT_TESTS_G_ACCOUNTS_H
#define COUNTERPOINT_TESTS_G_ACCOUNTS_H

#include "gs.h"

/* The processor's clock and the kernel's may differ by so much. */
#define LONG(ns) ((ns) - (ns) / 1000 - 10)

/* An M that runs Gs of its own. */
static inline struct cp_m *attached(void)
{
    struct cp_error err;
    struct cp_m *m;

    CHECKF(cp_m_attach(&m, &err) == 0, "%s", err.message);
    return m;
}

static inline struct cp_account account_of(const struct cp_g *g)
{
    struct cp_account account = {.size = sizeof account};

    CHECK_EQ(cp_g_stats(g, &account), 0);
    return account;
}

static inline struct cp_account total(void)
{
    struct cp_account sum = {.size = sizeof sum};

    CHECK_EQ(cp_accounts_total(&sum), 0);
    return sum;
}

static inline void compute(uint64_t ns)
{
    const uint64_t begin = wall_ns();

    while (wall_ns() - begin < ns)
        ;
}

#endif
