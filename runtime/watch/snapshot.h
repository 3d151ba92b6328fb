/* What a snapshot has: the contents of struct cp_watch_snapshot. Whoever measures fills it, watch by watch.
 */
#ifndef COUNTERPOINT_RUNTIME_WATCH_SNAPSHOT_H
#define COUNTERPOINT_RUNTIME_WATCH_SNAPSHOT_H

#include "histogram.h"
#include "watch.h"

/* A quantity as it is shown: a value of the histogram times scale is in the unit. */
struct cp__watch_quantity {
    char name[CP_WATCH_NAME_MAX * 4];
    const char *unit; /* "ns", "count" or "ratio"; never freed */
    double scale;     /* 1, or 1e-6 for ratios, which histograms have in millionths */
};

/* The rounds of one watch that have the same labels and side: a histogram for each quantity. */
struct cp__snapshot_series {
    char **values;           /* of the watch's keys, in their order */
    struct cp_label *labels; /* the same with the keys; in the memory of values */
    enum cp_watch_side side;
    struct cp__histogram histograms[CP_WATCH_QUANTITIES];
};

struct cp__snapshot_watch {
    const char *name; /* in the memory of keys; that of a function may be longer than CP_WATCH_NAME_MAX */
    size_t n_quantities;
    struct cp__watch_quantity quantities[CP_WATCH_QUANTITIES];
    bool is_keyed; /* a watch for keys: its state is about keys, and not about rounds */
    char **keys;   /* of labels */
    size_t n_keys;
    struct cp__snapshot_series *series;
    size_t n_series, series_capacity;
    size_t *sorted; /* the numbers of the series in the order of values, then of sides */
    size_t sorted_capacity;
    struct cp_watch_state state; /* its members size and watch are not set */
    bool is_continued;           /* after merging: a watch before this one has the name, and the state */
};

struct cp_watch_snapshot {
    struct cp__snapshot_watch *watches;
    size_t n, capacity;
};

/* Makes an empty snapshot; NULL: no memory. */
struct cp_watch_snapshot *cp__snapshot_new(void);
/* Appends a watch without quantities and series, with copies of the n_keys keys; NULL: no memory. The pointer
 * is valid until the next call. */
struct cp__snapshot_watch *cp__snapshot_add_watch(struct cp_watch_snapshot *snapshot, const char *name,
                                                  const char *const *keys, size_t n_keys);
/* Returns the watch's series with these values, one for each of its keys, and that side. If there is none,
 * one with empty histograms is appended; NULL: no memory. The pointer is valid until the next call. */
struct cp__snapshot_series *cp__snapshot_series_of(struct cp__snapshot_watch *watch,
                                                   const char *const *values, enum cp_watch_side side);

#endif
