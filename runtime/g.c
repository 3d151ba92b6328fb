/* Gs, and their labels. */
#include <errno.h>
#include <string.h>

#include "g_account.h"
#include "label.h"
#include "label_sum.h"
#include "rounds.h"
#include "runtime.h"
#include "ticks.h"

/* Programs have the struct in objects of their own: members may only take the place of the four words that
 * were reserved in version 0.1. See abi/growth.abignore. */
_Static_assert(sizeof(struct cp_g) == 4 * sizeof(void *) + 2 * sizeof(uint64_t) + 3 * sizeof(void *) &&
                   offsetof(struct cp_g, rounds) == 2 * sizeof(uint64_t) + 3 * sizeof(void *),
               "programs that have a G keep its size");

static uint64_t next_g_id; /* shared, atomic */

static uint64_t new_g_id(void)
{
    return cp_fetch_add_relaxed(&next_g_id, 1u) + 1; /* relaxed: only uniqueness counts */
}

static struct cp__account *new_account(const struct cp_g *g, const struct cp_g *parent)
{
    return cp__account_new(cp__m_current, g->id, CP__G_RUNNABLE, cp__account_now_early(),
                           cp__label_sum_of(parent == NULL ? NULL : parent->labels));
}

void cp_g_init(struct cp_g *g, void *stack_lo, void *stack_hi, const struct cp_g *parent)
{
    g->id = new_g_id();
    g->parent_id = parent == NULL ? 0 : parent->id;
    g->stack_lo = (uintptr_t)stack_lo;
    g->stack_hi = (uintptr_t)stack_hi;
    g->rounds = g->counts = NULL;
    memset(g->reserved, 0, sizeof g->reserved);
    /* relaxed, both: a list of Gs looks afterwards whether it is the same G; and as in cp_execute() */
    cp_store_relaxed(&g->account, cp_load_relaxed(&cp_accounting) != 0 ? new_account(g, parent) : NULL);
    /* pairs with the acquire in cp_g_labels() */
    cp_store_release(&g->labels, parent == NULL ? NULL : cp_labels_ref(parent->labels));
}

void cp_g_fini(struct cp_g *g)
{
    struct cp_labels *labels = g->labels;

    if (g->rounds != NULL || g->counts != NULL)
        cp__watch_calls_get()->end_g(g);
    if (g->account != NULL)
        cp__account_close(cp__m_current, g->account);
    cp_store_relaxed(&g->account, NULL); /* relaxed: as in cp_g_init() */
    cp_store_relaxed(&g->labels, NULL);  /* relaxed: see let_finish() */
    cp_labels_unref(labels);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

/* Replaces the labels of g. The handler on this thread sees the old set or the new one, and g still holds
 * a reference to whichever the handler sees. */
static void replace_labels(struct cp_g *g, struct cp_labels *labels)
{
    struct cp_labels *old = g->labels;

    if (g->account != NULL)
        cp__account_relabel(cp__m_current, g->account, labels);
    cp_store_release(&g->labels, labels); /* pairs with the acquire in cp_g_labels() */
    cp_fence_signal();
    cp_labels_unref(old);
}

static int set_label(struct cp_g *g, const char *key, const char *value)
{
    struct cp_labels *labels;
    int result;

    if (g == NULL)
        return -ESRCH;
    if (key == NULL || key[0] == '\0' || strncmp(key, "pprof::", 7) == 0)
        return -EINVAL;
    result = cp__labels_with(g->labels, key, value, &labels);
    if (result == 0)
        replace_labels(g, labels);
    return result;
}

int cp_label_set(const char *key, const char *value)
{
    return set_label(cp_g_self(), key, value);
}

struct cp_label_scope cp_label_begin(const char *key, const char *value)
{
    struct cp_g *g = cp_g_self();
    struct cp_label_scope scope = {.g = g, .outer = g == NULL ? NULL : cp_labels_ref(g->labels)};

    scope.error = set_label(g, key, value);
    return scope;
}

struct cp_label_scope cp_labels_begin(const struct cp_label *labels, size_t n)
{
    struct cp_g *g = cp_g_self();
    struct cp_label_scope scope = {.g = g, .outer = g == NULL ? NULL : cp_labels_ref(g->labels)};

    scope.error = g == NULL ? -ESRCH : 0;
    for (size_t i = 0; i < n && scope.error == 0; i++)
        scope.error = set_label(g, labels[i].key, labels[i].value);
    if (scope.error < 0 && g != NULL)
        replace_labels(g, cp_labels_ref(scope.outer)); /* no label was set */
    return scope;
}

const char *cp_label_get(const char *key)
{
    const struct cp_g *g = cp_g_self();
    const struct cp_labels *labels = g == NULL ? NULL : g->labels;

    for (size_t i = 0; i < cp_labels_count(labels); i++) {
        if (strcmp(labels->items[i].key, key) == 0)
            return labels->items[i].value;
    }
    return NULL;
}

void cp_label_end(struct cp_label_scope *scope)
{
    if (scope->g != NULL)
        replace_labels(scope->g, scope->outer); /* gives the scope's reference back to the G */
    scope->g = NULL;
}
