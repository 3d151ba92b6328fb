/* A profile on a page: what was sampled, what is missing, and the hottest functions and paths. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "facts.h"
#include "graph.h"
#include "measure.h"
#include "report.h"
#include "tree.h"

/* How many functions and paths are listed, and how many functions of a path are shown. */
enum { N_FUNCTIONS = 15, N_PATHS = 8, N_STEPS = 12 };

struct summary {
    const struct view *view;
    FILE *out;
    const char *unit;
};

/* ---- Words ----------------------------------------------------------------------------------- */

/* Writes code in a table's cell. */
static void print_code(FILE *out, const char *text)
{
    fputc('`', out);
    for (; *text != '\0'; text++) {
        if (*text == '|')
            fputs("\\|", out);
        else
            fputc(*text == '`' ? '\'' : (unsigned char)*text < ' ' ? '?' : *text, out);
    }
    fputc('`', out);
}

/* Writes text that is no code, without what begins markup. */
static void print_words(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\`*_[]<>|", *text) != NULL)
            fputc('\\', out);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
}

static void print_measure(const struct summary *s, int64_t value, const char *unit)
{
    char text[MEASURE_SIZE];

    print_words(s->out, measure_label(text, value, unit, "auto"));
}

static void print_value_cells(const struct summary *s, int64_t value)
{
    char share[MEASURE_SIZE];
    const char *percentage = measure_percentage(share, value, s->view->total);

    fputc(' ', s->out);
    print_measure(s, value, s->unit);
    fprintf(s->out, " | %s |", percentage + strspn(percentage, " "));
}

/* ---- What was sampled ------------------------------------------------------------------------ */

static void print_fact_line(const struct summary *s, const char *name, const char *text)
{
    fprintf(s->out, "- %s", name);
    print_words(s->out, text);
    fputc('\n', s->out);
}

static void print_distance(const struct summary *s)
{
    const struct profile *profile = s->view->profile;

    if (profile->period <= 0 || profile->period_type.name[0] == '\0')
        return;
    if (profile_is_of_waits(profile)) {
        if (strcmp(profile->period_type.name, "delay") != 0)
            return;
        fputs("- all waits that took ", s->out);
        print_measure(s, profile->period, profile->period_type.unit);
        fputs(" or longer, and shorter ones in proportion\n", s->out);
        return;
    }
    fputs("- one sample for each: ", s->out);
    print_measure(s, profile->period, profile->period_type.unit);
    fputs(" of ", s->out);
    print_words(s->out, profile->period_type.name);
    fputc('\n', s->out);
}

static void print_times(const struct summary *s)
{
    const struct profile *profile = s->view->profile;
    const time_t start = (time_t)(profile->time_ns / 1000000000);
    char text[MEASURE_SIZE];
    struct tm tm;

    if (profile_cpu_ns(profile) > 0)
        fprintf(s->out, "- CPU time of the process: %s\n",
                measure_label(text, (int64_t)profile_cpu_ns(profile), "ns", "auto"));
    if (profile->duration_ns > 0)
        fprintf(s->out, "- duration: %s\n", measure_label(text, profile->duration_ns, "ns", "auto"));
    if (profile->time_ns > 0 && gmtime_r(&start, &tm) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm) > 0)
        fprintf(s->out, "- start: %s\n", text);
}

static void print_what(const struct summary *s)
{
    const struct profile *profile = s->view->profile;

    if (profile->n_mappings > 0 && profile->mappings[0].file[0] != '\0')
        print_fact_line(s, "program: ", profile->mappings[0].file);
    if (profile->n_mappings > 0 && profile->mappings[0].build_id[0] != '\0')
        print_fact_line(s, "build id: ", profile->mappings[0].build_id);
    if (profile_fact(profile, "event") != NULL)
        print_fact_line(s, "event: ", profile_fact(profile, "event"));
    fputs("- values: ", s->out);
    print_words(s->out, profile->types[s->view->type].name);
    fputs(", ", s->out);
    print_measure(s, s->view->total, s->unit);
    fprintf(s->out, " in all, of %.0f %s\n", profile_sample_count(profile, s->view->type),
            profile_is_of_waits(profile) ? "waits" : "samples");
    print_distance(s);
    print_times(s);
}

/* ---- What is missing ------------------------------------------------------------------------- */

/* Prints the comments that tell what is missing: each is "KEY: VALUE # sentence". */
static void print_limits(const struct summary *s)
{
    const struct profile *profile = s->view->profile;
    size_t n = 0;

    fputs("\n## What is missing\n\n", s->out);
    if (profile_fact(profile, "limits") == NULL) {
        fputs("The profile does not say what is missing.\n", s->out);
        return;
    }
    for (size_t i = 0; i < profile->n_comments; i++) {
        const char *comment = profile->comments[i], *coverage = comment + strlen("coverage: ");
        const bool is_limit = profile_is_limit(profile, comment);

        n += is_limit;
        if (strncmp(comment, "coverage: ", strlen("coverage: ")) == 0)
            fprintf(s->out, "- coverage of the CPU time: %.2f %%\n", strtod(coverage, NULL));
        else if (is_limit)
            print_fact_line(s, "", comment);
    }
    if (n == 0)
        fputs("- nothing is known to be missing\n", s->out);
}

/* ---- Functions ------------------------------------------------------------------------------- */

static size_t most(const struct summary *s, size_t n)
{
    return s->view->node_count > 0 ? (size_t)s->view->node_count : n;
}

static void print_functions(const struct summary *s, bool by_cum)
{
    struct graph graph;
    const struct graph_node **order;
    size_t n;

    graph_init(&graph, s->view->profile, s->view->type);
    graph_count(&graph);
    n = graph_sort(&graph, by_cum, &order);
    while (!by_cum && n > 0 && order[n - 1]->flat == 0)
        n--;
    fprintf(s->out, "\n## Hottest functions, %s\n\n", by_cum ? "with what they call" : "in themselves");
    fputs("| flat | flat % | cum | cum % | function |\n|--:|--:|--:|--:|---|\n", s->out);
    for (size_t i = 0; i < n && i < most(s, N_FUNCTIONS); i++) {
        fputc('|', s->out);
        print_value_cells(s, order[i]->flat);
        print_value_cells(s, order[i]->cum);
        fputc(' ', s->out);
        print_code(s->out, order[i]->name);
        fputs(" |\n", s->out);
    }
    if (n > most(s, N_FUNCTIONS))
        fprintf(s->out, "\n%zu more functions are not listed.\n", n - most(s, N_FUNCTIONS));
    free(order);
    graph_free(&graph);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

/* A path with its value, while paths are sorted. */
struct path {
    int64_t flat;
    size_t node;
};

static int by_flat(const void *a, const void *b)
{
    const struct path *x = a, *y = b;
    int64_t u = measure_abs(x->flat), v = measure_abs(y->flat);

    return u != v ? (u > v ? -1 : 1) : (x->node > y->node) - (x->node < y->node);
}

/* Prints the functions from the outermost one on; of a long path, the outermost and the last ones. */
static void print_steps(const struct summary *s, const struct tree *tree, size_t node, size_t *steps)
{
    size_t n = 0;

    for (; node != 0; node = tree->nodes[node].parent)
        steps[n++] = node;
    for (size_t i = n; i > 0; i--) {
        if (n > N_STEPS && i < n && i >= N_STEPS) {
            if (i == N_STEPS)
                fprintf(s->out, " → (%zu more)", n - N_STEPS);
            continue;
        }
        fputs(i == n ? "" : " → ", s->out);
        print_code(s->out, tree_name(tree, steps[i - 1]));
    }
    fputs(n == 0 ? "(no stack)\n" : "\n", s->out);
}

static void print_paths(const struct summary *s)
{
    struct tree tree;
    struct arena arena = {0};
    struct path *paths;
    size_t *steps;

    tree_of_calls(&tree, s->view->profile, s->view->type);
    paths = arena_array(&arena, tree.n, sizeof *paths);
    steps = arena_array(&arena, tree.n, sizeof *steps);
    for (size_t i = 0; i < tree.n; i++)
        paths[i] = (struct path){tree.nodes[i].flat, i};
    qsort(paths, tree.n, sizeof *paths, by_flat);
    fputs("\n## Hottest paths\n\n", s->out);
    for (size_t i = 0; i < tree.n && i < most(s, N_PATHS) && paths[i].flat != 0; i++) {
        char share[MEASURE_SIZE];
        const char *percentage = measure_percentage(share, paths[i].flat, s->view->total);

        fprintf(s->out, "%zu. ", i + 1);
        print_measure(s, paths[i].flat, s->unit);
        fprintf(s->out, " (%s): ", percentage + strspn(percentage, " "));
        print_steps(s, &tree, paths[i].node, steps);
    }
    tree_free(&tree);
    arena_free(&arena);
}

enum status print_markdown(const struct view *view, FILE *out)
{
    struct summary s = {.view = view, .out = out, .unit = view->profile->types[view->type].unit};

    fputs("# Profile", out);
    for (size_t i = 0; i < view->n_sources; i++) {
        fputs(i == 0 ? " " : ", ", out);
        print_code(out, view->sources[i].name);
    }
    fputs("\n\n", out);
    print_what(&s);
    print_limits(&s);
    print_functions(&s, false);
    print_functions(&s, true);
    print_paths(&s);
    return STATUS_OK;
}
