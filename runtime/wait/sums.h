/*
 * What a thread adds up for a recording: a record for each distinct stack, label set, reason and object.
 *
 * One thread at a time adds: the M that has the table, or who holds the recordings' lock. Others read
 * meanwhile. They find records by the list `linked`, in which a record stands with release when all of it but
 * its sums is filled. Each sum is a word that one thread writes.
 *
 * A record holds a reference to its labels. Two sets with the same keys and values are one: programs make
 * sets anew all the time.
 */
#ifndef COUNTERPOINT_RUNTIME_WAIT_SUMS_H
#define COUNTERPOINT_RUNTIME_WAIT_SUMS_H

#include "recording.h"
#include "runtime/base/table.h"

/* What finds no room is counted as dropped. */
#define CP__WAIT_RECORDS_MAX 65536u
/* So many records tell their objects. Others have none. */
#define CP__WAIT_OBJECTS_MAX 1000u
#define CP__WAIT_LABELS_CACHE 16u

/* A stack that was walked. */
struct cp__wait_chain {
    uint64_t loads; /* as in struct cp_sample */
    uint64_t hash;
    unsigned depth, flags;
    uintptr_t frames[CP_MAX_FRAMES];
};

struct cp__wait_record {
    /* Immutable once the record is linked. */
    struct cp__wait_record *next;
    struct cp_labels *labels; /* with a reference */
    const void *object;
    uint64_t loads;
    uint32_t reason; /* enum cp_wait_reason */
    uint32_t state;  /* enum cp__wall_state */
    uint32_t flags;
    uint32_t depth;
    /* Written by one thread, read by others. */
    uint64_t sampled;
    uint64_t parts; /* see weight.h */
    uint64_t delay;

    uintptr_t frames[]; /* immutable */
};

struct cp__wait_sums {
    struct cp__wait_sums *next; /* of the same recording; immutable */
    bool is_taken;              /* by an M; under the recordings' lock */

    /* Of the thread that adds. */
    struct cp__table table;
    struct cp__wait_record **records;
    size_t n, capacity;
    size_t n_objects;
    struct cp__table labels_table;
    struct cp_labels **labels; /* distinct sets, with a reference each */
    size_t n_labels, labels_capacity;
    struct {
        struct cp_labels *seen; /* with a reference, so that no other set gets the address */
        struct cp_labels *same; /* one of labels, with the same keys and values */
    } cache[CP__WAIT_LABELS_CACHE];

    /* Written by one thread, read by others. */
    struct cp__wait_record *linked;
    uint64_t dropped, dropped_ns;
};

/* What was taken. */
struct cp__wait_taken {
    const struct cp__wait_chain *chain;
    struct cp_labels *labels; /* those of a G that keeps them meanwhile */
    enum cp__wall_state state;
    enum cp_wait_reason reason;
    const void *object;
    uint64_t parts, delay; /* what it stands for */
};

uint64_t cp__wait_hash_chain(const struct cp__wait_chain *chain);
/* Adds what was taken to the record that it belongs to. */
void cp__wait_sums_add(struct cp__wait_sums *sums, const struct cp__wait_taken *taken);
/* Passes each record to fn, as cp__recording_each() does, and adds to *stats. */
int cp__wait_sums_each(const struct cp__wait_sums *sums, struct cp__recording_stats *stats, cp__waits_fn *fn,
                       void *context);
void cp__wait_sums_free(struct cp__wait_sums *sums);

#endif
