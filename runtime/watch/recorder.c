#include "recorder.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/fork_gate.h"
#include "runtime/label.h"

/* Closes what no watch counts any more, because a counter that is open costs the kernel's switches. */
static void close_unused(struct cp__watch_m *own)
{
    for (unsigned k = 0; k < CP__METERS; k++) {
        /* relaxed: a meter that is taken again meanwhile gets another number, and is opened again */
        if (own->meters[k].seq != 0 && cp_load_relaxed(&cp__meters[k].refs) == 0)
            cp__meter_close(&own->meters[k]);
    }
}

/* ---- Shards ---------------------------------------------------------------------------------- */

/* Makes room in the M's index for one more number. */
static int make_place(struct cp__watch_m *own, unsigned number)
{
    size_t n = number + 1 > 2 * own->n_shards ? number + 1 : 2 * own->n_shards;
    struct cp__shard **shards;

    if (number < own->n_shards)
        return 0;
    shards = realloc(own->shards, n * sizeof *shards);
    if (shards == NULL)
        return -ENOMEM;
    memset(shards + own->n_shards, 0, (n - own->n_shards) * sizeof *shards);
    own->shards = shards;
    own->n_shards = n;
    return 0;
}

/* Takes a shard over that an M has left, or makes one. Under the watch's lock. */
static struct cp__shard *take_shard(struct cp_watch *watch)
{
    struct cp__shard *shard = watch->shards;

    while (shard != NULL && shard->is_taken)
        shard = shard->next;
    if (shard == NULL) {
        shard = calloc(1, sizeof *shard);
        if (shard == NULL)
            return NULL;
        shard->next = watch->shards;
        watch->shards = shard;
    }
    shard->is_taken = true;
    return shard;
}

struct cp__shard *cp__shard_make(struct cp__m *m, struct cp_watch *watch)
{
    struct cp__watch_m *own = m->watch;
    struct cp__shard *shard = NULL;

    cp__fork_delay();
    if (own == NULL)
        m->watch = own = calloc(1, sizeof *own);
    if (own != NULL && make_place(own, watch->entry.number) == 0) {
        cp__lock(&watch->lock);
        shard = take_shard(watch);
        cp__unlock(&watch->lock);
        own->shards[watch->entry.number] = shard;
        close_unused(own);
    }
    cp__fork_allow();
    return shard;
}

static void forget_labels(struct cp__shard *shard)
{
    for (unsigned i = 0; i < CP__SHARD_CACHE; i++) {
        cp_labels_unref(shard->cache[i].labels);
        shard->cache[i].labels = NULL;
        shard->cache[i].is_known = false;
    }
}

void cp__shards_leave(struct cp__watch_m *own)
{
    cp__fork_delay();
    for (size_t number = 0; number < own->n_shards; number++) {
        struct cp__shard *shard = own->shards[number];
        /* a watch that was closed has freed its shards */
        struct cp_watch *watch = shard == NULL ? NULL : cp__registry_hold((unsigned)number);

        if (watch != NULL) {
            cp__lock(&watch->lock);
            forget_labels(shard);
            shard->is_taken = false;
            cp__unlock(&watch->lock);
        }
        if (shard != NULL)
            cp__registry_let_go();
    }
    free(own->shards);
    own->shards = NULL;
    own->n_shards = 0;
    cp__fork_allow();
}

/* ---- Series ---------------------------------------------------------------------------------- */

static const char *label_value(const struct cp_labels *labels, const char *key)
{
    for (size_t i = 0; i < cp_labels_count(labels); i++) {
        if (strcmp(labels->items[i].key, key) == 0)
            return labels->items[i].value;
    }
    return "";
}

static bool has_values(const struct cp_watch *watch, const struct cp__watch_series *series,
                       const struct cp_labels *labels)
{
    for (unsigned i = 0; i < watch->n_keys; i++) {
        if (strcmp(series->values[i], label_value(labels, watch->keys[i])) != 0)
            return false;
    }
    return true;
}

static uint32_t hash_values(const struct cp_watch *watch, const struct cp_labels *labels)
{
    uint64_t hash = 0;

    for (unsigned i = 0; i < watch->n_keys; i++)
        hash = cp__hash_add_string(hash, label_value(labels, watch->keys[i]));
    return cp__hash_end(hash);
}

static void forget_series(const struct cp_watch *watch, struct cp__watch_series *series)
{
    for (unsigned i = 0; series->values != NULL && i < watch->n_keys; i++)
        free(series->values[i]);
    free(series->values);
    cp_labels_unref(series->labels);
}

/* Makes a series of the values that the labels have for the watch's keys; `value` stands for each of them if
 * it is not NULL. */
static int make_series(const struct cp_watch *watch, struct cp__watch_series *series,
                       const struct cp_labels *labels, const char *value)
{
    int result = 0;

    *series = (struct cp__watch_series){.values = calloc(watch->n_keys + 1, sizeof *series->values)};
    if (series->values == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < watch->n_keys && result == 0; i++) {
        struct cp_labels *old = series->labels;

        series->values[i] = strdup(value != NULL ? value : label_value(labels, watch->keys[i]));
        result = series->values[i] == NULL ? -ENOMEM : 0;
        if (result == 0 && series->values[i][0] != '\0') {
            result = cp__labels_with(old, watch->keys[i], series->values[i], &series->labels);
            if (result == 0)
                cp_labels_unref(old);
            else
                series->labels = old;
        }
    }
    if (result < 0)
        forget_series(watch, series);
    return result;
}

/* Appends a series. Returns its number or -ENOMEM. Under the watch's lock. */
static int64_t append_series(struct cp_watch *watch, const struct cp_labels *labels, const char *value,
                             uint32_t hash)
{
    struct cp__watch_series made;

    if (cp__table_reserve(&watch->series_table, 1) < 0 ||
        CP__RESERVE(watch->series, watch->series_capacity, watch->n_series + 1) < 0 ||
        make_series(watch, &made, labels, value) < 0)
        return -ENOMEM;
    watch->series[watch->n_series] = made;
    cp__table_insert(&watch->series_table, hash, (uint32_t)watch->n_series);
    return (int64_t)watch->n_series++;
}

int cp__series_begin(struct cp_watch *watch)
{
    return append_series(watch, NULL, watch->n_keys > 0 ? CP_WATCH_OTHERS : NULL, 0) < 0 ? -ENOMEM : 0;
}

/* Finds a series by its values, or makes it; the first one is for all others. Under the watch's lock. */
static uint32_t look_up(struct cp_watch *watch, const struct cp_labels *labels)
{
    const uint32_t hash = hash_values(watch, labels);
    uint32_t number;
    int64_t added;

    for (size_t at = hash; cp__table_next(&watch->series_table, hash, &at, &number);) {
        if (has_values(watch, &watch->series[number], labels))
            return number;
    }
    if (watch->n_series > watch->labels_max)
        return 0;
    added = append_series(watch, labels, NULL, hash);
    return added < 0 ? 0 : (uint32_t)added;
}

uint32_t cp__series_find(struct cp_watch *watch, struct cp__shard *shard, struct cp_labels *labels)
{
    const unsigned place = (unsigned)((uintptr_t)labels >> 5) % CP__SHARD_CACHE;
    uint32_t series;

    if (shard->cache[place].is_known && shard->cache[place].labels == labels)
        return shard->cache[place].series;
    cp__fork_delay();
    cp__lock(&watch->lock);
    series = look_up(watch, labels);
    cp__unlock(&watch->lock);
    cp_labels_unref(shard->cache[place].labels);
    shard->cache[place].labels = cp_labels_ref(labels);
    shard->cache[place].series = series;
    shard->cache[place].is_known = true;
    cp__fork_allow();
    return series;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static int make_row_place(struct cp__shard *shard, uint32_t number)
{
    size_t n = number + 1 > 2 * shard->n_rows ? number + 1 : 2 * shard->n_rows;
    struct cp__record **rows;

    if (number < shard->n_rows)
        return 0;
    rows = realloc(shard->rows, n * sizeof *rows);
    if (rows == NULL)
        return -ENOMEM;
    memset(rows + shard->n_rows, 0, (n - shard->n_rows) * sizeof *rows);
    shard->rows = rows;
    shard->n_rows = n;
    return 0;
}

struct cp__record *cp__record_make(const struct cp_watch *watch, struct cp__shard *shard, uint32_t number)
{
    struct cp__record *row = NULL;

    cp__fork_delay();
    if (make_row_place(shard, number) == 0)
        row = calloc(1, sizeof *row + watch->n_quantities * sizeof row->histograms[0]);
    if (row != NULL) {
        for (unsigned i = 0; i < watch->n_quantities; i++)
            cp__histogram_init(&row->histograms[i]);
        row->number = number;
        row->next = shard->linked;
        cp_store_release(&shard->linked, row); /* pairs with the acquires in add_shard() and forget_shard() */
        shard->rows[number] = row;
    }
    cp__fork_allow();
    return row;
}

/* ---- Snapshots ------------------------------------------------------------------------------- */

/* A fork's child has the rows of its parent, without their rounds. */
static bool is_empty_row(const struct cp__record *row)
{
    return cp_load_relaxed(&row->histograms[0].count) ==
           0; /* relaxed: a round that has just ended may be left out */
}

static int add_row(const struct cp_watch *watch, const struct cp__record *row, struct cp__snapshot_watch *to)
{
    const struct cp__watch_series *series = &watch->series[row->number / CP__WATCH_SIDES];
    struct cp__snapshot_series *sum =
        cp__snapshot_series_of(to, (const char *const *)series->values, row->number % CP__WATCH_SIDES);
    int result = sum == NULL ? -ENOMEM : 0;

    for (unsigned i = 0; i < watch->n_quantities && result == 0; i++)
        result = cp__histogram_merge(&sum->histograms[i], &row->histograms[i]);
    return result;
}

static int add_shard(const struct cp_watch *watch, const struct cp__shard *shard,
                     struct cp__snapshot_watch *to)
{
    int result = 0;

    /* relaxed, all: numbers of their own. A round that has just ended may be seen to have ended and not to
     * have begun: cp__watch_fill() allows for that. */
    to->state.open -= cp_load_relaxed(&shard->ended);
    to->state.open += cp_load_relaxed(&shard->begun);
    to->state.partial += cp_load_relaxed(&shard->partial);
    to->state.refused += cp_load_relaxed(&shard->refused);
    to->state.lost += cp_load_relaxed(&shard->lost);
    to->state.dropped += cp_load_relaxed(&shard->dropped);
    /* acquire: pairs with the release in cp__record_make() */
    for (const struct cp__record *row = cp_load_acquire(&shard->linked); row != NULL && result == 0;
         row = row->next)
        result = is_empty_row(row) ? 0 : add_row(watch, row, to);
    return result;
}

int cp__watch_fill(const void *context, struct cp_watch_snapshot *snapshot)
{
    struct cp_watch *watch = (struct cp_watch *)(uintptr_t)context; /* only the lock is changed */
    struct cp__snapshot_watch *to;
    int result = 0;

    to = cp__snapshot_add_watch(snapshot, watch->entry.name, (const char *const *)watch->keys, watch->n_keys);
    if (to == NULL)
        return -ENOMEM;
    to->n_quantities = watch->n_quantities;
    memcpy(to->quantities, watch->quantities, sizeof to->quantities);
    /* relaxed, all: numbers of their own */
    to->state.refused = cp_load_relaxed(&watch->refused);
    to->state.lost = cp_load_relaxed(&watch->lost);
    to->state.dropped = cp_load_relaxed(&watch->dropped);
    to->state.open -= cp_load_relaxed(&watch->ended);
    cp__lock(&watch->lock);
    for (const struct cp__shard *shard = watch->shards; shard != NULL && result == 0; shard = shard->next)
        result = add_shard(watch, shard, to);
    cp__unlock(&watch->lock);
    /* A watch without rounds has a row that says so. */
    if (result == 0 && watch->n_keys == 0 && to->n_series == 0 &&
        cp__snapshot_series_of(to, NULL, CP_WATCH_UNFORKED) == NULL)
        result = -ENOMEM;
    if (to->state.open > INT64_MAX)
        to->state.open = 0; /* a round was begun on one M and ended on another while the shards were read */
    return result;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void free_shard(const struct cp_watch *watch, struct cp__shard *shard)
{
    struct cp__record *next;

    for (struct cp__record *row = shard->linked; row != NULL; row = next) {
        next = row->next;
        for (unsigned i = 0; i < watch->n_quantities; i++)
            cp__histogram_fini(&row->histograms[i]);
        free(row);
    }
    forget_labels(shard);
    cp__begins_free(&shard->stacks);
    free(shard->rows);
    free(shard);
}

void cp__watch_free_records(struct cp_watch *watch)
{
    struct cp__shard *next;

    for (struct cp__shard *shard = watch->shards; shard != NULL; shard = next) {
        next = shard->next;
        free_shard(watch, shard);
    }
    for (size_t i = 0; i < watch->n_series; i++)
        forget_series(watch, &watch->series[i]);
    free(watch->series);
    cp__table_free(&watch->series_table);
}

/* Forgets what the parent has measured. The Ms of other threads are gone, and their shards free. */
static void forget_shard(const struct cp_watch *watch, struct cp__shard *shard, bool is_own)
{
    /* acquire: pairs with the release in cp__record_make() */
    for (struct cp__record *row = cp_load_acquire(&shard->linked); row != NULL; row = row->next) {
        for (unsigned i = 0; i < watch->n_quantities; i++)
            cp__histogram_forget(&row->histograms[i]);
    }
    shard->is_taken = is_own;
    shard->begun = shard->ended = shard->partial = shard->refused = shard->lost = shard->dropped = 0;
    cp__begins_forget(&shard->stacks);
}

void cp__watch_forget(void *context)
{
    struct cp_watch *watch = context;
    const struct cp__watch_m *own = cp__m_current == NULL ? NULL : cp__m_current->watch;
    const struct cp__shard *mine =
        own != NULL && watch->entry.number < own->n_shards ? own->shards[watch->entry.number] : NULL;

    cp__lock_reset(&watch->lock);
    watch->refused = watch->ended = watch->lost = watch->dropped = 0;
    for (struct cp__shard *shard = watch->shards; shard != NULL; shard = shard->next)
        forget_shard(watch, shard, shard == mine);
}
