/* What a sum of accounts is made of, for those who add and those who read. */
#ifndef COUNTERPOINT_RUNTIME_LABEL_SUM_PART_H
#define COUNTERPOINT_RUNTIME_LABEL_SUM_PART_H

#include "label_sum.h"
#include "runtime/base/lock.h"

/* Ms add to different parts, so that they seldom meet in a cache line. */
#define CP__LABEL_SUM_PARTS 8u
#define CP__LABEL_SUM_ALIGNMENT 64u

/* Any thread adds to the words. */
struct cp__label_sum_part {
    struct cp__account_values values;
    uint64_t ended; /* Gs and threads that had these labels at their end */
} __attribute__((aligned(CP__LABEL_SUM_ALIGNMENT)));

struct cp__label_sum {
    /* Immutable. */
    struct cp_labels *labels; /* NULL: none */
    uint32_t hash;

    /* Shared, atomic. */
    struct cp__label_sum *next;                            /* in the order in which they came */
    struct cp__label_sum_part *parts[CP__LABEL_SUM_PARTS]; /* NULL: nobody has added to it */

    /* Under the readers' lock. */
    struct cp__label_sum_found {
        struct cp__account_values values;
        uint64_t ended;
        uint64_t living[CP__G_DORMANT]; /* by state */
    } found;                            /* by this reader */
    struct cp__account_values told;     /* the most that a reader has found */
};

/* What had no room elsewhere; it is in no list. */
extern struct cp__label_sum cp__label_sum_of_rest;

/* Returns the next one in the list, at whose beginning is cp__label_sum_of_none and at whose end that of the
 * rest; NULL: none. */
static inline struct cp__label_sum *cp__label_sum_next(struct cp__label_sum *sum)
{
    struct cp__label_sum *next =
        cp_load_acquire(&sum->next); /* pairs with the release in add_sum(), label_sum.c */

    return next != NULL || sum == &cp__label_sum_of_rest ? next : &cp__label_sum_of_rest;
}

/* Makes a part that is not there; if there is no memory, returns that of the rest. */
struct cp__label_sum_part *cp__label_sum_new_part(struct cp__label_sum_part **place);
/* Returns the part that m adds to; NULL: the calling thread is no M. */
static inline struct cp__label_sum_part *cp__label_sum_part(struct cp__label_sum *sum, const struct cp__m *m)
{
    struct cp__label_sum_part **place = &sum->parts[m == NULL ? 0 : (unsigned)m->tid % CP__LABEL_SUM_PARTS];
    struct cp__label_sum_part *part = cp_load_acquire(place); /* pairs with the exchange in the next call */

    return part != NULL ? part : cp__label_sum_new_part(place);
}

/* The part of cp__label_sums_forget() that is about those who add. */
void cp__label_sums_forget_writers(void);

#endif
