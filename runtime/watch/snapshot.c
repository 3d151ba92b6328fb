/* Snapshots: their memory, and how their series are found. */
#include "snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/table.h"

struct cp_watch_snapshot *cp__snapshot_new(void)
{
    return calloc(1, sizeof(struct cp_watch_snapshot));
}

/* Copies n strings into one piece of memory, behind an array of pointers to them and `more` bytes. Returns
 * the array; NULL: no memory. */
static char **pack_strings(const char *const *strings, size_t n, size_t more)
{
    size_t size = (n + 1) * sizeof(char *) + more;
    char **copies, *end;

    for (size_t i = 0; i < n; i++)
        size += strlen(strings[i]) + 1;
    copies = malloc(size);
    end = copies != NULL ? (char *)(copies + n) + more : NULL;
    for (size_t i = 0; i < n && copies != NULL; i++) {
        copies[i] = end;
        end = stpcpy(end, strings[i]) + 1;
    }
    return copies;
}

/* ---- Watches --------------------------------------------------------------------------------- */

struct cp__snapshot_watch *cp__snapshot_add_watch(struct cp_watch_snapshot *snapshot, const char *name,
                                                  const char *const *keys, size_t n_keys)
{
    char **copies = pack_strings(keys, n_keys, strlen(name) + 1);
    struct cp__snapshot_watch *watch;

    if (copies == NULL || CP__RESERVE(snapshot->watches, snapshot->capacity, snapshot->n + 1) < 0) {
        free(copies);
        return NULL;
    }
    watch = &snapshot->watches[snapshot->n++];
    *watch = (struct cp__snapshot_watch){
        .name = strcpy((char *)(copies + n_keys), name), .keys = copies, .n_keys = n_keys};
    return watch;
}

static void fini_series(struct cp__snapshot_series *series)
{
    for (unsigned q = 0; q < CP_WATCH_QUANTITIES; q++)
        cp__histogram_fini(&series->histograms[q]);
    free(series->values);
}

void cp_watch_snapshot_free(struct cp_watch_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    for (size_t i = 0; i < snapshot->n; i++) {
        struct cp__snapshot_watch *watch = &snapshot->watches[i];

        for (size_t j = 0; j < watch->n_series; j++)
            fini_series(&watch->series[j]);
        free(watch->series);
        free(watch->sorted);
        free(watch->keys);
    }
    free(snapshot->watches);
    free(snapshot);
}

/* ---- Series ---------------------------------------------------------------------------------- */

/* Returns how the series stands to these values and that side: before (negative), after, or 0. */
static int order_of_series(const struct cp__snapshot_watch *watch, const struct cp__snapshot_series *series,
                           const char *const *values, enum cp_watch_side side)
{
    for (size_t i = 0; i < watch->n_keys; i++) {
        const int order = strcmp(series->values[i], values[i]);

        if (order != 0)
            return order;
    }
    return (int)series->side - (int)side;
}

/* Appends a series that stands at a place of the sorted ones. Returns NULL: no memory. */
static struct cp__snapshot_series *insert_series(struct cp__snapshot_watch *watch, size_t place,
                                                 const char *const *values, enum cp_watch_side side)
{
    const size_t n = watch->n_series;
    struct cp__snapshot_series *series;
    char **copies;

    if (CP__RESERVE(watch->series, watch->series_capacity, n + 1) < 0 ||
        CP__RESERVE(watch->sorted, watch->sorted_capacity, n + 1) < 0 ||
        (copies = pack_strings(values, watch->n_keys, watch->n_keys * sizeof(struct cp_label))) == NULL)
        return NULL;
    series = &watch->series[watch->n_series++];
    *series = (struct cp__snapshot_series){
        .values = copies, .labels = (struct cp_label *)(void *)(copies + watch->n_keys), .side = side};
    for (size_t i = 0; i < watch->n_keys; i++)
        series->labels[i] = (struct cp_label){watch->keys[i], copies[i]};
    for (unsigned q = 0; q < CP_WATCH_QUANTITIES; q++)
        cp__histogram_init(&series->histograms[q]);
    memmove(&watch->sorted[place + 1], &watch->sorted[place], (n - place) * sizeof watch->sorted[0]);
    watch->sorted[place] = n;
    return series;
}

struct cp__snapshot_series *cp__snapshot_series_of(struct cp__snapshot_watch *watch,
                                                   const char *const *values, enum cp_watch_side side)
{
    const size_t place = CP__COUNT_BEFORE(
        watch->n_series, i, order_of_series(watch, &watch->series[watch->sorted[i]], values, side) < 0);
    struct cp__snapshot_series *series;

    if (place < watch->n_series) {
        series = &watch->series[watch->sorted[place]];
        if (order_of_series(watch, series, values, side) == 0)
            return series;
    }
    return insert_series(watch, place, values, side);
}
