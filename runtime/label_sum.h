/*
 * Sums of accounts by label set.
 *
 * Each label set has one sum, whatever object has the set; a sum is never freed. An account points at the sum
 * of its G's labels, and its values go there if the labels change and if the G ends: a switch of Gs costs
 * nothing more. A reader adds what the accounts of those who live have and the sums do not.
 *
 * A value is first noted as summed in its account, and then added to the sum. A reader reads the sums first,
 * and then the accounts. So it may miss what moves meanwhile, and finds nothing twice. Because it tells the
 * most that any reader has found, nothing that is told falls.
 */
#ifndef COUNTERPOINT_RUNTIME_LABEL_SUM_H
#define COUNTERPOINT_RUNTIME_LABEL_SUM_H

#include "g_account.h"
#include "label.h"

/* How many label sets have a sum of their own. What has other labels adds to one more: that of the
 * rest. */
#define CP__LABEL_SUMS_MAX 10000u

/* The sum of the empty set. */
extern struct cp__label_sum cp__label_sum_of_none;

struct cp__label_sum *cp__label_sum_find(struct cp_labels *labels);
/* Returns the sum of the accounts that have these labels. NULL: none. */
static inline struct cp__label_sum *cp__label_sum_of(struct cp_labels *labels)
{
    struct cp__label_sum *sum;

    if (labels == NULL)
        return &cp__label_sum_of_none;
    sum = cp_load_acquire(&labels->sum); /* pairs with the release in cp__label_sum_find() */
    return sum != NULL ? sum : cp__label_sum_find(labels);
}

/* The account's G, which the calling thread has, gets these labels. m is the calling thread's, or NULL; so
 * below. */
void cp__account_relabel(struct cp__m *m, struct cp__account *account, struct cp_labels *labels);
/* The account's G, or thread, has ended: sums its values, and frees it. */
void cp__account_close(struct cp__m *m, struct cp__account *account);

/* In the child of a fork: all sums begin anew. */
void cp__label_sums_forget(void);

#endif
