/* See frequency.h. The unknowns are the flows of the edges. */
#include "frequency.h"

#include <math.h>
#include <string.h>

/* How far a block's own word may be off, as a part of it: for long blocks, and so many cycles more. */
#define OFF 0.2
#define OFF_CYCLES 0.5
/* How far it may be off if the cycles are a guess. */
#define OFF_GUESS 1.0
/* Too much is so many times likelier to be said than too little. */
#define STALL 4.0
/* No block is trusted more than to this part of the highest frequency. */
#define SHARPEST 0.002
/* What comes in differs from what goes out by a small part of what the sharpest block may be off. */
#define CONSERVATION 100.0

enum { ROUNDS = 12 };

struct solver {
    const struct flow_graph *graph;
    double *said, *weight;   /* of each block */
    double conservation;     /* the weight of what comes in less what goes out */
    double *in, *out;        /* of each block; scratch */
    double *flow;            /* of each edge */
    bool *is_zero;           /* of each edge: the flow would be negative */
    double *rest, *way, *go; /* of each edge; scratch */
};

/* ---- What the blocks say --------------------------------------------------------------------- */

static double variance_of(const struct frequency_block *block, double highest)
{
    const double said = block->samples / block->cycles;
    const double off = said * (block->is_measured ? OFF + OFF_CYCLES / block->cycles : OFF_GUESS);
    const double sharpest = highest * SHARPEST;

    return (block->samples + 1) / (block->cycles * block->cycles) + off * off + sharpest * sharpest;
}

static void hear_blocks(struct solver *solver, const struct frequency_block *blocks)
{
    double highest = 0, most = 0;

    for (size_t i = 0; i < solver->graph->n; i++) {
        solver->said[i] = blocks[i].samples / blocks[i].cycles;
        highest = fmax(highest, solver->said[i]);
    }
    for (size_t i = 0; i < solver->graph->n; i++) {
        solver->weight[i] = 1 / variance_of(&blocks[i], highest);
        if (solver->in[i] + solver->out[i] < 2 * solver->said[i])
            solver->weight[i] /= STALL;
        most = fmax(most, solver->weight[i]);
    }
    solver->conservation = CONSERVATION * most;
}

/* ---- Least squares --------------------------------------------------------------------------- */

static void sum_flows(struct solver *solver, const double *flow)
{
    const struct flow_graph *graph = solver->graph;

    memset(solver->in, 0, (graph->n + 1) * sizeof *solver->in);
    memset(solver->out, 0, (graph->n + 1) * sizeof *solver->out);
    for (size_t i = 0; i < graph->n_edges; i++) {
        solver->out[graph->edges[i].from] += flow[i];
        solver->in[graph->edges[i].to] += flow[i];
    }
}

/* Stores the product of the normal equations' matrix and the flows. */
static void multiply(struct solver *solver, const double *flow, double *product)
{
    const struct flow_graph *graph = solver->graph;

    sum_flows(solver, flow);
    for (size_t i = 0; i < graph->n_edges; i++) {
        const size_t from = graph->edges[i].from, to = graph->edges[i].to;
        double sum = 0;

        if (from < graph->n)
            sum += solver->weight[from] * solver->out[from] +
                   solver->conservation * (solver->out[from] - solver->in[from]);
        if (to < graph->n)
            sum += solver->weight[to] * solver->in[to] +
                   solver->conservation * (solver->in[to] - solver->out[to]);
        product[i] = solver->is_zero[i] ? 0 : sum;
    }
}

/* Returns an element of the right side. */
static double right_side_of(const struct solver *solver, const struct flow_edge *edge)
{
    const size_t n = solver->graph->n;

    return (edge->from < n ? solver->weight[edge->from] * solver->said[edge->from] : 0) +
           (edge->to < n ? solver->weight[edge->to] * solver->said[edge->to] : 0);
}

/* Returns an element of the matrix's diagonal. */
static double diagonal_of(const struct solver *solver, const struct flow_edge *edge)
{
    const size_t n = solver->graph->n;
    const double conservation = edge->from == edge->to ? 0 : solver->conservation;

    return (edge->from < n ? solver->weight[edge->from] + conservation : 0) +
           (edge->to < n ? solver->weight[edge->to] + conservation : 0);
}

/* Starts the search: stores what is left of the right side, and returns its square. */
static double begin_search(struct solver *solver)
{
    const struct flow_graph *graph = solver->graph;
    double square = 0;

    multiply(solver, solver->flow, solver->go);
    for (size_t i = 0; i < graph->n_edges; i++) {
        const double diagonal = diagonal_of(solver, &graph->edges[i]);

        solver->rest[i] = solver->is_zero[i] ? 0 : right_side_of(solver, &graph->edges[i]) - solver->go[i];
        solver->way[i] = solver->rest[i] / diagonal;
        square += solver->rest[i] * solver->way[i];
    }
    return square;
}

/* One step of the search by conjugate gradients, with the diagonal as the preconditioner. */
static double step_search(struct solver *solver, double square)
{
    const struct flow_graph *graph = solver->graph;
    double along = 0, next = 0;

    multiply(solver, solver->way, solver->go);
    for (size_t i = 0; i < graph->n_edges; i++)
        along += solver->way[i] * solver->go[i];
    for (size_t i = 0; i < graph->n_edges && along > 0; i++) {
        solver->flow[i] += square / along * solver->way[i];
        solver->rest[i] -= square / along * solver->go[i];
        next += solver->rest[i] * solver->rest[i] / diagonal_of(solver, &graph->edges[i]);
    }
    for (size_t i = 0; i < graph->n_edges; i++)
        solver->way[i] =
            solver->rest[i] / diagonal_of(solver, &graph->edges[i]) + next / square * solver->way[i];
    return next;
}

static void search_flows(struct solver *solver)
{
    const size_t most = 10 * solver->graph->n_edges + 200;
    double square = begin_search(solver);
    const double enough = square * 1e-18;

    for (size_t i = 0; i < most && square > enough && square > 0; i++)
        square = step_search(solver, square);
}

/* Sets negative flows to 0 for good. Returns whether there was any. */
static bool drop_negative(struct solver *solver)
{
    bool is_any = false;

    for (size_t i = 0; i < solver->graph->n_edges; i++) {
        if (solver->is_zero[i] || solver->flow[i] >= 0)
            continue;
        solver->is_zero[i] = is_any = true;
        solver->flow[i] = 0;
    }
    return is_any;
}

/* ---- All ------------------------------------------------------------------------------------- */

static void make_solver(struct solver *solver, const struct flow_graph *graph, struct arena *arena)
{
    double **of_blocks[] = {&solver->said, &solver->weight, &solver->in, &solver->out};
    double **of_edges[] = {&solver->flow, &solver->rest, &solver->way, &solver->go};

    solver->graph = graph;
    for (size_t i = 0; i < sizeof of_blocks / sizeof of_blocks[0]; i++)
        *of_blocks[i] = arena_array(arena, graph->n + 1, sizeof(double));
    for (size_t i = 0; i < sizeof of_edges / sizeof of_edges[0]; i++)
        *of_edges[i] = arena_array(arena, graph->n_edges, sizeof(double));
    solver->is_zero = arena_array(arena, graph->n_edges, sizeof *solver->is_zero);
    for (size_t i = 0; i < graph->n; i++)
        solver->in[i] = solver->out[i] = INFINITY; /* at first, nobody says too much */
}

void frequency_estimate(const struct flow_graph *graph, struct frequency_block *blocks)
{
    struct arena arena = {0};
    struct solver solver;

    make_solver(&solver, graph, &arena);
    for (int round = 0; round < ROUNDS; round++) {
        hear_blocks(&solver, blocks);
        memset(solver.is_zero, 0, graph->n_edges * sizeof *solver.is_zero);
        do
            search_flows(&solver);
        while (drop_negative(&solver));
        sum_flows(&solver, solver.flow);
    }
    for (size_t i = 0; i < graph->n; i++)
        blocks[i].frequency = (solver.in[i] + solver.out[i]) / 2;
    arena_free(&arena);
}
