/* Stacks as a tree: the functions that were called by one path. */
#ifndef COUNTERPOINT_CMD_REPORT_TREE_H
#define COUNTERPOINT_CMD_REPORT_TREE_H

#include "graph.h"

/* A function called by one path. The tree's root, which is number 0, is no function. */
struct tree_node {
    size_t function; /* index of the graph's node */
    size_t parent;
    size_t first_child, n_children; /* the children are adjacent, the heaviest first */
    int64_t flat, cum;
};

struct tree {
    struct graph graph; /* for the names of functions */
    struct tree_node *nodes;
    size_t n, room;
    struct cp__tuples paths; /* parent, function; the number is that of the node less 1 */
};

/* Makes a tree of all stacks, from their outermost functions on. The profile must outlive the tree. */
void tree_of_calls(struct tree *tree, const struct profile *profile, size_t type);
/* Makes a tree of what leads to the functions that are marked, by their indices in the graph: below the root
 * are these functions, below each function its callers. Only the innermost marked function of a stack counts,
 * so a function that calls itself is among its own callers. `tree` has a graph already. */
void tree_of_callers(struct tree *tree, const bool *is_marked);
void tree_free(struct tree *tree);

const char *tree_name(const struct tree *tree, size_t node);

/* Returns the node after this one in the order from parents to children, or past this one's children if it
 * is closed. Returns 0 after the last one. */
size_t tree_next(const struct tree *tree, size_t node, bool is_closed);

#endif
