/* Sums of accounts by label set: reading them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "account.h"
#include "label_sum_part.h"
#include "runtime/base/sized.h"
#include "ticks.h"

static struct cp__lock reading = CP__LOCK_INIT(CP__RANK_LABEL_SUMS_READ);

void cp__label_sums_forget(void)
{
    cp__lock_reset(&reading);
    cp__label_sums_forget_writers();
    for (struct cp__label_sum *sum = &cp__label_sum_of_none; sum != NULL; sum = cp__label_sum_next(sum))
        memset(&sum->told, 0, sizeof sum->told);
}

/* ---- Finding what there is ------------------------------------------------------------------- */

#define N_VALUES (sizeof(struct cp__account_values) / sizeof(uint64_t))

static void find_in_sum(struct cp__label_sum *sum)
{
    uint64_t *to = (uint64_t *)&sum->found.values;

    sum->found = (struct cp__label_sum_found){.ended = 0};
    for (unsigned i = 0; i < CP__LABEL_SUM_PARTS; i++) {
        /* acquire: pairs with the exchange in cp__label_sum_new_part() */
        const struct cp__label_sum_part *part = cp_load_acquire(&sum->parts[i]);
        const uint64_t *from;

        if (part == NULL)
            continue;
        from = (const uint64_t *)&part->values;
        for (size_t word = 0; word < N_VALUES; word++)
            to[word] += cp_load_relaxed(&from[word]); /* relaxed, both: see find_in_all() */
        sum->found.ended += cp_load_relaxed(&part->ended);
    }
}

/* Adds what an account has that the sums have not. */
static int find_in_account(void *context, const struct cp__account_copy *copy)
{
    const uint64_t now = *(const uint64_t *)context;
    struct cp__account_copy grown = *copy;
    const uint64_t *values = (const uint64_t *)&grown.values, *summed = (const uint64_t *)&grown.summed;
    struct cp__label_sum *sum = copy->sum;
    uint64_t *to;

    if (sum == NULL)
        return 0;
    cp__account_advance(&grown, now);
    to = (uint64_t *)&sum->found.values;
    for (size_t word = 0; word < N_VALUES; word++)
        to[word] += (int64_t)(values[word] - summed[word]) > 0 ? values[word] - summed[word] : 0;
    sum->found.living[copy->state]++;
    return 0;
}

/* Under the lock. Returns how many sums there are. */
static size_t find_in_all(void)
{
    uint64_t now;
    size_t n = 0;

    for (struct cp__label_sum *sum = &cp__label_sum_of_none; sum != NULL; sum = cp__label_sum_next(sum))
        find_in_sum(sum);
    cp_fence_acquire(); /* pairs with the fence in add_change(), label_sum.c */
    now = cp__account_now();
    cp__accounts_each(find_in_account, &now);
    for (struct cp__label_sum *sum = &cp__label_sum_of_none; sum != NULL; sum = cp__label_sum_next(sum))
        n++;
    return n;
}

/* ---- Telling --------------------------------------------------------------------------------- */

/* What is told of a sum, once the lock is free again. */
struct told {
    struct cp_labels *labels;
    bool is_rest;
    struct cp__label_sum_found found;
};

static void tell_sum(struct cp__label_sum *sum, struct told *told)
{
    const uint64_t *found = (const uint64_t *)&sum->found.values;
    uint64_t *most = (uint64_t *)&sum->told;

    for (size_t word = 0; word < N_VALUES; word++)
        most[word] = found[word] > most[word] ? found[word] : most[word];
    *told = (struct told){sum->labels, sum == &cp__label_sum_of_rest, sum->found};
    told->found.values = sum->told;
}

/* Returns what there is in a new array; NULL: no memory. */
static struct told *tell_all(size_t *n)
{
    struct told *all, *told;

    cp__lock(&reading);
    *n = find_in_all();
    all = told = malloc(*n * sizeof *all);
    if (all != NULL) {
        struct cp__label_sum *sum = &cp__label_sum_of_none;

        for (size_t i = 0; i < *n - 1; i++, sum = cp__label_sum_next(sum))
            tell_sum(sum, told++);
        tell_sum(&cp__label_sum_of_rest, told); /* behind those that have come since */
    }
    cp__unlock(&reading);
    return all;
}

static int pass_sum(const struct told *told, cp_accounts_fn *fn, void *context)
{
    const struct cp__label_sum_found *found = &told->found;
    struct cp_account sum = {.size = sizeof sum};
    const uint64_t living = found->living[CP__G_RUNNING] + found->living[CP__G_RUNNABLE] +
                            found->living[CP__G_WAITING] + found->living[CP__G_AWAY];
    const struct cp_accounts_info info = {.size = sizeof info,
                                          .labels = told->labels,
                                          .is_rest = told->is_rest,
                                          .sum = &sum,
                                          .running = found->living[CP__G_RUNNING],
                                          .runnable = found->living[CP__G_RUNNABLE],
                                          .waiting = found->living[CP__G_WAITING],
                                          .ended = found->ended};

    cp__account_tell(&found->values, found->ended + living, &sum);
    return sum.gs == 0 && sum.lifetime_ns == 0 ? 0 : fn(context, &info);
}

int cp_accounts_each(cp_accounts_fn *fn, void *context)
{
    struct told *all;
    int result = 0;
    size_t n;

    cp__ticks_measure();
    all = tell_all(&n);
    if (all == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n && result == 0; i++)
        result = pass_sum(&all[i], fn, context);
    free(all);
    return result;
}

static int add_to_total(void *context, const struct cp_accounts_info *info)
{
    struct cp_account *total = context;
    const struct cp_account *sum = info->sum;

    total->gs += sum->gs;
    total->lifetime_ns += sum->lifetime_ns;
    total->running_ns += sum->running_ns;
    total->runnable_ns += sum->runnable_ns;
    total->waiting_ns += sum->waiting_ns;
    total->switches += sum->switches;
    for (unsigned i = 0; i < CP_WAIT_REASONS; i++) {
        total->waited_ns[i] += sum->waited_ns[i];
        total->waits[i] += sum->waits[i];
    }
    return 0;
}

int cp_accounts_total(struct cp_account *total)
{
    struct cp_account read = {.size = sizeof read};
    int result = cp__struct_check(total, "struct cp_account", NULL);

    if (result == 0)
        result = cp_accounts_each(add_to_total, &read);
    return result < 0 ? result : CP__GIVE(cp_account, total, &read, NULL);
}
