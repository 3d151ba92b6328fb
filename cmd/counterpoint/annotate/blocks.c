/* See blocks.h. */
#include "blocks.h"

/* ---- Steps ----------------------------------------------------------------------------------- */

static bool ends_block(const struct cp__step *step)
{
    return step->flow != CP__FLOW_ON && step->flow != CP__FLOW_CALL;
}

static bool has_target(const struct cp__step *step)
{
    return step->flow == CP__FLOW_BRANCH || step->flow == CP__FLOW_JUMP;
}

static bool goes_on(const struct cp__step *step)
{
    return !ends_block(step) || step->flow == CP__FLOW_BRANCH;
}

/* Returns the step at the address; n: none begins there. */
static size_t step_at(const struct code_step *steps, size_t n, uint64_t address)
{
    size_t low = 0, high = n;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (steps[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && steps[low].address == address ? low : n;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* What makes a step the first one of a block. */
enum lead { LEAD_NOT = 0, LEAD_BEHIND_BRANCH, LEAD_TARGET };

static void find_leads(unsigned char *leads, const struct code_step *steps, size_t n)
{
    leads[0] = LEAD_TARGET;
    for (size_t i = 0; i < n; i++) {
        const size_t target = has_target(&steps[i].step) ? step_at(steps, n, steps[i].step.target) : n;

        if (target < n)
            leads[target] = LEAD_TARGET;
        if (ends_block(&steps[i].step) && i + 1 < n && leads[i + 1] == LEAD_NOT)
            leads[i + 1] = LEAD_BEHIND_BRANCH;
    }
}

static void add_step(struct basic_block *block, const struct code_step *step)
{
    block->n++;
    block->end = step->address + step->step.length;
    block->has_call |= step->step.flow == CP__FLOW_CALL;
    block->is_padding &= step->step.is_nop;
}

static void make_blocks(struct flow_graph *graph, const struct code_step *steps, size_t n,
                        struct arena *arena)
{
    unsigned char *leads = arena_array(arena, n, sizeof *leads);

    find_leads(leads, steps, n);
    graph->blocks = arena_array(arena, n, sizeof *graph->blocks);
    for (size_t i = 0; i < n; i++) {
        if (leads[i] != LEAD_NOT)
            graph->blocks[graph->n++] = (struct basic_block){
                .start = steps[i].address, .first = i, .is_padding = leads[i] != LEAD_TARGET};
        add_step(&graph->blocks[graph->n - 1], &steps[i]);
    }
}

size_t flow_graph_block_at(const struct flow_graph *graph, uint64_t address)
{
    size_t low = 0, high = graph->n;

    if (graph->n == 0 || address < graph->blocks[0].start || address >= graph->blocks[graph->n - 1].end)
        return graph->n;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (graph->blocks[middle].start <= address)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- Edges ----------------------------------------------------------------------------------- */

static void add_edge(struct flow_graph *graph, size_t from, size_t to, bool *are_reached)
{
    graph->edges[graph->n_edges++] = (struct flow_edge){from, to};
    if (to == graph->n)
        return;
    are_reached[to] = true;
    if (from == to)
        graph->blocks[from].is_loop = true;
}

/* Returns the block that begins at the address; outside if none does. */
static size_t target_of(const struct flow_graph *graph, uint64_t address)
{
    const size_t block = flow_graph_block_at(graph, address);

    return block < graph->n && graph->blocks[block].start == address ? block : graph->n;
}

/* A conditional branch to the next instruction is one edge. */
static void add_edges_of(struct flow_graph *graph, size_t from, const struct cp__step *last,
                         bool *are_reached)
{
    const size_t next = goes_on(last) ? from + 1 : graph->n;
    const size_t target = has_target(last) ? target_of(graph, last->target) : graph->n;

    if (goes_on(last))
        add_edge(graph, from, next, are_reached);
    if (!goes_on(last) || (last->flow == CP__FLOW_BRANCH && target != next))
        add_edge(graph, from, target, are_reached);
}

void flow_graph_make(struct flow_graph *graph, const struct code_step *steps, size_t n, struct arena *arena)
{
    bool *are_reached;

    *graph = (struct flow_graph){.n = 0};
    if (n == 0)
        return;
    make_blocks(graph, steps, n, arena);
    graph->edges = arena_array(arena, 3 * graph->n, sizeof *graph->edges);
    are_reached = arena_array(arena, graph->n, sizeof *are_reached);
    for (size_t i = 0; i < graph->n; i++) {
        struct basic_block *block = &graph->blocks[i];

        block->is_padding &= !are_reached[i];
        if (!block->is_padding)
            add_edges_of(graph, i, &steps[block->first + block->n - 1].step, are_reached);
    }
    for (size_t i = 0; i < graph->n; i++)
        if (i == 0 || (!are_reached[i] && !graph->blocks[i].is_padding))
            add_edge(graph, graph->n, i, are_reached);
}
