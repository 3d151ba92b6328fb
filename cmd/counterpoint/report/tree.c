#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/counterpoint/commands.h"
#include "measure.h"

/* ---- Growing --------------------------------------------------------------------------------- */

static size_t child_of(struct tree *tree, size_t parent, size_t function)
{
    uint64_t path[2] = {parent, function};
    uint32_t number;

    if (cp__tuples_add(&tree->paths, path, 2, &number) < 0)
        exit(complain(STATUS_FAILURE, "There is not enough memory for the tree of calls."));
    if (number + 1 == tree->n) {
        tree->nodes = grow_array(tree->nodes, tree->n, &tree->room, sizeof *tree->nodes);
        tree->nodes[tree->n++] = (struct tree_node){.function = function, .parent = parent};
    }
    return number + 1;
}

static void plant(struct tree *tree)
{
    tree->nodes = grow_array(tree->nodes, 0, &tree->room, sizeof *tree->nodes);
    tree->nodes[tree->n++] = (struct tree_node){0};
}

static void add_branch(struct tree *tree, const struct profile_sample *sample)
{
    const int64_t value = sample->values[tree->graph.type];
    size_t at = 0;

    tree->nodes[0].cum += value;
    for (size_t i = sample->n_locations; i > 0; i--) {
        const size_t *functions;

        for (size_t j = graph_location_nodes(&tree->graph, sample->locations[i - 1], &functions); j > 0;
             j--) {
            at = child_of(tree, at, functions[j - 1]);
            tree->nodes[at].cum += value;
        }
    }
    tree->nodes[at].flat += value;
}

/* Adds what leads to the innermost marked function of a stack. */
static void add_callers(struct tree *tree, const struct profile_sample *sample, const bool *is_marked)
{
    const int64_t value = sample->values[tree->graph.type];
    size_t at = 0;

    for (size_t i = 0; i < sample->n_locations; i++) {
        const size_t *functions;
        size_t n = graph_location_nodes(&tree->graph, sample->locations[i], &functions);

        for (size_t j = 0; j < n; j++) {
            if (at == 0 && !is_marked[functions[j]])
                continue;
            at = child_of(tree, at, functions[j]);
            tree->nodes[at].cum += value;
        }
    }
    if (at == 0)
        return;
    tree->nodes[0].cum += value;
    tree->nodes[at].flat += value;
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* A node on its way to its place among its siblings. */
struct placed {
    const struct tree *tree;
    size_t old;
};

static int by_place(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    const struct tree_node *m = &x->tree->nodes[x->old], *n = &y->tree->nodes[y->old];
    int64_t u = measure_abs(m->cum), v = measure_abs(n->cum);

    if (m->parent != n->parent)
        return m->parent < n->parent ? -1 : 1;
    if (u != v)
        return u > v ? -1 : 1;
    return strcmp(tree_name(x->tree, x->old), tree_name(y->tree, y->old));
}

/* Links the parents to their children, which the order has made adjacent. */
static void link_children(struct tree *tree)
{
    for (size_t i = 1; i < tree->n; i++) {
        struct tree_node *parent = &tree->nodes[tree->nodes[i].parent];

        if (parent->n_children++ == 0)
            parent->first_child = i;
    }
}

/* Sorts siblings. The root stays the first. */
static void sort_tree(struct tree *tree)
{
    struct placed *order = calloc(tree->n, sizeof *order);
    size_t *place = calloc(tree->n, sizeof *place);
    struct tree_node *sorted = calloc(tree->n, sizeof *sorted);

    if (order == NULL || place == NULL || sorted == NULL)
        exit(complain(STATUS_FAILURE, "There is not enough memory for the tree of calls."));
    for (size_t i = 0; i < tree->n; i++)
        order[i] = (struct placed){tree, i};
    qsort(order + 1, tree->n - 1, sizeof *order, by_place);
    for (size_t i = 0; i < tree->n; i++)
        place[order[i].old] = i;
    for (size_t i = 0; i < tree->n; i++) {
        sorted[i] = tree->nodes[order[i].old];
        sorted[i].parent = place[sorted[i].parent];
    }
    free(tree->nodes);
    free(order);
    free(place);
    tree->nodes = sorted;
    link_children(tree);
}

/* ---- Trees ----------------------------------------------------------------------------------- */

void tree_of_calls(struct tree *tree, const struct profile *profile, size_t type)
{
    *tree = (struct tree){0};
    graph_init(&tree->graph, profile, type);
    plant(tree);
    for (size_t i = 0; i < profile->n_samples; i++) {
        if (profile->samples[i].values[type] != 0)
            add_branch(tree, &profile->samples[i]);
    }
    sort_tree(tree);
}

void tree_of_callers(struct tree *tree, const bool *is_marked)
{
    const struct profile *profile = tree->graph.profile;

    plant(tree);
    for (size_t i = 0; i < profile->n_samples; i++) {
        if (profile->samples[i].values[tree->graph.type] != 0)
            add_callers(tree, &profile->samples[i], is_marked);
    }
    sort_tree(tree);
}

void tree_free(struct tree *tree)
{
    free(tree->nodes);
    cp__tuples_free(&tree->paths);
    graph_free(&tree->graph);
}

const char *tree_name(const struct tree *tree, size_t node)
{
    return tree->graph.nodes[tree->nodes[node].function].name;
}

size_t tree_next(const struct tree *tree, size_t node, bool is_closed)
{
    if (!is_closed && tree->nodes[node].n_children > 0)
        return tree->nodes[node].first_child;
    for (; node != 0; node = tree->nodes[node].parent) {
        const struct tree_node *parent = &tree->nodes[tree->nodes[node].parent];

        if (node + 1 < parent->first_child + parent->n_children)
            return node + 1;
    }
    return 0;
}
