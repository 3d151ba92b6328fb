/* The hottest functions, as go tool pprof -top prints them: github.com/google/pprof, internal/report. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph.h"
#include "measure.h"
#include "output.h"
#include "report.h"

/* Functions with less than this share of the total are left out, and calls with less than that are not asked
 * whether they are inlined. */
#define NODE_FRACTION 0.005
#define EDGE_FRACTION 0.001

/* The state while the list is made. */
struct top {
    const struct view *view;
    FILE *out;
    struct graph graph;
    int64_t total; /* of the profile */
    int64_t node_cutoff, edge_cutoff;
    size_t n_dropped, n_before; /* functions left out as too small, and those that were not */
    const struct graph_node **rows;
    size_t n_rows;
    const char *from, *to; /* units of the values, and of the list */
};

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Returns a share of a value, cut off as Go does, without its sign. */
static int64_t cutoff(int64_t total, double fraction)
{
    return measure_abs((int64_t)((double)total * fraction));
}

static int64_t flat_sum(const struct top *top)
{
    int64_t sum = 0;

    for (size_t i = 0; i < top->n_rows; i++)
        sum += top->rows[i]->flat;
    return sum;
}

static void count_and_sort(struct top *top)
{
    graph_count(&top->graph);
    free(top->rows);
    top->n_rows = graph_sort(&top->graph, top->view->by_cum, &top->rows);
}

/* Leaves out the functions whose cumulative value is too small. */
static void drop_small(struct top *top)
{
    const size_t before = top->n_rows;
    size_t kept = 0;

    for (size_t i = 0; i < before; i++)
        kept += (size_t)(measure_abs(top->rows[i]->cum) >= top->node_cutoff);
    if (kept == before)
        return;
    for (size_t i = 0; i < top->graph.n_nodes; i++)
        top->graph.nodes[i].is_kept = measure_abs(top->graph.nodes[i].cum) >= top->node_cutoff;
    top->n_dropped = before - kept;
    count_and_sort(top);
}

/* Leaves out all functions but the first n. */
static void keep_first(struct top *top, size_t n)
{
    if (n >= top->n_rows)
        return;
    for (size_t i = 0; i < top->graph.n_nodes; i++)
        top->graph.nodes[i].is_kept = false;
    for (size_t i = 0; i < n; i++)
        top->graph.nodes[top->rows[i] - top->graph.nodes].is_kept = true;
    count_and_sort(top);
}

static void mark_inlined(struct top *top)
{
    for (size_t i = 0; i < top->graph.n_edges; i++) {
        const struct graph_edge *edge = &top->graph.edges[i];
        struct graph_node *callee = &top->graph.nodes[edge->callee];

        if (measure_abs(edge->weight) < top->edge_cutoff)
            continue;
        callee->is_inlined |= edge->is_inlined;
        callee->is_called |= !edge->is_inlined;
    }
}

/* ---- Units ----------------------------------------------------------------------------------- */

/* Chooses the unit in which the smallest value has digits before the point, or one in which it is a hundredth
 * if the total is much larger. */
static void choose_top_unit(struct top *top)
{
    const char *from = top->view->profile->types[top->view->type].unit, *unit, *of_total;
    int64_t least = 0;

    for (size_t i = 0; i < top->n_rows; i++) {
        int64_t value = measure_abs(top->rows[i]->flat != 0 ? top->rows[i]->flat : top->rows[i]->cum);

        if (value > 0 && (least == 0 || value < least))
            least = value;
    }
    if (least == 0)
        least = top->total;
    measure_scale(least, from, "minimum", &unit);
    measure_scale(top->total, from, "minimum", &of_total);
    if (strcmp(unit, of_total) != 0 && least * 100 < top->total)
        measure_scale(100 * least, from, "minimum", &unit);
    top->from = from;
    top->to = top->n_rows == 0 ? "minimum" : unit[0] != '\0' ? unit : from;
}

static const char *format(const struct top *top, char text[MEASURE_SIZE], int64_t value)
{
    return measure_label(text, value, top->from, top->to);
}

/* ---- Lines above the list -------------------------------------------------------------------- */

static void print_file(FILE *out, const struct profile_mapping *mapping)
{
    struct arena arena = {0};

    if (mapping->file[0] != '\0')
        fprintf(out, "File: %s\n", path_base(&arena, mapping->file));
    arena_free(&arena);
    if (mapping->build_id[0] != '\0')
        fprintf(out, "Build ID: %s\n", mapping->build_id);
}

static void print_time(FILE *out, int64_t ns)
{
    time_t seconds = (time_t)(ns / 1000000000 - (ns % 1000000000 < 0));
    char date[64], zone[64];
    struct tm tm;

    if (localtime_r(&seconds, &tm) == NULL)
        return;
    strftime(date, sizeof date, "%b %-d, %Y at %-I:%M", &tm);
    strftime(zone, sizeof zone, "%Z", &tm);
    fprintf(out, "Time: %s%s (%s)\n", date, tm.tm_hour < 12 ? "am" : "pm", zone);
}

static void print_duration(const struct top *top, int64_t ns)
{
    char duration[MEASURE_SIZE], total[MEASURE_SIZE], share[MEASURE_SIZE];
    const char *unit;
    double total_ns = measure_scale(top->total, top->from, "nanoseconds", &unit);

    fprintf(top->out, "Duration: %s, Total samples = %s ", measure_label(duration, ns, "nanoseconds", "auto"),
            format(top, total, top->total));
    if (strcmp(unit, "ns") == 0 && total_ns != 0)
        fprintf(top->out, "(%s)", measure_percentage(share, (int64_t)total_ns, ns));
    fputc('\n', top->out);
}

static void print_labels(const struct top *top)
{
    const struct profile *profile = top->view->profile;

    if (profile->n_mappings > 0)
        print_file(top->out, &profile->mappings[0]);
    for (size_t i = 0; i < profile->n_comments; i++) {
        if (profile->comments[i][0] != '#')
            fprintf(top->out, "%s\n", profile->comments[i]);
    }
    if (profile->types[top->view->type].name[0] != '\0')
        fprintf(top->out, "Type: %s\n", profile->types[top->view->type].name);
    if (profile->time_ns != 0)
        print_time(top->out, profile->time_ns);
    if (profile->duration_ns != 0)
        print_duration(top, profile->duration_ns);
}

/* Prints at most 80 bytes of each filter. */
static void print_filters(const struct top *top)
{
    enum filter i;

    if (filters_any(&top->view->filters, &i))
        fputs("Active filters:\n", top->out);
    for (; i < N_FILTERS; i++) {
        const char *text = top->view->filters.of[i];
        int length = 80 - (int)strlen(filter_name(i)) - 1;

        if (text != NULL)
            fprintf(top->out, "   %s=%.*s%s\n", filter_name(i), length, text,
                    strlen(text) > (size_t)length ? "…" : "");
    }
}

static void print_accounting(const struct top *top)
{
    char shown[MEASURE_SIZE], total[MEASURE_SIZE], share[MEASURE_SIZE], least[MEASURE_SIZE];
    int64_t sum = flat_sum(top);
    const char *percentage = measure_percentage(share, sum, top->total);

    fprintf(top->out, "Showing nodes accounting for %s, %s of %s total\n", format(top, shown, sum),
            percentage + strspn(percentage, " "), format(top, total, top->total));
    if (top->total == 0)
        return;
    if (top->n_dropped > 0)
        fprintf(top->out, "Dropped %zu node%s (cum <= %s)\n", top->n_dropped, top->n_dropped > 1 ? "s" : "",
                format(top, least, cutoff(top->total, NODE_FRACTION)));
    if (top->n_rows > 0 && top->n_rows < top->n_before)
        fprintf(top->out, "Showing top %zu nodes out of %zu\n", top->n_rows, top->n_before);
}

/* ---- The list -------------------------------------------------------------------------------- */

static void print_top_row(const struct top *top, const struct graph_node *node, int64_t sum)
{
    static const char *const notes[2][2] = {{"", ""}, {" (inline)", " (partial-inline)"}};
    char flat[MEASURE_SIZE], cum[MEASURE_SIZE], shares[3][MEASURE_SIZE];

    fprintf(top->out, "%s%10s %s %s %10s %s  %s%s%s\n",
            colour_of(top->view->has_colours, top->total != 0 ? (double)node->flat / (double)top->total : 0),
            format(top, flat, node->flat), measure_percentage(shares[0], node->flat, top->total),
            measure_percentage(shares[1], sum, top->total), format(top, cum, node->cum),
            measure_percentage(shares[2], node->cum, top->total), node->name,
            notes[node->is_inlined][node->is_called], colour_end(top->view->has_colours));
}

static void print_top_rows(const struct top *top)
{
    int64_t sum = 0;

    fprintf(top->out, "%10s %5s%% %5s%% %10s %5s%%\n", "flat", "flat", "sum", "cum", "cum");
    for (size_t i = 0; i < top->n_rows; i++) {
        sum += top->rows[i]->flat;
        print_top_row(top, top->rows[i], sum);
    }
}

static void choose_rows(struct top *top)
{
    count_and_sort(top);
    top->node_cutoff = cutoff(flat_sum(top), NODE_FRACTION);
    top->edge_cutoff = cutoff(flat_sum(top), EDGE_FRACTION);
    if (top->node_cutoff > 0)
        drop_small(top);
    top->n_before = top->n_rows;
    if (top->view->node_count > 0)
        keep_first(top, (size_t)top->view->node_count);
    mark_inlined(top);
}

enum status print_top(const struct view *view, FILE *out)
{
    struct top top = {.view = view, .out = out, .total = view->total};

    graph_init(&top.graph, view->profile, view->type);
    choose_rows(&top);
    choose_top_unit(&top);
    print_labels(&top);
    print_filters(&top);
    print_accounting(&top);
    print_top_rows(&top);
    free(top.rows);
    graph_free(&top.graph);
    return STATUS_OK;
}

size_t report_hottest(struct profile *profile, size_t n, struct hot *out)
{
    struct graph graph;
    const struct graph_node **rows;
    int64_t total = profile_total(profile, profile->default_type);
    size_t found, stored = 0;

    graph_init(&graph, profile, profile->default_type);
    graph_count(&graph);
    found = graph_sort(&graph, false, &rows);
    for (size_t i = 0; i < found && stored < n && rows[i]->flat > 0; i++)
        out[stored++] = (struct hot){arena_print(&profile->arena, "%s", rows[i]->name),
                                     (double)rows[i]->flat / (double)total};
    free(rows);
    graph_free(&graph);
    return stored;
}
