/*
 * What differs between two profiles.
 *
 * The values of both are divided by their CPU times. A function has n samples in a profile by chance: n is
 * taken as a Poisson count, whose variance is n. A sample with value v that stands for n counts adds
 * v * v / n to the variance of the function's value. The standard error of a difference is the root of the
 * sum of both variances, or of those that the mean rate of both profiles gives if they are larger: a function
 * without samples in one of the profiles has no variance there.
 *
 * A difference is named if chance exceeds it in one of 370 comparisons of profiles that are the same: that is
 * 3 standard errors if one function is compared, and more if there are many (Bonferroni).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "graph.h"
#include "measure.h"
#include "report.h"

/* The chance that normally distributed noise exceeds 3 standard errors, in either direction. */
#define CHANCE 0.0027
/* Functions with fewer samples in both profiles together are not compared. */
#define LEAST_SAMPLES 10

struct side {
    const struct profile *profile;
    size_t type;
    double base; /* what values are divided by: ns of CPU time, or another total */
};

enum { OLD, NEW, N_SIDES };

/* A function in both profiles. */
struct compared {
    const char *name;
    double value[N_SIDES], variance[N_SIDES], samples[N_SIDES];
    uint64_t last_sample;
    double difference, error; /* of the rates */
};

struct comparison {
    const struct view *view;
    struct side sides[N_SIDES];
    const char *measured_by; /* what the bases are */
    struct cp__strings names;
    struct compared *rows;
    size_t n, room;
    uint64_t n_samples;
};

/* ---- What values are divided by -------------------------------------------------------------- */

static double total_of_unit(const struct profile *profile, size_t *type)
{
    const char *unit;

    for (*type = 0; *type < profile->n_types; ++*type) {
        if (measure_is_time(profile->types[*type].unit))
            return fabs(
                measure_scale(profile_total(profile, *type), profile->types[*type].unit, "ns", &unit));
    }
    return 0;
}

static double by_cpu_time(const struct side *side)
{
    return profile_cpu_ns(side->profile);
}

static double by_sampled_time(const struct side *side)
{
    size_t type;

    return profile_is_of_waits(side->profile) ? 0 : total_of_unit(side->profile, &type);
}

static double by_duration(const struct side *side)
{
    return (double)side->profile->duration_ns;
}

static double by_total(const struct side *side)
{
    return (double)profile_total(side->profile, side->type);
}

/* Chooses the best measure that both profiles have. */
static void choose_bases(struct comparison *c)
{
    static const struct {
        double (*of)(const struct side *side);
        const char *name;
    } measures[] = {
        {by_cpu_time, "CPU time of the process"},
        {by_sampled_time, "CPU time of the samples"},
        {by_duration, "duration"},
        {by_total, "values in all"},
    };

    for (size_t i = 0; i < sizeof measures / sizeof measures[0]; i++) {
        for (size_t j = 0; j < N_SIDES; j++)
            c->sides[j].base = measures[i].of(&c->sides[j]);
        c->measured_by = measures[i].name;
        if (c->sides[OLD].base > 0 && c->sides[NEW].base > 0)
            return;
    }
}

static bool is_in_ns(const struct comparison *c)
{
    return strstr(c->measured_by, "values") == NULL;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static struct compared *row_of(struct comparison *c, const char *name)
{
    uint32_t number;

    if (cp__strings_add(&c->names, name, &number) < 0)
        exit(complain(STATUS_FAILURE, "There is not enough memory to compare the profiles."));
    if (number == c->n) {
        c->rows = grow_array(c->rows, c->n, &c->room, sizeof *c->rows);
        c->rows[c->n++] = (struct compared){.name = name};
    }
    return &c->rows[number];
}

static void add_value(struct comparison *c, size_t side, const struct profile_sample *sample,
                      const char *name)
{
    double value = (double)sample->values[c->sides[side].type];
    double n = sample_count(c->sides[side].profile, sample, c->sides[side].type);
    struct compared *row = row_of(c, name);

    if (row->last_sample == c->n_samples)
        return;
    row->last_sample = c->n_samples;
    row->value[side] += value;
    row->variance[side] += value * value / n;
    row->samples[side] += n;
}

/* Adds a sample to its innermost function or, of cumulative values, to all of its functions once. */
static void add_compared(struct comparison *c, size_t side, const struct graph *graph,
                         const struct profile_sample *sample)
{
    c->n_samples++;
    for (size_t i = 0; i < sample->n_locations; i++) {
        const size_t *nodes;
        size_t n = graph_location_nodes(graph, sample->locations[i], &nodes);

        for (size_t j = 0; j < (c->view->by_cum ? n : 1); j++)
            add_value(c, side, sample, graph->nodes[nodes[j]].name);
        if (!c->view->by_cum)
            return;
    }
}

/* The graphs must live as long as the rows, which have their names. */
static void add_side(struct comparison *c, size_t side, struct graph *graph)
{
    const struct profile *profile = c->sides[side].profile;

    graph_init(graph, profile, c->sides[side].type);
    for (size_t i = 0; i < profile->n_samples; i++) {
        if (profile->samples[i].values[c->sides[side].type] != 0)
            add_compared(c, side, graph, &profile->samples[i]);
    }
}

/* Computes the difference of the rates and its standard error. */
static void settle_row(const struct comparison *c, struct compared *row)
{
    const double a = c->sides[OLD].base, b = c->sides[NEW].base;
    double value = row->value[OLD] + row->value[NEW], variance = row->variance[OLD] + row->variance[NEW];
    double weight = value != 0 ? variance / value : 0; /* of a sample */
    double apart = row->variance[OLD] / a / a + row->variance[NEW] / b / b;
    double together = fabs(value / (a + b) * weight * (1 / a + 1 / b));

    row->difference = row->value[NEW] / b - row->value[OLD] / a;
    row->error = sqrt(fmax(apart, together));
}

/* Returns the number of standard errors that noise exceeds with this chance. */
static double errors_of_chance(double chance)
{
    double low = 0, high = 40;

    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;

        if (erfc(middle / sqrt(2)) > chance)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static int by_difference(const void *a, const void *b)
{
    const struct compared *x = a, *y = b;
    double u = fabs(x->difference), v = fabs(y->difference);

    return u != v ? (u > v ? -1 : 1) : strcmp(x->name, y->name);
}

/* Keeps the rows that have enough samples to be compared, the largest differences first. */
static void settle_rows(struct comparison *c)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->n; i++) {
        settle_row(c, &c->rows[i]);
        if (c->rows[i].samples[OLD] + c->rows[i].samples[NEW] >= LEAST_SAMPLES)
            c->rows[kept++] = c->rows[i];
    }
    c->n = kept;
    if (kept > 0)
        qsort(c->rows, c->n, sizeof *c->rows, by_difference);
}

/* ---- Printing -------------------------------------------------------------------------------- */

/* Writes a rate: a share of the CPU time in percent, or values per second of it. */
static const char *format_rate(const struct comparison *c, char text[MEASURE_SIZE], double rate,
                               const char *sign)
{
    const char *unit = c->sides[NEW].profile->types[c->sides[NEW].type].unit, *ns;
    double factor = measure_scale(1, unit, "ns", &ns);

    if (!is_in_ns(c))
        factor = 1;
    if (!is_in_ns(c) || measure_is_time(unit))
        snprintf(text, MEASURE_SIZE, strcmp(sign, "+") == 0 ? "%+.2f%%" : "%.2f%%", rate * factor * 100);
    else
        snprintf(text, MEASURE_SIZE, strcmp(sign, "+") == 0 ? "%+.4g/s" : "%.4g/s", rate * 1e9);
    return text;
}

static void print_side(const struct comparison *c, size_t side, FILE *out)
{
    const struct side *s = &c->sides[side];
    char base[MEASURE_SIZE];

    fprintf(
        out, "%s %s, %.0f samples\n", side == NEW ? "new: " : "base:",
        measure_label(base, (int64_t)s->base, is_in_ns(c) ? "ns" : s->profile->types[s->type].unit, "auto"),
        profile_sample_count(s->profile, s->type));
}

static void print_difference(const struct comparison *c, const struct compared *row, FILE *out)
{
    char old[MEASURE_SIZE], new[MEASURE_SIZE], difference[MEASURE_SIZE], error[MEASURE_SIZE];

    fprintf(out, "%11s %11s %11s %11s %7.1f  %s\n",
            format_rate(c, old, row->value[OLD] / c->sides[OLD].base, ""),
            format_rate(c, new, row->value[NEW] / c->sides[NEW].base, ""),
            format_rate(c, difference, row->difference, "+"), format_rate(c, error, row->error, ""),
            fabs(row->difference) / row->error, row->name);
}

static void print_comparison(const struct comparison *c, FILE *out)
{
    const double errors = errors_of_chance(CHANCE / (c->n > 0 ? (double)c->n : 1));
    const size_t most = c->view->node_count > 0 ? (size_t)c->view->node_count : SIZE_MAX;
    size_t n = 0;

    fprintf(out, "%s values of %s, divided by: %s\n", c->view->by_cum ? "cumulative" : "flat",
            c->sides[NEW].profile->types[c->sides[NEW].type].name, c->measured_by);
    print_side(c, OLD, out);
    print_side(c, NEW, out);
    fprintf(
        out,
        "%zu function%s compared. Named are differences of more than %.1f standard errors; noise exceeds\n"
        "these in one of 370 comparisons of equal programs.\n",
        c->n, c->n == 1 ? "" : "s", errors);
    for (size_t i = 0; i < c->n; i++) {
        if (fabs(c->rows[i].difference) <= errors * c->rows[i].error)
            continue;
        if (n++ == 0)
            fprintf(out, "%11s %11s %11s %11s %7s\n", "base", "new", "difference", "+/-", "errors");
        if (n <= most)
            print_difference(c, &c->rows[i], out);
    }
    if (n > most)
        fprintf(out, "(%zu more)\n", n - most);
    if (n == 0)
        fputs("Nothing differs by more than noise.\n", out);
}

/* ---- The form -------------------------------------------------------------------------------- */

static enum status compare_profiles(const struct view *view, const struct profile *old, size_t old_type,
                                    FILE *out)
{
    struct comparison c = {.view = view, .sides = {{old, old_type, 0}, {view->profile, view->type, 0}}};
    struct graph graphs[N_SIDES];

    choose_bases(&c);
    if (c.sides[OLD].base <= 0 || c.sides[NEW].base <= 0)
        return complain(STATUS_NO, "One of the profiles has no values of %s: there is nothing to compare.",
                        view->profile->types[view->type].name);
    for (size_t i = 0; i < N_SIDES; i++)
        add_side(&c, i, &graphs[i]);
    settle_rows(&c);
    print_comparison(&c, out);
    for (size_t i = 0; i < N_SIDES; i++)
        graph_free(&graphs[i]);
    cp__strings_free(&c.names);
    free(c.rows);
    return STATUS_OK;
}

enum status print_diff(const struct view *view, FILE *out)
{
    const struct value_type *type = &view->profile->types[view->type];
    char *name = (char *)(uintptr_t)view->argument;
    struct source source;
    struct profile *old = NULL;
    size_t old_type;
    enum status status = sources_read(&source, &name, 1);

    if (status != STATUS_OK)
        return status;
    status = sources_parse(&source, 1, &old);
    sources_free(&source, 1);
    if (status != STATUS_OK)
        return status;
    if (!profile_find_type(old, type->name, &old_type) || strcmp(old->types[old_type].unit, type->unit) != 0)
        status = complain(STATUS_USAGE, "%s has no values of %s (%s). Compare profiles of the same event.",
                          view->argument, type->name, type->unit);
    else
        status = filters_apply(&view->filters, old);
    if (status == STATUS_OK)
        status = compare_profiles(view, old, old_type, out);
    profile_free(old);
    return status;
}
