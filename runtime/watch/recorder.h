/*
 * Where the values of rounds go. Each M has a shard of each watch in which the M ends rounds, so that no two
 * threads store to the same memory. A shard has a row for each set of labels and each side, and a row has a
 * histogram for each quantity. Whoever takes a snapshot adds up the rows of all shards.
 *
 *   series   A distinct set of values of the watch's label keys. The watch numbers them, for all of its
 *            shards, under its lock; a shard remembers which sets of labels it has asked about.
 *   row      series * 3 + side. The M alone makes the rows of its shard, and links them with release, so that
 *            readers find complete ones.
 *   shard    belongs to an M until the M detaches. Then another M of the same watch takes the shard over,
 * with all that it has. Both happen under the watch's lock.
 *
 * What a fork's child must find whole is changed between cp__fork_delay() and cp__fork_allow().
 */
#ifndef COUNTERPOINT_RUNTIME_WATCH_RECORDER_H
#define COUNTERPOINT_RUNTIME_WATCH_RECORDER_H

#include "meter.h"
#include "registry.h"
#include "runtime/base/lock.h"
#include "runtime/base/table.h"
#include "stacks.h"

/* What a quantity is made of, by the number of the meter among those of the watch. */
struct cp__measure {
    enum { CP__MEASURE_TIME, CP__MEASURE_METER, CP__MEASURE_RATIO } kind;
    unsigned meter;
    unsigned per; /* CP__MEASURE_RATIO only */
};

/* The meters that one watch can have: began[0] of a round is the time. */
#define CP__WATCH_METERS (CP_WATCH_QUANTITIES - 1)

struct cp__watch_series {
    char **values;            /* of the watch's keys; "" for a label that is not set */
    struct cp_labels *labels; /* those that are set; NULL: none */
};

struct cp_watch {
    /* Immutable. */
    struct cp__watch_entry entry;
    unsigned n_quantities;
    struct cp__watch_quantity quantities[CP_WATCH_QUANTITIES];
    struct cp__measure measures[CP_WATCH_QUANTITIES];
    unsigned n_meters;
    uint8_t meters[CP__WATCH_METERS]; /* numbers in cp__meters */
    unsigned n_keys;
    char **keys;
    unsigned labels_max;
    bool has_stacks;

    /* Under the lock. */
    struct cp__lock lock;
    struct cp__watch_series *series; /* the first one is for rounds with other labels, if there are keys */
    size_t n_series, series_capacity;
    struct cp__table series_table;
    struct cp__shard *shards;

    /* Shared, atomic. */
    uint64_t refused;              /* begins on threads that are no Ms, or without a shard */
    uint64_t ended, lost, dropped; /* ends and drops without a shard */
};

/* Which side of a fork a row is about is part of its number. */
#define CP__WATCH_SIDES 3

struct cp__record {
    struct cp__record *next; /* immutable once the row is linked */
    uint32_t number;
    struct cp__histogram histograms[]; /* one for each quantity */
};

#define CP__SHARD_CACHE 8u

struct cp__shard {
    /* Under the watch's lock. */
    struct cp__shard *next;
    bool is_taken; /* by an M */

    /* The M's. */
    struct cp__record **rows; /* by number; NULL: there is none yet */
    size_t n_rows;
    struct {
        bool is_known;
        struct cp_labels *labels; /* with a reference, so that no other set gets the address */
        uint32_t series;
    } cache[CP__SHARD_CACHE];
    struct cp__stacks stacks;

    /* Written by the M, read by others. */
    struct cp__record *linked;
    uint64_t begun, ended, partial, refused, lost, dropped;
};

/* What runtime/watch/ keeps for an M; all of it is the M's. */
struct cp__watch_m {
    struct cp__meter_on_m meters[CP__METERS];
    struct cp__shard **shards; /* by the watch's number; NULL: there is none yet */
    size_t n_shards;
};

/* What it keeps for a G. The thread that runs the G owns it; see rounds.h for what its handler reads. */
struct cp__watch_g {
    struct cp__rounds rounds; /* first: g->rounds points here */
    uint64_t serial;          /* unique in the process: a later G may get this one's memory */
    uint32_t used;            /* a bit for each meter that an open round has */
    uint32_t refs[CP__METERS];
    uint64_t seqs[CP__METERS]; /* which meter the G had in the place last */
    uint32_t forks[2];         /* in which the G was the parent, and the child */
    struct cp__reading total[CP__METERS];
};

/* Returns m's shard of the watch; NULL: no memory. m is the calling thread's. */
struct cp__shard *cp__shard_make(struct cp__m *m, struct cp_watch *watch);
static inline struct cp__shard *cp__shard_of(struct cp__m *m, struct cp_watch *watch)
{
    const struct cp__watch_m *own = m->watch;

    if (own != NULL && watch->entry.number < own->n_shards && own->shards[watch->entry.number] != NULL)
        return own->shards[watch->entry.number];
    return cp__shard_make(m, watch);
}
/* Gives up all shards of an M, which is the calling thread's. */
void cp__shards_leave(struct cp__watch_m *own);

/* Returns the series of a set of labels, which is the calling G's. */
uint32_t cp__series_find(struct cp_watch *watch, struct cp__shard *shard, struct cp_labels *labels);
static inline uint32_t cp__series_of(struct cp_watch *watch, struct cp__shard *shard,
                                     struct cp_labels *labels)
{
    return watch->n_keys == 0 ? 0 : cp__series_find(watch, shard, labels);
}

/* Returns a row of the shard; NULL: no memory. */
struct cp__record *cp__record_make(const struct cp_watch *watch, struct cp__shard *shard, uint32_t number);
static inline struct cp__record *cp__record_of(const struct cp_watch *watch, struct cp__shard *shard,
                                               uint32_t number)
{
    return number < shard->n_rows && shard->rows[number] != NULL ? shard->rows[number]
                                                                 : cp__record_make(watch, shard, number);
}

/* Makes the first series of a watch that nobody knows yet. Returns 0 or -ENOMEM. */
int cp__series_begin(struct cp_watch *watch);

/* For struct cp__watch_entry. */
int cp__watch_fill(const void *watch, struct cp_watch_snapshot *snapshot);
void cp__watch_forget(void *watch);
/* Frees what the watch has recorded. */
void cp__watch_free_records(struct cp_watch *watch);

#endif
