#include "sums.h"

#include <string.h>

#include "runtime/base/fork_gate.h"
#include "runtime/label.h"
#include "weight.h"

/* ---- Labels ---------------------------------------------------------------------------------- */

static struct cp_labels *append_labels(struct cp__wait_sums *sums, struct cp_labels *labels, uint32_t hash)
{
    struct cp_labels *added = NULL;

    cp__fork_delay(); /* a fork's child must find the table whole */
    if (sums->n_labels < CP__WAIT_RECORDS_MAX && cp__table_reserve(&sums->labels_table, 1) == 0 &&
        CP__RESERVE(sums->labels, sums->labels_capacity, sums->n_labels + 1) == 0) {
        added = cp_labels_ref(labels);
        cp__table_insert(&sums->labels_table, hash, (uint32_t)sums->n_labels);
        sums->labels[sums->n_labels++] = added;
    }
    cp__fork_allow();
    return added;
}

/* Returns the set that stands for those with the same keys and values; NULL: no room. */
static struct cp_labels *labels_by_contents(struct cp__wait_sums *sums, struct cp_labels *labels)
{
    const uint32_t hash = cp__labels_hash(labels);
    uint32_t number;

    for (size_t at = hash; cp__table_next(&sums->labels_table, hash, &at, &number);) {
        if (cp__labels_are_same(sums->labels[number], labels))
            return sums->labels[number];
    }
    return append_labels(sums, labels, hash);
}

/* The same by the cache. Returns false if there is no room. A fork's child finds a reference too many in the
 * cache, and never one too few. */
static bool known_labels(struct cp__wait_sums *sums, struct cp_labels *labels, struct cp_labels **same)
{
    const unsigned place = (unsigned)((uintptr_t)labels >> 5) % CP__WAIT_LABELS_CACHE;
    struct cp_labels *old = sums->cache[place].seen;

    *same = labels;
    if (labels == NULL)
        return true;
    if (old != labels) {
        *same = labels_by_contents(sums, labels);
        if (*same == NULL)
            return false;
        sums->cache[place].same = *same;
        /* release: a fork's child, which sees what it stores here, sees the reference, too */
        cp_store_release(&sums->cache[place].seen, cp_labels_ref(labels));
        cp_labels_unref(old);
    }
    *same = sums->cache[place].same;
    return true;
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Four frames a time, whose products do not wait for each other. */
uint64_t cp__wait_hash_chain(const struct cp__wait_chain *chain)
{
    static const uint64_t factors[] = {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu,
                                       0xd6e8feb86659fd93u};
    const uintptr_t *frames = chain->frames;
    uint64_t hash = chain->loads + chain->flags;
    unsigned i = 0;

    for (; i + 4 <= chain->depth; i += 4)
        hash = cp__hash_add(hash, frames[i] * factors[0] + frames[i + 1] * factors[1] +
                                      frames[i + 2] * factors[2] + frames[i + 3] * factors[3]);
    for (; i < chain->depth; i++)
        hash = cp__hash_add(hash, frames[i]);
    return hash;
}

static uint32_t hash_taken(const struct cp__wait_taken *taken)
{
    uint64_t hash = cp__hash_add(taken->chain->hash, (uintptr_t)taken->labels);

    return cp__hash_end(cp__hash_add(hash, (uintptr_t)taken->object + (uint64_t)taken->reason +
                                               ((uint64_t)taken->state << 32)));
}

static bool is_record_of(const struct cp__wait_record *record, const struct cp__wait_taken *taken)
{
    const struct cp__wait_chain *chain = taken->chain;

    return record->labels == taken->labels && record->object == taken->object &&
           record->reason == (uint32_t)taken->reason && record->state == (uint32_t)taken->state &&
           record->loads == chain->loads && record->flags == chain->flags && record->depth == chain->depth &&
           memcmp(record->frames, chain->frames, chain->depth * sizeof chain->frames[0]) == 0;
}

static struct cp__wait_record *record_with(const struct cp__wait_sums *sums,
                                           const struct cp__wait_taken *taken, uint32_t hash)
{
    uint32_t number;

    for (size_t at = hash; cp__table_next(&sums->table, hash, &at, &number);) {
        if (is_record_of(sums->records[number], taken))
            return sums->records[number];
    }
    return NULL;
}

/* Makes a record, which is not linked yet. */
static struct cp__wait_record *new_record(const struct cp__wait_taken *taken)
{
    const struct cp__wait_chain *chain = taken->chain;
    struct cp__wait_record *record = calloc(1, sizeof *record + chain->depth * sizeof chain->frames[0]);

    if (record == NULL)
        return NULL;
    record->labels = cp_labels_ref(taken->labels);
    record->object = taken->object;
    record->reason = (uint32_t)taken->reason;
    record->state = (uint32_t)taken->state;
    record->loads = chain->loads;
    record->flags = chain->flags;
    record->depth = chain->depth;
    memcpy(record->frames, chain->frames, chain->depth * sizeof chain->frames[0]);
    return record;
}

static struct cp__wait_record *add_record(struct cp__wait_sums *sums, const struct cp__wait_taken *taken,
                                          uint32_t hash)
{
    struct cp__wait_record *record;

    if (sums->n >= CP__WAIT_RECORDS_MAX || cp__table_reserve(&sums->table, 1) < 0 ||
        CP__RESERVE(sums->records, sums->capacity, sums->n + 1) < 0)
        return NULL;
    record = new_record(taken);
    if (record == NULL)
        return NULL;
    record->next = sums->linked;
    cp_store_release(&sums->linked, record); /* pairs with the acquires of those who walk the list */
    cp__table_insert(&sums->table, hash, (uint32_t)sums->n);
    sums->records[sums->n++] = record;
    sums->n_objects += taken->object != NULL;
    return record;
}

/* Finds or makes the record that has all of the key; NULL: there is none, and no room or memory for it. */
static struct cp__wait_record *record_of(struct cp__wait_sums *sums, const struct cp__wait_taken *taken)
{
    const uint32_t hash = hash_taken(taken);
    struct cp__wait_record *record = record_with(sums, taken, hash);

    if (record != NULL || (taken->object != NULL && sums->n_objects >= CP__WAIT_OBJECTS_MAX))
        return record;
    cp__fork_delay(); /* as above */
    record = add_record(sums, taken, hash);
    cp__fork_allow();
    return record;
}

void cp__wait_sums_add(struct cp__wait_sums *sums, const struct cp__wait_taken *taken)
{
    struct cp__wait_taken key = *taken;
    struct cp__wait_record *record = NULL;

    if (known_labels(sums, taken->labels, &key.labels)) {
        record = record_of(sums, &key);
        if (record == NULL && key.object != NULL) {
            key.object = NULL;
            record = record_of(sums, &key);
        }
    }
    if (record == NULL) {
        cp_add_single_writer(&sums->dropped, 1);
        cp_add_single_writer(&sums->dropped_ns, taken->delay);
        return;
    }
    cp_add_single_writer(&record->sampled, 1);
    cp_add_single_writer(&record->parts, taken->parts);
    cp_add_single_writer(&record->delay, taken->delay);
}

/* ---- Reading --------------------------------------------------------------------------------- */

int cp__wait_sums_each(const struct cp__wait_sums *sums, struct cp__recording_stats *stats, cp__waits_fn *fn,
                       void *context)
{
    int result = 0;

    /* relaxed, all: numbers of their own */
    stats->dropped += cp_load_relaxed(&sums->dropped);
    stats->dropped_ns += cp_load_relaxed(&sums->dropped_ns);
    /* acquire: pairs with the release in add_record() */
    for (const struct cp__wait_record *record = cp_load_acquire(&sums->linked); record != NULL;
         record = record->next) {
        const struct cp__waits waits = {
            .frames = record->frames,
            .depth = record->depth,
            .flags = record->flags,
            .labels = record->labels,
            .loads = record->loads,
            .state = (enum cp__wall_state)record->state,
            .reason = (enum cp_wait_reason)record->reason,
            .object = record->object,
            .sampled = cp_load_relaxed(&record->sampled),
            .waits = (double)cp_load_relaxed(&record->parts) / CP__WAIT_PARTS,
            .delay = cp_load_relaxed(&record->delay),
        };

        stats->sampled += waits.sampled;
        stats->delay += waits.delay;
        if (waits.sampled > 0 && result == 0)
            result = fn(context, &waits);
    }
    return result;
}

/* ---- The end --------------------------------------------------------------------------------- */

void cp__wait_sums_free(struct cp__wait_sums *sums)
{
    struct cp__wait_record *next;

    for (struct cp__wait_record *record = sums->linked; record != NULL; record = next) {
        next = record->next;
        cp_labels_unref(record->labels);
        free(record);
    }
    for (size_t i = 0; i < sums->n_labels; i++)
        cp_labels_unref(sums->labels[i]);
    for (unsigned i = 0; i < CP__WAIT_LABELS_CACHE; i++)
        cp_labels_unref(sums->cache[i].seen);
    cp__table_free(&sums->table);
    cp__table_free(&sums->labels_table);
    free(sums->records);
    free(sums->labels);
    free(sums);
}
