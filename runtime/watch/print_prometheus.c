/*
 * Snapshots for Prometheus, in its text format.
 *
 * A quantity is a histogram of Prometheus, with fixed bounds: only if all rows have the same bounds, those
 * of several programs can be added. A bound is the largest value of one of our buckets, so that the count of
 * the values up to it is exact: 2^k - 1 is one, because a power of two begins a block, and 1.5 * 2^k - 1 is
 * one, too. A time has the bounds 255 ns, 511 ns ... to 69 s, which are decimals without rounding.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

/* ---- Families -------------------------------------------------------------------------------- */

/* A quantity of a watch; all of one name are printed together. */
struct family_part {
    char name[CP__PROMETHEUS_NAME_MAX];
    size_t watch;
    unsigned quantity;
};

struct prometheus {
    const struct cp_watch_snapshot *snapshot;
    FILE *out;
    struct family_part *parts;
    size_t n_parts;
    char (**labels)[CP__PROMETHEUS_NAME_MAX]; /* of each watch, the names of its keys */
};

static int compare_parts(const void *a, const void *b)
{
    const struct family_part *x = a, *y = b;
    const int order = strcmp(x->name, y->name);

    if (order != 0)
        return order;
    return x->watch != y->watch ? (x->watch > y->watch) - (x->watch < y->watch)
                                : (int)x->quantity - (int)y->quantity;
}

static void free_parts(struct prometheus *p)
{
    for (size_t i = 0; i < p->snapshot->n && p->labels != NULL; i++)
        free(p->labels[i]);
    free(p->labels);
    free(p->parts);
}

/* Makes all names before anything is printed. Returns 0 or -ENOMEM. */
static int list_parts(struct prometheus *p)
{
    static const char *const taken[] = {"watch", "side", "quantity", "keys", "le", "quantile", NULL};
    const size_t n = p->snapshot->n;

    p->labels = calloc(n + 1, sizeof p->labels[0]);
    p->parts = malloc((n * CP_WATCH_QUANTITIES + 1) * sizeof p->parts[0]);
    if (p->labels == NULL || p->parts == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct cp__snapshot_watch *watch = &p->snapshot->watches[i];

        p->labels[i] = malloc((watch->n_keys + 1) * sizeof p->labels[i][0]);
        if (p->labels[i] == NULL)
            return -ENOMEM;
        cp__prometheus_labels(p->labels[i], watch->keys, watch->n_keys, taken);
        for (unsigned q = 0; q < watch->n_quantities; q++) {
            struct family_part *part = &p->parts[p->n_parts++];

            cp__prometheus_metric(part->name, watch->quantities[q].name);
            part->watch = i;
            part->quantity = q;
        }
    }
    qsort(p->parts, p->n_parts, sizeof p->parts[0], compare_parts);
    return 0;
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* Bounds below powers of two, from one to another by steps, with each step divided into parts. */
struct ladder {
    unsigned first, last, step, parts;
};

static const struct ladder *ladder_of(const char *unit)
{
    static const struct ladder time = {8, 36, 1, 1}, ratio = {6, 24, 1, 2}, count = {2, 40, 2, 1};

    return strcmp(unit, "ns") == 0 ? &time : strcmp(unit, "ratio") == 0 ? &ratio : &count;
}

/* Returns the bound with a number from 0; 0: there are no more. */
static uint64_t bound_at(const struct ladder *ladder, unsigned number)
{
    const unsigned power = ladder->first + number / ladder->parts * ladder->step;
    const unsigned part = number % ladder->parts;

    if (power > ladder->last || (power == ladder->last && part > 0))
        return 0;
    return ((uint64_t)1 << power) + ((uint64_t)part << power) / ladder->parts - 1;
}

/* ---- Histograms ------------------------------------------------------------------------------ */

struct series_printer {
    const struct prometheus *p;
    const struct family_part *part;
    const struct cp__snapshot_watch *watch;
    const struct cp__snapshot_series *series;
    const struct ladder *ladder;
    double divisor;  /* by it a value is in what Prometheus gets: seconds, a count, a ratio */
    unsigned number; /* of the bound that is next */
    uint64_t count;  /* of the values up to it */
};

/* Prints a sample's name and labels, but for the closing brace. */
static void print_sample_head(const struct series_printer *s, const char *end)
{
    FILE *out = s->p->out;
    const struct cp__watch_quantity *quantity = &s->watch->quantities[s->part->quantity];

    fprintf(out, "%s%s{watch=\"", s->part->name, end);
    cp__prometheus_text(out, s->watch->name, true);
    fputs("\"", out);
    for (size_t i = 0; i < s->watch->n_keys; i++) {
        fprintf(out, ",%s=\"", s->p->labels[s->part->watch][i]);
        cp__prometheus_text(out, s->series->values[i], true);
        fputs("\"", out);
    }
    if (s->series->side != CP_WATCH_UNFORKED)
        fprintf(out, ",side=\"%s\"", cp__watch_side_name(s->series->side));
    if (strcmp(quantity->unit, "ns") != 0) {
        fputs(",quantity=\"", out);
        cp__prometheus_text(out, quantity->name, true);
        fputs("\"", out);
    }
    /* Otherwise a watch of the same name and other keys could have the same labels. */
    for (size_t i = 0; i < s->watch->n_keys && s->watch->is_continued; i++) {
        fputs(i == 0 ? ",keys=\"" : ",", out);
        cp__prometheus_text(out, s->watch->keys[i], true);
        fputs(i == s->watch->n_keys - 1 ? "\"" : "", out);
    }
}

static void print_bound(struct series_printer *s)
{
    print_sample_head(s, "_bucket");
    fputs(",le=\"", s->p->out);
    cp__watch_print_number(s->p->out, (double)bound_at(s->ladder, s->number++) / s->divisor);
    fprintf(s->p->out, "\"} %" PRIu64 "\n", s->count);
}

static int print_bounds_before(void *context, uint64_t low, uint64_t high, uint64_t count)
{
    struct series_printer *s = context;

    (void)high; /* no bound is between low and high, but perhaps at high */
    while (bound_at(s->ladder, s->number) != 0 && bound_at(s->ladder, s->number) < low)
        print_bound(s);
    s->count += count;
    return 0;
}

static void print_histogram(struct series_printer *s)
{
    const struct cp__histogram *h = &s->series->histograms[s->part->quantity];
    FILE *out = s->p->out;

    cp__histogram_each(h, print_bounds_before, s);
    while (bound_at(s->ladder, s->number) != 0)
        print_bound(s);
    print_sample_head(s, "_bucket");
    fprintf(out, ",le=\"+Inf\"} %" PRIu64 "\n", h->count);
    print_sample_head(s, "_sum");
    fputs("} ", out);
    cp__watch_print_number(out, cp__histogram_sum(h) / s->divisor);
    fputc('\n', out);
    print_sample_head(s, "_count");
    fprintf(out, "} %" PRIu64 "\n", h->count);
}

static void print_family_part(const struct prometheus *p, const struct family_part *part)
{
    const struct cp__snapshot_watch *watch = &p->snapshot->watches[part->watch];
    const struct cp__watch_quantity *quantity = &watch->quantities[part->quantity];

    for (size_t i = 0; i < watch->n_series; i++)
        print_histogram(&(struct series_printer){
            .p = p,
            .part = part,
            .watch = watch,
            .series = &watch->series[watch->sorted[i]],
            .ladder = ladder_of(quantity->unit),
            .divisor = strcmp(quantity->unit, "ns") == 0 ? 1e9 : 1 / quantity->scale});
}

static void print_family_head(const struct prometheus *p, const struct family_part *part)
{
    const char *quantity = p->snapshot->watches[part->watch].quantities[part->quantity].name;

    fprintf(p->out, "# HELP %s ", part->name);
    if (strcmp(quantity, "time") == 0)
        fputs("Time from begin to end of the rounds of watches.", p->out);
    else if (strcmp(quantity, "cpuTime") == 0)
        fputs("CPU time of the rounds of watches.", p->out);
    else {
        fputs("What the rounds of watches have of the quantity ", p->out);
        cp__prometheus_text(p->out, quantity, false);
        fputs(".", p->out);
    }
    fprintf(p->out, "\n# TYPE %s histogram\n", part->name);
}

/* ---- What is in no distribution -------------------------------------------------------------- */

static const struct state_metric {
    const char *name;
    const char *type;
    const char *help;
    size_t offset; /* in struct cp_watch_state */
} state_metrics[] = {
    {"counterpoint_watch_rounds_open", "gauge", "Rounds of watches, or keys, that are open.",
     offsetof(struct cp_watch_state, open)},
    {"counterpoint_watch_rounds_partial_total", "counter",
     "Rounds that are in the distribution of time alone, because the other counts would be estimates.",
     offsetof(struct cp_watch_state, partial)},
    {"counterpoint_watch_rounds_refused_total", "counter", "Begins of rounds, or of keys, that were refused.",
     offsetof(struct cp_watch_state, refused)},
    {"counterpoint_watch_rounds_lost_total", "counter",
     "Rounds without memory for their values, and keys that a second begin has replaced.",
     offsetof(struct cp_watch_state, lost)},
    {"counterpoint_watch_rounds_unknown_total", "counter", "Moves and ends of keys that were not open.",
     offsetof(struct cp_watch_state, unknown)},
    {"counterpoint_watch_rounds_dropped_total", "counter", "Rounds that the program has dropped.",
     offsetof(struct cp_watch_state, dropped)},
};

struct state_printer {
    FILE *out;
    const struct state_metric *metric;
};

static int print_state_sample(void *context, const struct cp_watch_state *state)
{
    const struct state_printer *s = context;
    uint64_t value;

    memcpy(&value, (const char *)state + s->metric->offset, sizeof value);
    fprintf(s->out, "%s{watch=\"", s->metric->name);
    cp__prometheus_text(s->out, state->watch, true);
    fprintf(s->out, "\"} %" PRIu64 "\n", value);
    return 0;
}

static void print_states(const struct prometheus *p)
{
    for (size_t i = 0; i < sizeof state_metrics / sizeof state_metrics[0] && p->snapshot->n > 0; i++) {
        const struct state_metric *metric = &state_metrics[i];

        fprintf(p->out, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help, metric->name,
                metric->type);
        cp_watch_states(p->snapshot, print_state_sample, &(struct state_printer){p->out, metric});
    }
}

int cp__watch_print_prometheus(const struct cp_watch_snapshot *snapshot, FILE *out)
{
    struct prometheus p = {.snapshot = snapshot, .out = out};
    int result = list_parts(&p);

    for (size_t i = 0; i < p.n_parts && result == 0; i++) {
        if (i == 0 || strcmp(p.parts[i].name, p.parts[i - 1].name) != 0)
            print_family_head(&p, &p.parts[i]);
        print_family_part(&p, &p.parts[i]);
    }
    if (result == 0)
        print_states(&p);
    free_parts(&p);
    return result;
}
