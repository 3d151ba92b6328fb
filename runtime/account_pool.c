/*
 * Where accounts lie, and how others read them. The memory is the list of all Gs, too: accounts lie in slabs
 * that are never unmapped, and one whose id is 0 is free. Each M keeps some free ones; the others are in a
 * list under a lock.
 */
#include <sched.h>
#include <stdlib.h>

#include "g_account.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/lock.h"
#include "ticks.h"

#define SLAB_ACCOUNTS 64u
#define SLAB_TABLES 40u /* more slabs than any memory has */
/* An M that has twice as many free accounts returns half of them. */
#define M_KEEPS 64u
/* How often an account is read that changes, and how often of that without giving the CPU away. */
#define READS 10000u
#define READS_AT_ONCE 1000u

struct account_slab {
    struct account_slab *next; /* immutable */
    struct cp__account accounts[SLAB_ACCOUNTS];
};

uint32_t cp_accounting;
struct cp__accounts_clock cp__accounts_clock;

static struct account_slab *slabs; /* each change is one store, with release */
/* The same slabs by number: table k has 2^k of them, from number 2^k - 1 on. Both change under the lock:
 * first the table, and then the number of slabs, with release. */
static struct account_slab **slab_tables[SLAB_TABLES];
static size_t n_slabs;
static struct {
    struct cp__lock lock;
    struct cp__account *free; /* under the lock */
} pool = {.lock = CP__LOCK_INIT(CP__RANK_ACCOUNTS)};

/* ---- Slabs ----------------------------------------------------------------------------------- */

/* Returns where the slab with the number is noted; the first one of a table needs the table. */
static struct account_slab **slab_place(size_t number)
{
    const unsigned table = 63u - (unsigned)__builtin_clzll(number + 1);

    return slab_tables[table] == NULL ? NULL : &slab_tables[table][number + 1 - ((size_t)1 << table)];
}

/* Under the lock. Notes the slab by its number. Returns false if there is no memory for a table. */
static bool number_slab(struct account_slab *slab)
{
    if (slab_place(n_slabs) == NULL) {
        const unsigned table = 63u - (unsigned)__builtin_clzll(n_slabs + 1);

        slab_tables[table] = calloc((size_t)1 << table, sizeof(struct account_slab *));
        if (slab_tables[table] == NULL)
            return false;
    }
    *slab_place(n_slabs) = slab;
    cp_store_release(&n_slabs, n_slabs + 1); /* pairs with the acquires in the next two functions */
    return true;
}

size_t cp__account_places(void)
{
    return cp_load_acquire(&n_slabs) * SLAB_ACCOUNTS; /* pairs with the release in number_slab() */
}

const struct cp__account *cp__account_at(size_t place)
{
    const struct cp__account *account;

    if (place >= cp__account_places())
        return NULL;
    account = &(*slab_place(place / SLAB_ACCOUNTS))->accounts[place % SLAB_ACCOUNTS];
    /* acquire: pairs with the release in cp__account_new() */
    return cp_load_acquire(&account->id) == 0 ? NULL : account;
}

/* Under the lock. */
static bool add_account_slab(void)
{
    struct account_slab *slab = calloc(1, sizeof *slab);

    if (slab == NULL)
        return false;
    if (!number_slab(slab)) {
        free(slab);
        return false;
    }
    for (unsigned i = 0; i < SLAB_ACCOUNTS; i++) {
        slab->accounts[i].next = pool.free;
        pool.free = &slab->accounts[i];
    }
    slab->next = slabs;
    cp_store_release(&slabs, slab); /* pairs with the acquires of those who walk the list */
    return true;
}

/* ---- Free accounts --------------------------------------------------------------------------- */

/* Takes up to n free accounts, linked; NULL: no memory. */
static struct cp__account *take_free_accounts(unsigned n, unsigned *taken)
{
    struct cp__account *first, **link = &pool.free;

    *taken = 0;
    cp__fork_delay(); /* a child must find the list whole */
    cp__lock(&pool.lock);
    if (pool.free != NULL || add_account_slab()) {
        for (; *taken < n && *link != NULL; ++*taken)
            link = &(*link)->next;
    }
    first = *taken > 0 ? pool.free : NULL;
    if (first != NULL) {
        struct cp__account *rest = *link;

        *link = NULL;
        pool.free = rest;
    }
    cp__unlock(&pool.lock);
    cp__fork_allow();
    return first;
}

/* Returns accounts, linked from first to last. */
static void give_free(struct cp__account *first, struct cp__account *last)
{
    cp__fork_delay(); /* as above */
    cp__lock(&pool.lock);
    last->next = pool.free;
    pool.free = first;
    cp__unlock(&pool.lock);
    cp__fork_allow();
}

static struct cp__account *take_account(struct cp__m *m)
{
    struct cp__account *account;
    unsigned taken;

    if (m == NULL)
        return take_free_accounts(1, &taken);
    if (m->free_accounts == NULL) {
        m->free_accounts = take_free_accounts(M_KEEPS, &taken);
        m->n_free_accounts = taken;
    }
    account = m->free_accounts;
    if (account != NULL) {
        m->free_accounts = account->next;
        m->n_free_accounts--;
    }
    return account;
}

/* Gives back all free accounts of m but `keep`. */
static void give_back(struct cp__m *m, unsigned keep)
{
    struct cp__account **link = &m->free_accounts, *first, *last;

    for (unsigned i = 0; i < keep && *link != NULL; i++)
        link = &(*link)->next;
    first = *link;
    if (first == NULL)
        return;
    for (last = first; last->next != NULL;)
        last = last->next;
    *link = NULL;
    m->n_free_accounts = keep;
    give_free(first, last);
}

void cp__account_free(struct cp__m *m, struct cp__account *account)
{
    cp__account_begin_change(account);
    cp_store_release(&account->id, 0u); /* pairs with the acquire in cp__accounts_each() */
    cp__account_end_change(account);
    if (m == NULL) {
        give_free(account, account);
        return;
    }
    account->next = m->free_accounts;
    m->free_accounts = account;
    if (++m->n_free_accounts >= 2 * M_KEEPS)
        give_back(m, M_KEEPS);
}

void cp__accounts_leave(struct cp__m *m)
{
    give_back(m, 0);
}

/* ---- Accounts -------------------------------------------------------------------------------- */

static void begin_values(struct cp__account_values *values, uint32_t reasons)
{
    /* relaxed, all: the id, or the version, tells when they hold */
    cp_store_relaxed(&values->running, 0);
    cp_store_relaxed(&values->runnable, 0);
    cp_store_relaxed(&values->switches, 0);
    for (; reasons != 0; reasons &= reasons - 1) {
        const unsigned i = (unsigned)__builtin_ctz(reasons);

        cp_store_relaxed(&values->waited[i], 0);
        cp_store_relaxed(&values->waits[i], 0);
    }
}

/* Begins the account anew, in the state that it has. */
static void begin_account(struct cp__account *account, uint64_t born)
{
    begin_values(&account->values, account->waited_for);
    begin_values(&account->summed, account->waited_for);
    account->waited_for = account->unsummed = 0;
    cp_store_relaxed(&account->born, born);
    cp_store_relaxed(&account->since, born);
}

/* A reader that has found the account's last G may still be reading. */
struct cp__account *cp__account_new(struct cp__m *m, uint64_t id, enum cp__g_state state, uint64_t born,
                                    struct cp__label_sum *sum)
{
    struct cp__account *account = take_account(m);

    if (account == NULL)
        return NULL;
    cp__account_begin_change(account);
    begin_account(account, born);
    cp_store_relaxed(&account->state, (uint32_t)state); /* relaxed, all: as above */
    cp_store_relaxed(&account->reason, CP_WAIT_OTHER);
    cp_store_relaxed(&account->object, NULL);
    cp_store_relaxed(&account->parked.pc, 0);
    cp_store_relaxed(&account->sum, sum);
    account->has_told = account->parks = account->is_woken = false;
    cp_store_release(&account->id, id); /* pairs with the acquire in cp__accounts_each() */
    cp__account_end_change(account);
    return account;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void copy_values(const struct cp__account *account, struct cp__account_copy *copy)
{
    const uint64_t *values = (const uint64_t *)&account->values;
    const uint64_t *summed = (const uint64_t *)&account->summed;
    uint64_t *to_values = (uint64_t *)&copy->values, *to_summed = (uint64_t *)&copy->summed;

    /* relaxed, all: the version is read before and after them */
    copy->id = cp_load_relaxed(&account->id);
    copy->born = cp_load_relaxed(&account->born);
    copy->since = cp_load_relaxed(&account->since);
    copy->state = (enum cp__g_state)cp_load_relaxed(&account->state);
    copy->reason = (enum cp_wait_reason)cp_load_relaxed(&account->reason);
    copy->object = cp_load_relaxed(&account->object);
    copy->sum = cp_load_relaxed(&account->sum);
    for (size_t i = 0; i < sizeof copy->values / sizeof *values; i++) {
        to_values[i] = cp_load_relaxed(&values[i]);
        to_summed[i] = cp_load_relaxed(&summed[i]);
    }
}

/* Returns false if the account has changed meanwhile, or is being changed. */
static bool copy_at_once(const struct cp__account *account, struct cp__account_copy *copy)
{
    /* acquire: pairs with the release in cp__account_end_change() */
    const uint64_t version = cp_load_acquire(&account->version);

    copy_values(account, copy);
    cp_fence_acquire(); /* pairs with the fence in cp__account_begin_change() */
    return version % 2 == 0 && cp_load_relaxed(&account->version) == version;
}

/* A change takes some ns, unless its thread has lost the CPU. One that was cut off by a handler that has
 * jumped out of it never ends. */
void cp__account_read(const struct cp__account *account, struct cp__account_copy *copy)
{
    for (unsigned i = 0; i < READS; i++) {
        if (copy_at_once(account, copy))
            return;
        if (i >= READS_AT_ONCE)
            sched_yield();
    }
    copy->id = 0;
}

void cp__account_advance(struct cp__account_copy *copy, uint64_t now)
{
    const uint64_t lasted = (int64_t)(now - copy->since) > 0 ? now - copy->since : 0;

    copy->since += lasted;
    switch (copy->state) {
    case CP__G_RUNNABLE:
        copy->values.runnable += lasted;
        break;
    case CP__G_RUNNING:
        copy->values.running += lasted;
        break;
    case CP__G_WAITING:
        copy->values.waited[copy->reason] += lasted;
        break;
    case CP__G_AWAY:
    case CP__G_DORMANT:
        break;
    }
}

void cp__account_tell(const struct cp__account_values *values, uint64_t gs, struct cp_account *to)
{
    to->gs = gs;
    to->running_ns = cp__stamps_ns(values->running);
    to->runnable_ns = cp__stamps_ns(values->runnable);
    to->switches = values->switches;
    for (unsigned i = 0; i < CP_WAIT_REASONS; i++) {
        to->waited_ns[i] = cp__stamps_ns(values->waited[i]);
        to->waits[i] = values->waits[i];
        to->waiting_ns += to->waited_ns[i];
    }
    to->lifetime_ns = to->running_ns + to->runnable_ns + to->waiting_ns;
}

int cp__accounts_each(cp__account_each_fn *fn, void *context)
{
    struct cp__account_copy copy;
    int result = 0;

    /* acquire: pairs with the release in add_account_slab() */
    for (struct account_slab *slab = cp_load_acquire(&slabs); slab != NULL && result == 0;
         slab = slab->next) {
        for (unsigned i = 0; i < SLAB_ACCOUNTS && result == 0; i++) {
            /* acquire: pairs with the release in cp__account_new() */
            if (cp_load_acquire(&slab->accounts[i].id) == 0)
                continue;
            cp__account_read(&slab->accounts[i], &copy);
            if (copy.id != 0 && copy.state != CP__G_DORMANT)
                result = fn(context, &copy);
        }
    }
    return result;
}

/* ---- In the child of a fork ------------------------------------------------------------------ */

/* The parent's Gs, and their times, are the parent's. What its other threads did is not known. This one goes
 * on with what it did. */
void cp__accounts_forget(struct cp__m *m)
{
    const struct cp_g *running = m == NULL ? NULL : m->head.g;
    const struct cp__account *of_g = running == NULL ? NULL : running->account;
    const struct cp__account *own = m == NULL ? NULL : m->self.account;
    const uint64_t now = cp__account_now_early();

    cp__lock_reset(&pool.lock);
    for (struct account_slab *slab = slabs; slab != NULL; slab = slab->next) {
        for (unsigned i = 0; i < SLAB_ACCOUNTS; i++) {
            struct cp__account *account = &slab->accounts[i];

            account->version &= ~(uint64_t)1;
            account->waited_for = (1u << CP_WAIT_REASONS) - 1; /* a change may have been half done */
            begin_account(account, now);
            if (account != of_g && account != own)
                account->state = CP__G_DORMANT;
        }
    }
    if (m != NULL)
        m->own_since = now;
}
