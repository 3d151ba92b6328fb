/* Snapshots of watches that nobody has measured. */
#ifndef COUNTERPOINT_TESTS_MADE_WATCHES_H
#define COUNTERPOINT_TESTS_MADE_WATCHES_H

#include <string.h>

#include "runtime/watch/snapshot.h"
#include "test.h"

/* Adds a watch with quantities, whose names have commas between them; keys likewise. Ratios are "ipc" and
 * those that have "per" in their names. */
static inline struct cp__snapshot_watch *add_made(struct cp_watch_snapshot *snapshot, const char *name,
                                                  const char *quantities, const char *keys)
{
    char copy[2][200], *rest[2] = {copy[0], copy[1]}, *word;
    const char *list[8];
    struct cp__snapshot_watch *watch;
    size_t n = 0;

    snprintf(copy[0], sizeof copy[0], "%s", quantities);
    snprintf(copy[1], sizeof copy[1], "%s", keys);
    while ((word = strsep(&rest[1], ",")) != NULL) {
        if (*word != '\0')
            list[n++] = word;
    }
    watch = cp__snapshot_add_watch(snapshot, name, list, n);
    CHECK(watch != NULL);
    while ((word = strsep(&rest[0], ",")) != NULL && *word != '\0') {
        struct cp__watch_quantity *quantity = &watch->quantities[watch->n_quantities++];

        const bool is_ratio = strcmp(word, "ipc") == 0 || strstr(word, " per ") != NULL;

        quantity->unit = is_ratio ? "ratio" : strcasestr(word, "time") != NULL ? "ns" : "count";
        quantity->scale = is_ratio ? 1e-6 : 1;
        snprintf(quantity->name, sizeof quantity->name, "%s", word);
    }
    return watch;
}

/* Records a value of each quantity: the first has this one, and each further one 10 more. */
static inline void record_round(struct cp__snapshot_watch *watch, const char *a, const char *b,
                                enum cp_watch_side side, uint64_t value)
{
    struct cp__snapshot_series *series = cp__snapshot_series_of(watch, (const char *[]){a, b}, side);

    CHECK(series != NULL);
    for (unsigned q = 0; q < watch->n_quantities; q++)
        CHECK_EQ(cp__histogram_record(&series->histograms[q], value + 10 * q), 0);
}

#endif
