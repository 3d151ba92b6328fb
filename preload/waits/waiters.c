/* See waiters.h. */
#include "waiters.h"

#include <string.h>

#include "telling.h"

#define GROUPS 256u /* a power of two */
#define CLAIMED ((uintptr_t)1)

struct lock_waiter {
    uintptr_t lock; /* shared, atomic */
    uint64_t since; /* shared, atomic */
};

/* Waiters take the first free places of a group, so those who look for them find them soon. */
static struct lock_waiter groups[GROUPS][CP__WAITERS_OF_LOCK];
/* Shared, atomic: how many entries of each group are not free, or more. */
static uint32_t n_waiters[GROUPS];
static _Thread_local struct {
    struct lock_waiter *entry; /* NULL: it does not wait */
    unsigned group;
} own __attribute__((tls_model("initial-exec")));

static unsigned group_of_lock(const void *lock)
{
    return (unsigned)((uint64_t)(uintptr_t)lock * 0x9e3779b97f4a7c15u >> 32) % GROUPS;
}

/* Returns a claimed entry of the group; NULL: all are taken. */
static struct lock_waiter *claim_entry(unsigned group)
{
    for (unsigned i = 0; i < CP__WAITERS_OF_LOCK; i++) {
        struct lock_waiter *entry = &groups[group][i];
        uintptr_t nobody = 0;

        /* relaxed: the exchange decides */
        if (cp_load_relaxed(&entry->lock) == 0 && cp_compare_exchange(&entry->lock, &nobody, CLAIMED))
            return entry;
    }
    return NULL;
}

/* An entry that is not free is counted at any moment, that of a fork included. */
void cp__waiter_begin(const void *lock)
{
    const unsigned group = group_of_lock(lock);
    struct lock_waiter *entry;

    cp__waiter_end(); /* what a jump has left */
    /* relaxed: a recording may be seen late */
    if (cp_load_relaxed(cp__tellers->lock_events) == 0 || !cp__tellers->is_known())
        return;
    cp_fetch_add_acq_rel(&n_waiters[group], 1u); /* acquire: the entry is claimed afterwards */
    entry = claim_entry(group);
    if (entry == NULL) {
        cp_fetch_add_relaxed(&n_waiters[group], -1u); /* relaxed: nothing was claimed */
        return;
    }
    own.group = group;
    own.entry = entry;
    cp_store_relaxed(&entry->since, cp__tellers->now());
    cp_store_release(&entry->lock, (uintptr_t)lock); /* pairs with the acquire in cp__waiters_find() */
}

void cp__waiter_end(void)
{
    struct lock_waiter *entry = own.entry;

    if (entry == NULL)
        return;
    own.entry = NULL;
    cp_store_release(&entry->lock, 0);               /* pairs with the exchange in claim_entry() */
    cp_fetch_sub_acq_rel(&n_waiters[own.group], 1u); /* release: the entry is free before */
}

void cp__waiters_forget(void)
{
    for (unsigned group = 0; group < GROUPS; group++) {
        if (n_waiters[group] != 0)
            memset(groups[group], 0, sizeof groups[group]);
        n_waiters[group] = 0;
    }
    own.entry = NULL;
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
    const unsigned group = group_of_lock(lock);
    uint32_t left = cp_load_relaxed(&n_waiters[group]); /* relaxed: a hint */
    uint64_t now;

    found->n = 0;
    /* who has interrupted the telling cannot be credited, and leaves the time to the next one */
    if (left == 0 || cp__teller.state != CP__TELLING_NONE)
        return;
    now = cp__tellers->now();
    for (unsigned i = 0; i < CP__WAITERS_OF_LOCK && left > 0; i++) {
        struct lock_waiter *entry = &groups[group][i];
        /* acquire: pairs with the release in cp__waiter_begin() */
        const uintptr_t taken = cp_load_acquire(&entry->lock);

        left -= taken != 0;
        if (taken == (uintptr_t)lock)
            take_wait(entry, lock, now, found);
    }
}
