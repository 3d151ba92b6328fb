/* The rules are those of github.com/google/pprof, internal/graph. */
#include "graph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/counterpoint/commands.h"
#include "measure.h"

static void need(int result)
{
    if (result < 0)
        exit(complain(STATUS_FAILURE, "There is not enough memory for the report."));
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* The state while nodes are made. */
struct naming {
    struct graph *graph;
    struct cp__strings strings;
    struct cp__tuples infos; /* name, file of the code, first line */
    size_t room;
};

static const char *code_file(const struct profile_location *location)
{
    return location->mapping != NULL ? location->mapping->file : "";
}

const char *path_base(struct arena *arena, const char *path)
{
    size_t end = strlen(path), start;

    while (end > 1 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--)
        continue;
    return end == 1 && path[0] == '/' ? "/" : arena_copy(arena, path + start, end - start);
}

static const char *printable_name(struct arena *arena, const char *name, const char *file)
{
    if (name[0] != '\0')
        return name;
    return file[0] != '\0' ? arena_print(arena, "[%s]", path_base(arena, file)) : "<unknown>";
}

static uint64_t string_number(struct naming *naming, const char *text)
{
    uint32_t number;

    need(cp__strings_add(&naming->strings, text, &number));
    return number;
}

static size_t info_node(struct naming *naming, const char *name, const char *file, int64_t start_line)
{
    struct graph *graph = naming->graph;
    uint64_t info[3] = {string_number(naming, name), string_number(naming, file), (uint64_t)start_line};
    uint32_t number;

    need(cp__tuples_add(&naming->infos, info, 3, &number));
    if (number < graph->n_nodes)
        return number;
    graph->nodes = grow_array(graph->nodes, graph->n_nodes, &naming->room, sizeof *graph->nodes);
    graph->nodes[graph->n_nodes++] = (struct graph_node){
        .name = printable_name(&graph->arena, name, file),
        .key = arena_print(&graph->arena, "{%s  0  %" PRId64 " 0 %s}", name, start_line, file),
        .is_kept = true,
    };
    return number;
}

/* The file and the first line tell functions apart only if they have no name. */
static size_t line_node(struct naming *naming, const struct profile_location *location, size_t line)
{
    const struct profile_function *function = location->n_lines > 0 ? location->lines[line].function : NULL;

    if (function == NULL)
        return info_node(naming, "", code_file(location), 0);
    if (function->name[0] != '\0')
        return info_node(naming, function->name, "", 0);
    return info_node(naming, "", code_file(location), function->start_line);
}

void graph_init(struct graph *graph, const struct profile *profile, size_t type)
{
    struct naming naming = {.graph = graph};

    *graph = (struct graph){.profile = profile, .type = type};
    graph->nodes_of = arena_array(&graph->arena, profile->n_locations, sizeof *graph->nodes_of);
    for (size_t i = 0; i < profile->n_locations; i++) {
        const struct profile_location *location = &profile->locations[i];
        size_t n = location->n_lines > 0 ? location->n_lines : 1;

        graph->nodes_of[i] = arena_array(&graph->arena, n, sizeof *graph->nodes_of[i]);
        for (size_t j = 0; j < n; j++)
            graph->nodes_of[i][j] = line_node(&naming, location, j);
    }
    cp__strings_free(&naming.strings);
    cp__tuples_free(&naming.infos);
}

void graph_free(struct graph *graph)
{
    free(graph->nodes);
    free(graph->edges);
    cp__tuples_free(&graph->edge_numbers);
    arena_free(&graph->arena);
}

size_t graph_location_nodes(const struct graph *graph, const struct profile_location *location,
                            const size_t **nodes)
{
    *nodes = graph->nodes_of[location - graph->profile->locations];
    return location->n_lines > 0 ? location->n_lines : 1;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void count_call(struct graph *graph, size_t caller, size_t callee, int64_t value, uint64_t sample,
                       bool is_inlined)
{
    uint64_t pair[2] = {caller, callee};
    struct graph_edge *edge;
    uint32_t number;

    if (caller == callee)
        return;
    need(cp__tuples_add(&graph->edge_numbers, pair, 2, &number));
    if (number == graph->n_edges) {
        graph->edges = grow_array(graph->edges, graph->n_edges, &graph->edges_room, sizeof *graph->edges);
        graph->edges[graph->n_edges++] =
            (struct graph_edge){.caller = caller, .callee = callee, .is_inlined = true};
    }
    edge = &graph->edges[number];
    if (edge->last_sample == sample)
        return;
    edge->last_sample = sample;
    edge->weight += value;
    edge->is_inlined &= is_inlined;
}

/* Counts a sample, whose number is not 0, from its outermost function to the innermost. */
static void count_sample(struct graph *graph, const struct profile_sample *sample, uint64_t number)
{
    const int64_t value = sample->values[graph->type];
    size_t caller = SIZE_MAX;
    bool is_leaf = false;

    for (size_t i = sample->n_locations; i > 0; i--) {
        const size_t *nodes;
        size_t n = graph_location_nodes(graph, sample->locations[i - 1], &nodes);

        for (size_t j = n; j > 0; j--) {
            struct graph_node *node = &graph->nodes[nodes[j - 1]];

            is_leaf = node->is_kept;
            if (!node->is_kept)
                continue;
            if (node->last_sample != number)
                node->cum += value;
            node->last_sample = number;
            if (caller != SIZE_MAX)
                count_call(graph, caller, nodes[j - 1], value, number, j != n);
            caller = nodes[j - 1];
        }
    }
    if (is_leaf)
        graph->nodes[caller].flat += value;
}

void graph_count(struct graph *graph)
{
    cp__tuples_free(&graph->edge_numbers);
    graph->edge_numbers = (struct cp__tuples){0};
    graph->n_edges = 0;
    for (size_t i = 0; i < graph->n_nodes; i++)
        graph->nodes[i].flat = graph->nodes[i].cum = (int64_t)(graph->nodes[i].last_sample = 0);
    for (size_t i = 0; i < graph->profile->n_samples; i++) {
        if (graph->profile->samples[i].values[graph->type] != 0)
            count_sample(graph, &graph->profile->samples[i], i + 1);
    }
}

int64_t profile_total(const struct profile *profile, size_t type)
{
    int64_t total = 0, base = 0;

    for (size_t i = 0; i < profile->n_samples; i++) {
        const struct profile_sample *sample = &profile->samples[i];
        int64_t value = measure_abs(sample->values[type]);

        total += value;
        for (size_t j = 0; j < sample->n_labels; j++) {
            const struct profile_label *label = &sample->labels[j];

            if (label->text != NULL && strcmp(label->key, "pprof::base") == 0 &&
                strcmp(label->text, "true") == 0)
                base += value;
        }
    }
    return base > 0 ? base : total;
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* Compares so that larger absolute values come first. */
static int compare_values(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;

    return x != y ? (x > y ? -1 : 1) : 0;
}

static int compare_nodes(const struct graph_node *a, const struct graph_node *b, bool by_cum)
{
    int result = by_cum ? compare_values(a->cum, b->cum) : compare_values(a->flat, b->flat);

    if (result == 0)
        result = strcmp(a->name, b->name);
    if (result == 0)
        result = by_cum ? compare_values(a->flat, b->flat) : compare_values(a->cum, b->cum);
    return result != 0 ? result : strcmp(a->key, b->key);
}

static int by_flat_value(const void *a, const void *b)
{
    return compare_nodes(*(const struct graph_node *const *)a, *(const struct graph_node *const *)b, false);
}

static int by_cum_value(const void *a, const void *b)
{
    return compare_nodes(*(const struct graph_node *const *)a, *(const struct graph_node *const *)b, true);
}

size_t graph_sort(const struct graph *graph, bool by_cum, const struct graph_node ***order)
{
    size_t n = 0;

    *order = calloc(graph->n_nodes + 1, sizeof **order);
    need(*order == NULL ? -1 : 0);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct graph_node *node = &graph->nodes[i];

        if (node->is_kept && (node->flat != 0 || node->cum != 0))
            (*order)[n++] = node;
    }
    qsort(*order, n, sizeof **order, by_cum ? by_cum_value : by_flat_value);
    return n;
}
