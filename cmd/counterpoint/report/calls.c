/* Trees of calls for a terminal: from the outermost function down, and from a function up to its callers. */
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "names.h"
#include "output.h"
#include "report.h"
#include "tree.h"

/* Branches with less than this share of the total are folded. */
#define LEAST_SHARE 0.005

/* The state while a tree is printed. */
struct printing {
    const struct view *view;
    FILE *out;
    const struct tree *tree;
    const char *unit;
    int64_t least; /* branches with smaller values are folded */
    bool *is_last; /* by depth: nothing follows below the same parent */
    size_t depth;  /* of the line */
    bool is_only;  /* the line's function is the only child */
};

/* ---- What is folded -------------------------------------------------------------------------- */

static bool is_shown(const struct printing *p, size_t node)
{
    return measure_abs(p->tree->nodes[node].cum) >= p->least && p->tree->nodes[node].cum != 0;
}

/* Returns how many children of a node are shown. They are the first ones. */
static size_t count_shown(const struct printing *p, size_t node)
{
    const struct tree_node *parent = &p->tree->nodes[node];
    size_t n = 0;

    while (n < parent->n_children && is_shown(p, parent->first_child + n))
        n++;
    return n;
}

static int64_t folded_value(const struct printing *p, size_t node, size_t n_shown)
{
    const struct tree_node *parent = &p->tree->nodes[node];
    int64_t value = 0;

    for (size_t i = n_shown; i < parent->n_children; i++)
        value += p->tree->nodes[parent->first_child + i].cum;
    return value;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x == y ? 0 : x > y ? -1 : 1;
}

/* Returns the value that the n heaviest nodes reach. */
static int64_t value_of_rank(const struct tree *tree, size_t n)
{
    struct arena arena = {0};
    int64_t *values = arena_array(&arena, tree->n, sizeof *values), value;

    for (size_t i = 1; i < tree->n; i++)
        values[i - 1] = measure_abs(tree->nodes[i].cum);
    qsort(values, tree->n - 1, sizeof *values, by_value);
    value = n < tree->n - 1 ? values[n - 1] : 0;
    arena_free(&arena);
    return value;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Returns the bytes of a name that fit into so many columns. */
static int fitting_bytes(const char *name, size_t columns)
{
    int bytes = 0;

    while (name[bytes] != '\0' && (columns > 0 || (name[bytes] & 0xc0) == 0x80)) {
        columns -= (name[bytes] & 0xc0) != 0x80;
        bytes++;
    }
    return bytes;
}

static size_t print_guides(const struct printing *p)
{
    for (size_t i = 1; i < p->depth + p->is_only; i++)
        fputs(p->is_last[i] ? "  " : "│ ", p->out);
    if (p->depth > 0 && !p->is_only)
        fputs(p->is_last[p->depth] ? "└ " : "├ ", p->out);
    return 2 * p->depth;
}

static void print_line(const struct printing *p, size_t node)
{
    const struct tree_node *n = &p->tree->nodes[node];
    char cum[MEASURE_SIZE], flat[MEASURE_SIZE], share[MEASURE_SIZE];
    double heat = p->view->total != 0 ? (double)measure_abs(n->cum) / (double)p->view->total : 0;
    const char *name = tree_name(p->tree, node);
    size_t taken = 30, columns = SIZE_MAX;
    int bytes;

    fprintf(p->out, "%10s %s %10s  ", measure_label(cum, n->cum, p->unit, "auto"),
            measure_percentage(share, n->cum, p->view->total),
            n->flat != 0 ? measure_label(flat, n->flat, p->unit, "auto") : "");
    taken += print_guides(p);
    if (p->view->width > 0)
        columns = (size_t)p->view->width > taken + 12 ? (size_t)p->view->width - taken : 12;
    bytes = fitting_bytes(name, columns);
    if (name[bytes] != '\0')
        bytes = fitting_bytes(name, columns - 1);
    fprintf(p->out, "%s%.*s%s%s\n", colour_of(p->view->has_colours, heat), bytes, name,
            name[bytes] != '\0' ? "…" : "", colour_end(p->view->has_colours));
}

/* Prints that children of a node are folded. */
static void print_folded(struct printing *p, size_t node, size_t n_shown)
{
    size_t n = p->tree->nodes[node].n_children - n_shown;
    int64_t value = folded_value(p, node, n_shown);
    char text[MEASURE_SIZE], share[MEASURE_SIZE];

    if (n == 0)
        return;
    fprintf(p->out, "%10s %s %10s  ", measure_label(text, value, p->unit, "auto"),
            measure_percentage(share, value, p->view->total), "");
    print_guides(p);
    fprintf(p->out, "(%zu smaller %s)\n", n, n == 1 ? "branch" : "branches");
}

/* ---- Trees ----------------------------------------------------------------------------------- */

/* Where printing goes on: the child, of those of one node, and the depth of its line. */
struct level {
    size_t parent, next, n_shown;
    size_t depth;
};

/* Returns the depth of the lines of a node's children: an only child stands right below its parent, because
 * stacks are deep and mostly do not branch. */
static size_t depth_below(const struct printing *p, size_t node, size_t depth)
{
    return p->tree->nodes[node].n_children > 1 ? depth + 1 : depth;
}

static struct level open_level(const struct printing *p, size_t node, size_t depth)
{
    return (struct level){
        .parent = node, .n_shown = count_shown(p, node), .depth = depth_below(p, node, depth)};
}

static void print_branches(struct printing *p)
{
    struct arena arena = {0};
    struct level *levels = arena_array(&arena, p->tree->n + 1, sizeof *levels);
    size_t n = 1;

    p->is_last = arena_array(&arena, p->tree->n + 1, sizeof *p->is_last);
    levels[0] = open_level(p, 0, 0);
    while (n > 0) {
        struct level *level = &levels[n - 1];
        const struct tree_node *parent = &p->tree->nodes[level->parent];
        size_t node = parent->first_child + level->next;
        bool is_end = level->next == level->n_shown;

        p->depth = level->depth;
        p->is_only = parent->n_children == 1;
        if (!p->is_only)
            p->is_last[p->depth] = level->next + 1 >= parent->n_children || is_end;
        if (is_end) {
            print_folded(p, level->parent, level->n_shown);
            n--;
            continue;
        }
        level->next++;
        print_line(p, node);
        levels[n++] = open_level(p, node, level->depth);
    }
    arena_free(&arena);
}

static void print_tree_of(const struct view *view, const struct tree *tree, FILE *out)
{
    struct printing p = {
        .view = view, .out = out, .tree = tree, .unit = view->profile->types[view->type].unit};
    char total[MEASURE_SIZE];

    if (view->node_count > 0)
        p.least = value_of_rank(tree, (size_t)view->node_count);
    else
        p.least = (int64_t)((double)view->total * LEAST_SHARE);
    fprintf(out, "%s: %s in all\n", view->profile->types[view->type].name,
            measure_label(total, view->total, p.unit, "auto"));
    fprintf(out, "%10s %5s%% %10s\n", "cum", "cum", "flat");
    print_branches(&p);
}

enum status print_tree(const struct view *view, FILE *out)
{
    struct tree tree;

    tree_of_calls(&tree, view->profile, view->type);
    print_tree_of(view, &tree, out);
    tree_free(&tree);
    return STATUS_OK;
}

/* Marks the functions of that name or, if there are none, those whose names match it as an expression. */
static enum status mark_functions(const struct graph *graph, const char *wanted, bool *is_marked)
{
    enum status status;
    regex_t expression;
    size_t n = 0;

    for (size_t i = 0; i < graph->n_nodes; i++)
        n += is_marked[i] = strcmp(graph->nodes[i].name, wanted) == 0;
    if (n > 0)
        return STATUS_OK;
    status = expression_read(&expression, wanted);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < graph->n_nodes; i++)
        n += is_marked[i] = expression_matches(&expression, graph->nodes[i].name);
    regfree(&expression);
    return n > 0 ? STATUS_OK
                 : complain(STATUS_USAGE,
                            "The profile has no function \"%s\", and none whose name matches that as "
                            "a regular expression. --top lists the functions.",
                            wanted);
}

enum status print_callers(const struct view *view, FILE *out)
{
    struct tree tree = {0};
    enum status status;
    bool *is_marked;

    graph_init(&tree.graph, view->profile, view->type);
    is_marked = arena_array(&tree.graph.arena, tree.graph.n_nodes, sizeof *is_marked);
    status = mark_functions(&tree.graph, view->argument, is_marked);
    if (status == STATUS_OK) {
        tree_of_callers(&tree, is_marked);
        print_tree_of(view, &tree, out);
    }
    tree_free(&tree);
    return status;
}
