/* Sums of accounts by label set: which there are, and what adds to them. */
#include "label_sum.h"

#include <stdlib.h>
#include <string.h>

#include "label_sum_part.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/table.h"
#include "ticks.h"

/* Open addressing, two thirds full at most. Entries are never removed. */
#define SLOTS 16384u
_Static_assert(CP__LABEL_SUMS_MAX <= SLOTS / 3 * 2, "a search ends soon");

static struct cp__label_sum_part part_of_none, part_of_rest;
struct cp__label_sum cp__label_sum_of_none = {.parts = {&part_of_none}};
struct cp__label_sum cp__label_sum_of_rest = {.parts = {&part_of_rest}};

static struct cp__label_sum *slots[SLOTS]; /* each is written once, with release */
static struct {
    struct cp__lock lock;
    size_t n;                   /* under the lock */
    struct cp__label_sum *last; /* under the lock */
} sums = {.lock = CP__LOCK_INIT(CP__RANK_LABEL_SUMS), .last = &cp__label_sum_of_none};

/* ---- Which sums there are -------------------------------------------------------------------- */

/* Returns the slot that has the sum of these labels, or is free for it. */
static struct cp__label_sum **slot_of(const struct cp_labels *labels, uint32_t hash)
{
    const struct cp__label_sum *sum;
    size_t at = hash % SLOTS;

    /* acquire: pairs with the release in add_sum() */
    while ((sum = cp_load_acquire(&slots[at])) != NULL &&
           (sum->hash != hash || !cp__labels_are_same(sum->labels, labels)))
        at = (at + 1) % SLOTS;
    return &slots[at];
}

/* Returns a set of its own with the same labels: nobody else's is kept for ever. NULL: no memory. */
static struct cp_labels *copy_labels(const struct cp_labels *labels)
{
    struct cp_labels *copy = NULL, *more;

    for (size_t i = 0; i < labels->count; i++) {
        int result = cp__labels_with(copy, labels->items[i].key, labels->items[i].value, &more);

        cp_labels_unref(copy);
        copy = more;
        if (result < 0)
            return NULL;
    }
    return copy;
}

static struct cp__label_sum *new_sum(const struct cp_labels *labels, uint32_t hash)
{
    struct cp__label_sum *sum = calloc(1, sizeof *sum);

    if (sum == NULL)
        return NULL;
    sum->hash = hash;
    sum->labels = copy_labels(labels);
    if (sum->labels != NULL)
        return sum;
    free(sum);
    return NULL;
}

/* Under the lock. */
static struct cp__label_sum *add_sum(const struct cp_labels *labels, uint32_t hash)
{
    struct cp__label_sum **slot = slot_of(labels, hash); /* another thread may have been faster */
    struct cp__label_sum *sum = *slot;

    if (sum != NULL || sums.n >= CP__LABEL_SUMS_MAX)
        return sum;
    sum = new_sum(labels, hash);
    if (sum == NULL)
        return NULL;
    cp_store_release(slot, sum);             /* pairs with the acquire in slot_of() */
    cp_store_release(&sums.last->next, sum); /* pairs with the acquires of those who walk the list */
    sums.last = sum;
    sums.n++;
    return sum;
}

struct cp__label_sum *cp__label_sum_find(struct cp_labels *labels)
{
    const uint32_t hash = cp__labels_hash(labels);
    struct cp__label_sum *sum = cp_load_acquire(slot_of(labels, hash)); /* as in slot_of() */

    if (sum == NULL) {
        cp__fork_delay(); /* a child must find the list whole */
        cp__lock(&sums.lock);
        sum = add_sum(labels, hash);
        cp__unlock(&sums.lock);
        cp__fork_allow();
    }
    if (sum == NULL)
        sum = &cp__label_sum_of_rest;
    cp_store_release(&labels->sum, sum); /* pairs with the acquire in cp__label_sum_of() */
    return sum;
}

/* ---- What adds to them ----------------------------------------------------------------------- */

/* What an account has that its sum has not. */
struct change {
    uint64_t running, runnable, switches;
    uint32_t reasons; /* a bit for each reason of which something is below */
    uint64_t waited[CP_WAIT_REASONS];
    uint64_t waits[CP_WAIT_REASONS];
};

/* Notes the value as summed, and returns by how much it has grown. Stamps of two CPUs may differ by some ns.
 */
static uint64_t take_growth(uint64_t value, uint64_t *summed)
{
    const uint64_t before = cp_load_relaxed(summed); /* relaxed, both: within a change of the account */
    const uint64_t growth = (int64_t)(value - before) > 0 ? value - before : 0;

    if (growth > 0)
        cp_store_relaxed(summed, before + growth);
    return growth;
}

/* Takes what is not summed, up to now, out of the account, whose state goes on. Within a change. */
static void take_change(struct cp__account *account, uint64_t now, struct change *change)
{
    const uint64_t lasted = (int64_t)(now - account->since) > 0 ? now - account->since : 0;
    const struct cp__account_values *values = &account->values;
    struct cp__account_values *summed = &account->summed;
    const bool waits = account->state == CP__G_WAITING;

    change->running =
        take_growth(values->running + (account->state == CP__G_RUNNING ? lasted : 0), &summed->running);
    change->runnable =
        take_growth(values->runnable + (account->state == CP__G_RUNNABLE ? lasted : 0), &summed->runnable);
    change->switches = take_growth(values->switches, &summed->switches);
    change->reasons = account->unsummed | (waits ? 1u << account->reason : 0);
    account->unsummed = 0;
    account->waited_for |= change->reasons;
    for (uint32_t left = change->reasons; left != 0; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctz(left);
        const uint64_t unended = waits && i == account->reason ? lasted : 0;

        change->waited[i] = take_growth(values->waited[i] + unended, &summed->waited[i]);
        change->waits[i] = take_growth(values->waits[i], &summed->waits[i]);
    }
}

static void add_growth(uint64_t *to, uint64_t value)
{
    if (value > 0)
        cp_fetch_add_relaxed(to, value); /* relaxed: see add_change() */
}

static void add_change(struct cp__label_sum *sum, const struct cp__m *m, const struct change *change)
{
    struct cp__account_values *to = &cp__label_sum_part(sum, m)->values;

    /* A reader that sees the additions sees in the account what is noted as summed: pairs with the fence in
     * find_in_all(), label_sum_read.c. */
    cp_fence_release();
    add_growth(&to->running, change->running);
    add_growth(&to->runnable, change->runnable);
    add_growth(&to->switches, change->switches);
    for (uint32_t left = change->reasons; left != 0; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctz(left);

        add_growth(&to->waited[i], change->waited[i]);
        add_growth(&to->waits[i], change->waits[i]);
    }
}

/* Sums what is not summed yet; the account adds to `to` from now on. */
static void move_account(struct cp__m *m, struct cp__account *account, uint64_t now, struct cp__label_sum *to)
{
    struct cp__label_sum *from = account->sum;
    struct change change;

    cp__account_begin_change(account);
    take_change(account, now, &change);
    cp_store_relaxed(&account->sum, to); /* relaxed: within a change */
    cp__account_end_change(account);
    if (from != NULL)
        add_change(from, m, &change);
}

void cp__account_relabel(struct cp__m *m, struct cp__account *account, struct cp_labels *labels)
{
    struct cp__label_sum *to = cp__label_sum_of(labels);

    if (to != account->sum)
        move_account(m, account, cp__account_now_early(), to);
}

void cp__account_close(struct cp__m *m, struct cp__account *account)
{
    struct cp__label_sum *sum = account->sum;
    const bool has_just_left =
        m != NULL && m->head.left_at == account->since && account->state == CP__G_RUNNABLE;

    /* A G that has left this M, which has run nothing since, has ended then. */
    move_account(m, account, has_just_left ? account->since : cp__account_now_early(), NULL);
    if (sum != NULL && account->state != CP__G_DORMANT)
        cp_fetch_add_relaxed(&cp__label_sum_part(sum, m)->ended, 1); /* relaxed: a count of its own */
    cp__account_free(m, account);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

struct cp__label_sum_part *cp__label_sum_new_part(struct cp__label_sum_part **place)
{
    struct cp__label_sum_part *none = NULL, *part = aligned_alloc(CP__LABEL_SUM_ALIGNMENT, sizeof *part);

    if (part == NULL)
        return &part_of_rest;
    memset(part, 0, sizeof *part);
    if (cp_compare_exchange(place, &none, part)) /* pairs with the acquires of those who use the part */
        return part;
    free(part);
    return none;
}

/* ---- In the child of a fork ------------------------------------------------------------------ */

void cp__label_sums_forget_writers(void)
{
    cp__lock_reset(&sums.lock);
    for (struct cp__label_sum *sum = &cp__label_sum_of_none; sum != NULL; sum = cp__label_sum_next(sum)) {
        for (unsigned i = 0; i < CP__LABEL_SUM_PARTS; i++) {
            if (sum->parts[i] != NULL)
                memset(sum->parts[i], 0, sizeof *sum->parts[i]);
        }
    }
}
