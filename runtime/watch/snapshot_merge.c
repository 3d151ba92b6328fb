/*
 * Snapshots: merging.
 *
 * The sum of two snapshots is made anew, so that memory that runs out changes nothing. A watch of the sum has
 * the quantities of both. If these are more than CP_WATCH_QUANTITIES, or if the keys of labels differ, there
 * are several watches of the name, one behind the other. Then the first one alone has the state.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/fail.h"
#include "snapshot.h"

/* ---- Where a quantity of a watch goes -------------------------------------------------------- */

struct target {
    size_t watch; /* its number in the sum */
    unsigned quantity;
};

static const char *const *const_strings(char *const *strings)
{
    return (const char *const *)strings;
}

/* Orders watches by name, then by keys. */
static int order_of_watches(const struct cp__snapshot_watch *a, const struct cp__snapshot_watch *b)
{
    int order = strcmp(a->name, b->name);

    if (order == 0)
        order = (a->n_keys > b->n_keys) - (a->n_keys < b->n_keys);
    for (size_t i = 0; order == 0 && i < a->n_keys; i++)
        order = strcmp(a->keys[i], b->keys[i]);
    return order;
}

/* Returns the number of the quantity, or n_quantities. */
static unsigned find_quantity(const struct cp__snapshot_watch *watch, const char *name)
{
    unsigned q = 0;

    while (q < watch->n_quantities && strcmp(watch->quantities[q].name, name) != 0)
        q++;
    return q;
}

/* Finds a watch of the sum that is like this one and that has the quantity or, if there is none, has room for
 * it. Returns false if there is neither. */
static bool find_target(const struct cp_watch_snapshot *sum, const struct cp__snapshot_watch *like,
                        const char *name, struct target *target)
{
    bool has_found = false;

    for (size_t i = 0; i < sum->n; i++) {
        const struct cp__snapshot_watch *watch = &sum->watches[i];
        unsigned q;

        if (order_of_watches(watch, like) != 0 || (q = find_quantity(watch, name)) == CP_WATCH_QUANTITIES)
            continue;
        if (q < watch->n_quantities || !has_found)
            *target = (struct target){i, q};
        has_found = true;
        if (q < watch->n_quantities)
            break;
    }
    return has_found;
}

/* Finds or makes the place of quantity q of a watch, which may have no quantities at all. */
static int add_target(struct cp_watch_snapshot *sum, const struct cp__snapshot_watch *like, unsigned q,
                      struct target *target)
{
    struct cp__snapshot_watch *watch;

    if (!find_target(sum, like, like->quantities[q].name, target)) {
        if (cp__snapshot_add_watch(sum, like->name, const_strings(like->keys), like->n_keys) == NULL)
            return -ENOMEM;
        *target = (struct target){sum->n - 1, 0};
        sum->watches[target->watch].is_keyed = like->is_keyed;
    }
    watch = &sum->watches[target->watch];
    if (q < like->n_quantities && target->quantity == watch->n_quantities)
        watch->quantities[watch->n_quantities++] = like->quantities[q];
    return 0;
}

/* ---- Sorting --------------------------------------------------------------------------------- */

/* Time stands before the others. */
static int order_of_quantities(const char *a, const char *b)
{
    const bool a_is_time = strcmp(a, "time") == 0, b_is_time = strcmp(b, "time") == 0;

    return a_is_time != b_is_time ? (int)b_is_time - (int)a_is_time : strcmp(a, b);
}

static void swap_quantities(struct cp__snapshot_watch *watch, unsigned a, unsigned b)
{
    const struct cp__watch_quantity quantity = watch->quantities[a];

    watch->quantities[a] = watch->quantities[b];
    watch->quantities[b] = quantity;
    for (size_t i = 0; i < watch->n_series; i++) {
        struct cp__histogram *histograms = watch->series[i].histograms;
        const struct cp__histogram histogram = histograms[a];

        histograms[a] = histograms[b];
        histograms[b] = histogram;
    }
}

static void sort_quantities(struct cp__snapshot_watch *watch)
{
    for (unsigned i = 1; i < watch->n_quantities; i++) {
        for (unsigned j = i;
             j > 0 && order_of_quantities(watch->quantities[j - 1].name, watch->quantities[j].name) > 0; j--)
            swap_quantities(watch, j - 1, j);
    }
}

static int compare_watches(const void *a, const void *b)
{
    const struct cp__snapshot_watch *x = a, *y = b;
    const int order = order_of_watches(x, y);

    return order != 0 ? order : strcmp(x->quantities[0].name, y->quantities[0].name);
}

static void add_state(struct cp_watch_state *to, const struct cp_watch_state *from)
{
    to->open += from->open;
    to->partial += from->partial;
    to->refused += from->refused;
    to->lost += from->lost;
    to->unknown += from->unknown;
    to->dropped += from->dropped;
}

/* Sorts the watches, and leaves the state of those that have one name to the first one. */
static void sort_watches(struct cp_watch_snapshot *sum)
{
    struct cp__snapshot_watch *first = sum->watches;

    qsort(sum->watches, sum->n, sizeof sum->watches[0], compare_watches);
    for (size_t i = 0; i < sum->n; i++) {
        struct cp__snapshot_watch *watch = &sum->watches[i];

        watch->is_continued = i > 0 && strcmp(watch->name, first->name) == 0;
        if (watch->is_continued) {
            add_state(&first->state, &watch->state);
            watch->state = (struct cp_watch_state){.open = 0};
        } else {
            first = watch;
        }
    }
}

/* ---- Adding ---------------------------------------------------------------------------------- */

static int add_series(struct cp_watch_snapshot *sum, const struct target *targets,
                      const struct cp__snapshot_watch *watch, const struct cp__snapshot_series *from)
{
    int result = 0;

    for (unsigned q = 0; q < watch->n_quantities && result == 0; q++) {
        struct cp__snapshot_series *into =
            cp__snapshot_series_of(&sum->watches[targets[q].watch], const_strings(from->values), from->side);

        result = into == NULL
                     ? -ENOMEM
                     : cp__histogram_merge(&into->histograms[targets[q].quantity], &from->histograms[q]);
    }
    return result;
}

/* Whether the watches have the same quantities in the same order. */
static bool are_alike(const struct cp__snapshot_watch *a, const struct cp__snapshot_watch *b)
{
    unsigned q = 0;

    while (q < a->n_quantities && q < b->n_quantities &&
           strcmp(a->quantities[q].name, b->quantities[q].name) == 0)
        q++;
    return q == a->n_quantities && q == b->n_quantities;
}

static int add_watch(struct cp_watch_snapshot *sum, const struct cp__snapshot_watch *watch)
{
    struct target targets[CP_WATCH_QUANTITIES] = {{0}};
    int result = 0;

    /* A watch that has no quantity has a place, too. */
    for (unsigned q = 0; (q == 0 || q < watch->n_quantities) && result == 0; q++)
        result = add_target(sum, watch, q, &targets[q]);
    for (size_t i = 0; i < watch->n_series && result == 0; i++)
        result = add_series(sum, targets, watch, &watch->series[i]);
    if (result < 0)
        return result;
    for (unsigned q = 0; q < watch->n_quantities; q++) {
        struct cp__snapshot_watch *into = &sum->watches[targets[q].watch];

        if (!are_alike(into, watch))
            sort_quantities(into);
    }
    add_state(&sum->watches[targets[0].watch].state, &watch->state);
    return 0;
}

static int add_snapshot(struct cp_watch_snapshot *sum, const struct cp_watch_snapshot *snapshot)
{
    int result = 0;

    for (size_t i = 0; i < snapshot->n && result == 0; i++)
        result = add_watch(sum, &snapshot->watches[i]);
    return result;
}

int cp_watch_merge(struct cp_watch_snapshot *into, const struct cp_watch_snapshot *from, struct cp_error *err)
{
    struct cp_watch_snapshot *sum = cp__snapshot_new();
    int result = sum == NULL ? -ENOMEM : add_snapshot(sum, into);

    if (result == 0)
        result = add_snapshot(sum, from);
    if (result == 0) {
        const struct cp_watch_snapshot before = *into;

        sort_watches(sum);
        *into = *sum;
        *sum = before;
    }
    cp_watch_snapshot_free(sum);
    return result == 0
               ? 0
               : cp__error(err, result,
                           "The snapshots cannot be merged, because there is no memory. Free some, and "
                           "merge again: neither snapshot has changed.");
}
