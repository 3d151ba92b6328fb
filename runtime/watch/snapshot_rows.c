/* Snapshots: what programs read of them. */
#include "snapshot.h"

/* What cp_watch_row.distribution points to. */
struct scaled {
    const struct cp__histogram *histogram;
    double divisor;
};

/* Values are divided by a whole number, so that 230 millionths are 0.00023 and not 0.00022999999999999998. */
static double divisor_of(const struct cp__watch_quantity *quantity)
{
    return 1 / quantity->scale;
}

static struct cp_watch_row measured_row(const struct cp__snapshot_watch *watch,
                                        const struct cp__snapshot_series *series, unsigned q)
{
    const struct cp__histogram *h = &series->histograms[q];
    const double divisor = divisor_of(&watch->quantities[q]);

    return (struct cp_watch_row){.size = sizeof(struct cp_watch_row),
                                 .watch = watch->name,
                                 .labels = series->labels,
                                 .n_labels = watch->n_keys,
                                 .side = series->side,
                                 .quantity = watch->quantities[q].name,
                                 .unit = watch->quantities[q].unit,
                                 .count = h->count,
                                 .sum = cp__histogram_sum(h) / divisor,
                                 .min = h->count == 0 ? 0 : (double)h->min / divisor,
                                 .max = (double)h->max / divisor,
                                 .mean = cp__histogram_mean(h) / divisor,
                                 .sigma = cp__histogram_sigma(h) / divisor};
}

/* The rows of one watch. */
static int each_row_of(const struct cp__snapshot_watch *watch, cp_watch_row_fn *fn, void *context)
{
    int result = 0;

    for (size_t i = 0; i < watch->n_series && result == 0; i++) {
        const struct cp__snapshot_series *series = &watch->series[watch->sorted[i]];

        for (unsigned q = 0; q < watch->n_quantities && result == 0; q++) {
            const struct scaled scaled = {&series->histograms[q], divisor_of(&watch->quantities[q])};
            struct cp_watch_row row = measured_row(watch, series, q);

            row.distribution = &scaled;
            result = fn(context, &row);
        }
    }
    return result;
}

int cp_watch_each(const struct cp_watch_snapshot *snapshot, cp_watch_row_fn *fn, void *context)
{
    int result = 0;

    for (size_t i = 0; i < snapshot->n && result == 0; i++)
        result = each_row_of(&snapshot->watches[i], fn, context);
    return result;
}

double cp_watch_percentile(const struct cp_watch_row *row, double percent)
{
    const struct scaled *scaled = row->distribution;

    return (double)cp__histogram_percentile(scaled->histogram, percent) / scaled->divisor;
}

struct listing {
    double divisor;
    cp_watch_bucket_fn *fn;
    void *context;
};

static int call_for_bucket(void *context, uint64_t low, uint64_t high, uint64_t count)
{
    const struct listing *listing = context;

    return listing->fn(listing->context, (double)low / listing->divisor, (double)high / listing->divisor,
                       count);
}

int cp_watch_buckets(const struct cp_watch_row *row, cp_watch_bucket_fn *fn, void *context)
{
    const struct scaled *scaled = row->distribution;
    struct listing listing = {scaled->divisor, fn, context};

    return cp__histogram_each(scaled->histogram, call_for_bucket, &listing);
}

int cp_watch_states(const struct cp_watch_snapshot *snapshot, cp_watch_state_fn *fn, void *context)
{
    int result = 0;

    for (size_t i = 0; i < snapshot->n && result == 0; i++) {
        struct cp_watch_state state = snapshot->watches[i].state;

        if (snapshot->watches[i].is_continued)
            continue;
        state.size = sizeof state;
        state.watch = snapshot->watches[i].name;
        result = fn(context, &state);
    }
    return result;
}
