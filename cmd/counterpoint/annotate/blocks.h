/*
 * The basic blocks of a function, and where control flows between them.
 *
 * A block begins where a branch leads to, and behind each branch; a call ends none, because control comes
 * back. Nodes are numbered as the blocks are, by ascending addresses; the number n of blocks stands for all
 * that is outside of the function. Control comes from there into the first block, and into all blocks that
 * nothing known leads to, as those that a jump by a table reaches; it goes there by returns, jumps to other
 * functions, and jumps of which nobody knows the target.
 */
#ifndef COUNTERPOINT_CMD_ANNOTATE_BLOCKS_H
#define COUNTERPOINT_CMD_ANNOTATE_BLOCKS_H

#include "block/flow.h"
#include "cmd/counterpoint/report/arena.h"

struct code_step {
    uint64_t address;
    struct cp__step step;
};

struct basic_block {
    uint64_t start, end; /* addresses */
    size_t first, n;     /* of the steps */
    bool has_call;
    bool is_padding; /* nothing but instructions that do nothing, to which nothing leads: no edges */
    bool is_loop;    /* it leads to itself */
};

struct flow_edge {
    size_t from, to;
};

struct flow_graph {
    struct basic_block *blocks;
    size_t n;
    struct flow_edge *edges;
    size_t n_edges;
};

/* Makes the graph of steps that follow each other without a gap, for as long as the arena lives. */
void flow_graph_make(struct flow_graph *graph, const struct code_step *steps, size_t n, struct arena *arena);

/* Returns the block that the address is in; graph->n: none. */
size_t flow_graph_block_at(const struct flow_graph *graph, uint64_t address);

#endif
