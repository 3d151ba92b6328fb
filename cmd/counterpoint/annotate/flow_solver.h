/* Finds the flows in a network that are next to what is wanted, by weighted squares, and keep to its rules:
 * as much comes into each node as goes out of it, and no flow is negative. */
#ifndef COUNTERPOINT_CMD_ANNOTATE_FLOW_SOLVER_H
#define COUNTERPOINT_CMD_ANNOTATE_FLOW_SOLVER_H

#include <stddef.h>

#include "cmd/counterpoint/report/arena.h"

/* Flows and wishes are best of the order of 1. */
struct flow_arc {
    size_t from, to;       /* nodes; the number of nodes stands for the world outside, which has no rule */
    double wanted, weight; /* weight 0: whatever it is */
    double flow;           /* what was found */
    double price, step;    /* scratch: of a flow that must not be negative, and the way to the next flow */
};

/* The arena takes the scratch memory. */
void flow_solve(struct flow_arc *arcs, size_t n_arcs, size_t n_nodes, struct arena *arena);

#endif
