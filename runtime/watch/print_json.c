/* Snapshots as JSON. */
#include <inttypes.h>

#include "print.h"
#include "text.h"

struct json {
    FILE *out;
    bool needs_comma;
};

/* Begins an element of a list: behind the first one each has a comma before it. */
static void separate(struct json *json, const char *comma)
{
    fputs(json->needs_comma ? comma : "", json->out);
    json->needs_comma = true;
}

static int print_json_bucket(void *context, double low, double high, uint64_t count)
{
    struct json *json = context;

    separate(json, ",");
    fputc('[', json->out);
    cp__watch_print_number(json->out, low);
    fputc(',', json->out);
    cp__watch_print_number(json->out, high);
    fprintf(json->out, ",%" PRIu64 "]", count);
    return 0;
}

static void print_json_labels(FILE *out, const struct cp_watch_row *row)
{
    fputs("{", out);
    for (size_t i = 0; i < row->n_labels; i++) {
        fputs(i > 0 ? "," : "", out);
        cp__json_string(out, row->labels[i].key);
        fputs(":", out);
        cp__json_string(out, row->labels[i].value);
    }
    fputs("}", out);
}

static void print_json_figures(FILE *out, const struct cp_watch_row *row)
{
    const struct {
        const char *name;
        double value;
    } figures[] = {
        {"sum", row->sum}, {"min", row->min}, {"max", row->max}, {"mean", row->mean}, {"sigma", row->sigma}};

    fprintf(out, ",\"count\":%" PRIu64, row->count);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        fprintf(out, ",\"%s\":", figures[i].name);
        cp__watch_print_number(out, figures[i].value);
    }
    fputs(",\"percentiles\":{", out);
    for (unsigned i = 0; i < CP__WATCH_PERCENTILES; i++) {
        fprintf(out, "%s\"%g\":", i > 0 ? "," : "", cp__watch_percentiles[i]);
        cp__watch_print_number(out, cp_watch_percentile(row, cp__watch_percentiles[i]));
    }
    fputs("}", out);
}

static int print_json_row(void *context, const struct cp_watch_row *row)
{
    struct json *json = context, buckets = {json->out, false};
    const char *side = cp__watch_side_name(row->side);

    separate(json, ",\n");
    fputs("{\"watch\":", json->out);
    cp__json_string(json->out, row->watch);
    fputs(",\"labels\":", json->out);
    print_json_labels(json->out, row);
    fprintf(json->out, ",\"side\":\"%s\",\"quantity\":", *side != '\0' ? side : "unforked");
    cp__json_string(json->out, row->quantity);
    fprintf(json->out, ",\"unit\":\"%s\"", row->unit);
    print_json_figures(json->out, row);
    fputs(",\"buckets\":[", json->out);
    cp_watch_buckets(row, print_json_bucket, &buckets);
    fputs("]}", json->out);
    return 0;
}

static int print_json_state(void *context, const struct cp_watch_state *state)
{
    struct json *json = context;

    separate(json, ",\n");
    fputs("{\"watch\":", json->out);
    cp__json_string(json->out, state->watch);
    fprintf(json->out,
            ",\"open\":%" PRIu64 ",\"partial\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"lost\":%" PRIu64
            ",\"unknown\":%" PRIu64 ",\"dropped\":%" PRIu64 "}",
            state->open, state->partial, state->refused, state->lost, state->unknown, state->dropped);
    return 0;
}

void cp__watch_print_json(const struct cp_watch_snapshot *snapshot, FILE *out)
{
    fputs("{\"rows\":[", out);
    cp_watch_each(snapshot, print_json_row, &(struct json){out, false});
    fputs("],\n\"states\":[", out);
    cp_watch_states(snapshot, print_json_state, &(struct json){out, false});
    fputs("]}\n", out);
}
