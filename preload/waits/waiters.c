/* See waiters.h. */
#include "waiters.h"

#include "telling.h"

#define ENTRIES 1024u /* a power of two */
#define CLAIMED ((uintptr_t)1)

struct lock_waiter {
    uintptr_t lock; /* shared, atomic */
    uint64_t since; /* shared, atomic */
};

static struct lock_waiter entries[ENTRIES];
static uint32_t n_waiters; /* shared, atomic: how many entries are not free */
static _Thread_local struct lock_waiter *own __attribute__((tls_model("initial-exec")));

/* Returns the i-th place of a lock. */
static struct lock_waiter *place_of_lock(const void *lock, unsigned i)
{
    const uint64_t hash = (uint64_t)(uintptr_t)lock * 0x9e3779b97f4a7c15u >> 32;

    return &entries[(hash + i) % ENTRIES];
}

void cp__waiter_begin(const void *lock)
{
    cp__waiter_end();                                   /* what a jump has left */
    if (cp_load_relaxed(cp__tellers->lock_events) == 0) /* relaxed: a recording may be seen late */
        return;
    for (unsigned i = 0; i < CP__WAITERS_OF_LOCK; i++) {
        struct lock_waiter *entry = place_of_lock(lock, i);
        uintptr_t nobody = 0;

        if (!cp_compare_exchange(&entry->lock, &nobody, CLAIMED))
            continue;
        own = entry;
        cp_fetch_add_relaxed(&n_waiters, 1u); /* relaxed: a hint */
        cp_store_relaxed(&entry->since, cp__tellers->now());
        cp_store_release(&entry->lock, (uintptr_t)lock); /* pairs with the acquire in cp__waiters_find() */
        return;
    }
}

void cp__waiter_end(void)
{
    struct lock_waiter *entry = own;

    if (entry == NULL)
        return;
    own = NULL;
    cp_fetch_add_relaxed(&n_waiters, -1u); /* relaxed: a hint */
    cp_store_release(&entry->lock, 0);     /* pairs with the exchange in cp__waiter_begin() */
}

/* An entry that has a lock has been counted before. */
void cp__waiters_forget(void)
{
    if (n_waiters == 0)
        return;
    for (unsigned i = 0; i < ENTRIES; i++)
        entries[i].lock = 0;
    n_waiters = 0;
    own = NULL;
}

/* Takes what the entry has waited for so far. If its thread ends the wait at the same time, or another one
 * gets the entry, nobody is credited. */
static void take_wait(struct lock_waiter *entry, const void *lock, uint64_t now, struct cp__made_wait *found)
{
    uint64_t since = cp_load_acquire(&entry->since); /* the lock is loaded again afterwards */

    /* relaxed: the lock is the program's, and orders what its owners do */
    if (cp_load_relaxed(&entry->lock) != (uintptr_t)lock || (int64_t)(now - since) <= 0)
        return;
    if (cp_compare_exchange(&entry->since, &since, now))
        found->lasted[found->n++] = now - since;
}

void cp__waiters_find(const void *lock, struct cp__made_wait *found)
{
    uint64_t now;

    found->n = 0;
    if (cp_load_relaxed(&n_waiters) == 0) /* relaxed: a hint */
        return;
    now = cp__tellers->now();
    for (unsigned i = 0; i < CP__WAITERS_OF_LOCK; i++) {
        struct lock_waiter *entry = place_of_lock(lock, i);

        /* acquire: pairs with the release in cp__waiter_begin() */
        if (cp_load_acquire(&entry->lock) == (uintptr_t)lock)
            take_wait(entry, lock, now, found);
    }
}
