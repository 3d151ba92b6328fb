/* Functions and the calls between them, with the values of a profile's samples. */
#ifndef COUNTERPOINT_CMD_REPORT_GRAPH_H
#define COUNTERPOINT_CMD_REPORT_GRAPH_H

#include "model.h"
#include "runtime/base/table.h"

/* A function; code without a symbol counts as one function for each file that it is in. */
struct graph_node {
    const char *name; /* as it is printed: the function's name, "[FILE]" or "<unknown>" */
    const char *key;  /* orders nodes of the same name */
    int64_t flat;     /* of samples whose innermost function it is */
    int64_t cum;      /* of samples that have it anywhere */
    uint64_t last_sample;
    bool is_kept;
    bool is_inlined, is_called; /* some callers that count have it inlined, or call it */
};

struct graph_edge {
    size_t caller, callee; /* indices of nodes */
    int64_t weight;
    uint64_t last_sample;
    bool is_inlined; /* in each of the samples */
};

struct graph {
    const struct profile *profile;
    size_t type;
    struct graph_node *nodes;
    size_t n_nodes;
    size_t **nodes_of; /* the node of each line of each location, by their indices in the profile */
    struct graph_edge *edges;
    size_t n_edges, edges_room;
    struct cp__tuples edge_numbers;
    struct arena arena;
};

/* Makes the nodes of all locations; graph_count() gives them values. The profile must outlive the graph. */
void graph_init(struct graph *graph, const struct profile *profile, size_t type);
void graph_free(struct graph *graph);
/* Counts the samples anew. Calls that lead through nodes that are not kept are calls between those around
 * them, and a sample whose innermost function is not kept has no flat value. */
void graph_count(struct graph *graph);

/* Returns how many nodes the location has: one for each inlined function, and one without lines. nodes[0]
 * is the innermost. */
size_t graph_location_nodes(const struct graph *graph, const struct profile_location *location,
                            const size_t **nodes);

/* Stores the kept nodes that have values in *order, sorted by flat or cumulative values as pprof sorts them.
 * Returns how many there are. The caller frees *order. */
size_t graph_sort(const struct graph *graph, bool by_cum, const struct graph_node ***order);

/* Returns the last part of a path, as Go's filepath.Base() does. */
const char *path_base(struct arena *arena, const char *path);

/* Returns the sum of the absolute values of all samples, or of those that are marked as the base of a
 * difference. */
int64_t profile_total(const struct profile *profile, size_t type);

#endif
