/* See frequency.h. The network has two nodes for each block, of which the first leads to the second: what
 * flows between them is the block's frequency. */
#include "frequency.h"

#include <math.h>
#include <string.h>

#include "flow_solver.h"

/* How far a block's own word may be off, as a part of it: for long blocks, and so many cycles more. */
#define OFF 0.2
#define OFF_CYCLES 0.5
/* How far it may be off if the cycles are a guess, and if executions were counted. */
#define OFF_GUESS 1.0
#define OFF_COUNT 0.1
/* Too much is so many times likelier to be said than too little. */
#define STALL 4.0
/* No block is trusted more than to this part of the highest frequency. */
#define SHARPEST 0.002

enum { ROUNDS = 8 };

static double said_by(const struct frequency_block *block)
{
    return block->samples / block->cycles;
}

static double part_off(const struct frequency_block *block)
{
    if (block->source == FREQUENCY_COUNTED)
        return OFF_COUNT;
    return block->source == FREQUENCY_MEASURED ? OFF + OFF_CYCLES / block->cycles : OFF_GUESS;
}

/* The square of what a block's own word may be off. */
static double variance_of(const struct frequency_block *block, double highest)
{
    const double off = said_by(block) * part_off(block);
    const double sharpest = highest * SHARPEST;

    return (block->samples + 1) / (block->cycles * block->cycles) + off * off + sharpest * sharpest;
}

static double highest_of(const struct frequency_block *blocks, size_t n)
{
    double highest = 0;

    for (size_t i = 0; i < n; i++)
        highest = fmax(highest, said_by(&blocks[i]));
    return highest;
}

/* Arcs of the blocks come first, and are followed by those of the edges. */
static struct flow_arc *make_arcs(const struct flow_graph *graph, struct arena *arena)
{
    struct flow_arc *arcs = arena_array(arena, graph->n + graph->n_edges, sizeof *arcs);

    for (size_t i = 0; i < graph->n; i++)
        arcs[i] = (struct flow_arc){.from = 2 * i, .to = 2 * i + 1};
    for (size_t i = 0; i < graph->n_edges; i++) {
        const struct flow_edge *edge = &graph->edges[i];

        arcs[graph->n + i].from = edge->from < graph->n ? 2 * edge->from + 1 : 2 * graph->n;
        arcs[graph->n + i].to = 2 * edge->to;
    }
    return arcs;
}

/* Whoever says more than was found last weighs less: such a block has waited. */
static void hear_blocks(struct flow_arc *arcs, const struct frequency_block *blocks, size_t n, double highest)
{
    for (size_t i = 0; i < n; i++) {
        const double weight = highest * highest / variance_of(&blocks[i], highest);

        arcs[i].wanted = said_by(&blocks[i]) / highest;
        arcs[i].weight = weight;
        if (arcs[i].flow < arcs[i].wanted && blocks[i].source != FREQUENCY_COUNTED)
            arcs[i].weight /= STALL;
    }
}

void frequency_estimate(const struct flow_graph *graph, struct frequency_block *blocks)
{
    const double highest = highest_of(blocks, graph->n);
    struct arena arena = {0};
    struct flow_arc *arcs;

    for (size_t i = 0; i < graph->n; i++)
        blocks[i].frequency = 0;
    if (highest <= 0)
        return;
    arcs = make_arcs(graph, &arena);
    for (size_t i = 0; i < graph->n; i++)
        arcs[i].flow = INFINITY; /* at first, nobody says too much */
    for (int round = 0; round < ROUNDS; round++) {
        struct arena scratch = {0};

        hear_blocks(arcs, blocks, graph->n, highest);
        flow_solve(arcs, graph->n + graph->n_edges, 2 * graph->n, &scratch);
        arena_free(&scratch);
    }
    for (size_t i = 0; i < graph->n; i++)
        blocks[i].frequency = arcs[i].flow * highest;
    arena_free(&arena);
}
