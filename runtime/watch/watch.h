/*
 * counterpoint/watch.h: counters between two points, for the green thread that passes them.
 *
 *     static struct cp_watch *parse;
 *     struct cp_watch_options options = {
 *         .size = sizeof options, .name = "parse", .quantities = "cpuTime,instructions,ipc"};
 *     if (cp_watch_open(&parse, &options, &err) < 0)
 *         fprintf(stderr, "%s\n", err.message);
 *     ...
 *     CP_WATCH(parse) {                     // or cp_watch_begin() and cp_watch_end(), anywhere in a G
 *         ...
 *     }
 *     ...
 *     cp_watch_take(&snapshot, parse, &err);
 *     cp_watch_print(snapshot, CP_WATCH_TEXT, stdout);
 *
 * A watch is a stopwatch with a name. A round is one passage from a begin to its end, in one G. What is
 * counted in a round belongs to the G: while the G waits and other Gs run on its M, its counts stand still,
 * and they go on when the G runs again, on whatever M. Time alone is the time that passes, whether the G runs
 * or not. Rounds of one G may nest and overlap, and a round may end on another M and CPU than it began on.
 *
 * Each round adds a value to the distribution of each quantity of its watch: count, sum, minimum, maximum,
 * mean, standard deviation, and percentiles with an error of at most 1 %. Counts have 64 bits whatever the
 * hardware's counters have. A round whose event had to share the PMU's counters with others for a part of
 * the round is in no distribution but that of time, because its count would be an estimate; such rounds are
 * told as partial.
 *
 * Threads: a thread that begins and ends rounds must be an M (cp_m_attach()). The calls for keys, and those
 * that read, may be made from any thread.
 *
 * Profiles: a sample that is taken in a round of a G tells the watch, and how long the round took, so that a
 * profile can be cut to a watch and to its slow rounds (docs/embedding.md has the commands).
 *
 * Signals: no call of this header may be made in a signal handler.
 *
 * Forks: the child has the watches of its parent, and their distributions begin empty. A round in which its G
 * calls fork() ends twice, and both ends are told apart from other rounds: see enum cp_watch_side.
 */
#ifndef COUNTERPOINT_WATCH_H
#define COUNTERPOINT_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Watches --------------------------------------------------------------------------------- */

/* A watch. Lives from cp_watch_open() to cp_watch_close(). */
struct cp_watch;

/* How many quantities a watch can have, time included. Programs have rounds on their stacks, so the number
 * never changes. */
#define CP_WATCH_QUANTITIES 8
/* How many watches, those for keys included, a process can open in its life. */
#define CP_WATCHES_MAX 4096
/* How long a watch's name can be, in bytes. */
#define CP_WATCH_NAME_MAX 63

/* What a watch counts. The caller sets the struct to zero, and sets size and name. */
struct cp_watch_options {
    size_t size; /* sizeof(struct cp_watch_options) as the caller compiled it */
    /* 1 to CP_WATCH_NAME_MAX bytes of UTF-8 without control characters. The library copies the string, and
     * all others of this struct. */
    const char *name;
    /*
     * The quantities beside time, with commas between them; NULL: none.
     *
     *     cpuTime          CPU time of the G, in ns
     *     coreCycles       cycles that the core really made, by AMD's instruction RDPRU, which works in
     *                      virtual machines without a PMU, too; a round in which the kernel switched the
     *                      thread off its CPU is partial
     *     ipc, cpi         instructions per cycle, and cycles per instruction
     *     EVENT per EVENT  the same of any two events: "cacheMisses per instructions". A round that has
     *                      none of what is divided by has no ratio, so the ratio's count can be below
     *                      that of time
     *     EVENT            any event that can be counted, by its name for cp_event_parse()
     */
    const char *quantities;
    /* The keys of labels, with commas between them: rounds of Gs with different values of these labels, at
     * the begin, have distributions of their own. NULL: none. */
    const char *labels;
    /* How many distinct sets of values of these labels have distributions of their own; rounds with others
     * are added to a distribution whose labels all have the value CP_WATCH_OTHERS. 0: 1000. */
    unsigned labels_max;
    /* Each begin takes the stack, for cp_watch_write_profile() (pprof.h), which costs some 200 ns or more. To
     * open such a watch takes as long as to start a profile: about 0.1 s for 100 MB of code, once. */
    bool has_stacks;
};
#define CP_WATCH_OTHERS "(others)"

/*
 * Opens a watch. Returns 0; -EINVAL for a bad name or list; -EEXIST if there is a watch with the name;
 * -ENOSPC if CP_WATCHES_MAX watches were opened; -ENOMEM; for an event that cannot be counted here, the error
 * of cp_counter_open(); for coreCycles, -ENODEV. The first call takes 2 ms, to compare the processor's clock
 * with the system's.
 */
int cp_watch_open(struct cp_watch **watch, const struct cp_watch_options *options, struct cp_error *err);
/* Closes a watch; NULL: does nothing. No thread may use the watch any more, and all of its rounds must have
 * ended. */
void cp_watch_close(struct cp_watch *watch);

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* A round. The caller has the memory, which may lie on the stack of the G or elsewhere, from begin to end,
 * and which must not be copied meanwhile. All members are the library's. */
struct cp_watch_round {
    struct cp_watch *watch; /* NULL: no round is open */
    struct cp_g *g;
    uint64_t began[CP_WATCH_QUANTITIES];
    uint64_t missed;
    void *stack;
    uint32_t place;
    uint32_t row;
    uint32_t forks[2];
    uint64_t serial;
    uint64_t reserved[2];
};

/*
 * Begins a round in the G that runs on the calling M, or in the thread itself if the M runs no G. A NULL
 * watch, as one that could not be opened, does nothing and returns 0. Returns -ESRCH if the calling thread is
 * no M; -ENOMEM; or, at the first round on an M, the error of opening the watch's events for this M. After an
 * error no round is open, and cp_watch_end() does nothing; the watch tells how many rounds it has refused.
 */
int cp_watch_begin(struct cp_watch *watch, struct cp_watch_round *round);
/*
 * Ends a round and adds its values to the distributions. The same G must end the round that began it, on
 * whatever M. Does nothing if no round is open. Returns 0; -EPERM if another G has begun the round, which
 * stays open; -ESRCH if the calling thread is no M; -ENOMEM if there is no memory for the values, which the
 * watch tells as lost.
 */
int cp_watch_end(struct cp_watch_round *round);
/* Ends a round without adding anything: what the round measured is not of interest. */
void cp_watch_drop(struct cp_watch_round *round);

/* For the macros below only: what leaves a block ends its round. */
static inline void cp_watch_end_of(struct cp_watch_round *round)
{
    (void)cp_watch_end(round);
}

/* A round of the block or statement that follows, however the block is left: at its end, by break, return or
 * goto, or in C++ by an exception. */
#define CP_WATCH(to_watch)                                                                                   \
    for (struct cp_watch_round CP_LABEL_NAME(cp_watch_round_, __LINE__)                                      \
             __attribute__((cleanup(cp_watch_end_of))),                                                      \
         *CP_LABEL_NAME(cp_watch_once_, __LINE__) =                                                          \
             (cp_watch_begin((to_watch), &CP_LABEL_NAME(cp_watch_round_, __LINE__)),                         \
              &CP_LABEL_NAME(cp_watch_round_, __LINE__));                                                    \
         CP_LABEL_NAME(cp_watch_once_, __LINE__) != NULL; CP_LABEL_NAME(cp_watch_once_, __LINE__) = NULL)
/* A round of the rest of the enclosing block. */
#define CP_WATCH_SCOPE(to_watch)                                                                             \
    struct cp_watch_round CP_LABEL_NAME(cp_watch_scope_, __LINE__)                                           \
        __attribute__((cleanup(cp_watch_end_of), unused));                                                   \
    (void)cp_watch_begin((to_watch), &CP_LABEL_NAME(cp_watch_scope_, __LINE__))

/* Returns the name of the watch that a round of a sample (struct cp_sample) belongs to, also after the watch
 * was closed; NULL if there never was such a watch. The string is never freed. */
const char *cp_watch_round_name(uint64_t round);

/* ---- Keys ------------------------------------------------------------------------------------ */

/*
 * A watch for things that no G accompanies: an item in a queue, or in one queue after another. A key stands
 * for the item: a number or an address that is unique while the item is there. Any thread may begin, move and
 * end any key. The watch tells how long keys stayed in each stage, and from their begin to their end.
 */
struct cp_watch_keys;

/* What a watch for keys tells apart. The caller sets the struct to zero, and sets size and name. */
struct cp_watch_keys_options {
    size_t size;      /* sizeof(struct cp_watch_keys_options) as the caller compiled it */
    const char *name; /* as in struct cp_watch_options; both kinds of watches have their names in common */
    /* The names of the stages, in the order of their numbers from 0, with commas between them; NULL: there is
     * one stage, which is not told apart from the whole. */
    const char *stages;
    size_t keys_max; /* how many keys can be open; 0: 1 048 576 */
};
#define CP_WATCH_STAGES_MAX 64

/* Opens a watch for keys. Returns 0, -EINVAL, -EEXIST, -ENOSPC or -ENOMEM, as cp_watch_open() does. */
int cp_watch_keys_open(struct cp_watch_keys **keys, const struct cp_watch_keys_options *options,
                       struct cp_error *err);
void cp_watch_keys_close(struct cp_watch_keys *keys); /* NULL: does nothing */

/*
 * Begin a key in a stage, move it to another stage, and end it. A NULL watch does nothing and returns 0.
 * What goes wrong is counted and told with the distributions (struct cp_watch_state): a begin of a key that
 * is open replaces it, the earlier key being lost, and returns -EEXIST; a move or an end of a key that is
 * not open returns -ENOENT; a begin beyond keys_max, or without memory, returns -ENOSPC or -ENOMEM. All
 * return -EINVAL for a stage that there is not. A move to the stage in which the key is begins the stage
 * anew.
 */
int cp_watch_key_begin(struct cp_watch_keys *keys, uint64_t key, unsigned stage);
int cp_watch_key_move(struct cp_watch_keys *keys, uint64_t key, unsigned stage);
int cp_watch_key_end(struct cp_watch_keys *keys, uint64_t key);

/* ---- Reading --------------------------------------------------------------------------------- */

/* What one or several watches had measured at a moment. Nothing changes it but cp_watch_merge(). */
struct cp_watch_snapshot;

/* Take a snapshot: of one watch, of one watch for keys, or of all watches in the order in which they were
 * opened. A round that ends meanwhile may be in some of its watch's distributions and not yet in others.
 * Return 0 or -ENOMEM. */
int cp_watch_take(struct cp_watch_snapshot **snapshot, const struct cp_watch *watch, struct cp_error *err);
int cp_watch_take_keys(struct cp_watch_snapshot **snapshot, const struct cp_watch_keys *keys,
                       struct cp_error *err);
int cp_watch_take_all(struct cp_watch_snapshot **snapshot, struct cp_error *err);
/* Adds the distributions of `from` to those of `into` that have the same watch, labels, side and quantity,
 * and takes over the others. In whatever order snapshots are merged, the result is the same: its watches are
 * in the order of their names, and so are the quantities of a watch that has not the same list of them in all
 * snapshots. Returns 0 or -ENOMEM, which leaves `into` unchanged. */
int cp_watch_merge(struct cp_watch_snapshot *into, const struct cp_watch_snapshot *from,
                   struct cp_error *err);
void cp_watch_snapshot_free(struct cp_watch_snapshot *snapshot); /* NULL: does nothing */

/* Which rounds a row is about. */
enum cp_watch_side {
    CP_WATCH_UNFORKED = 0, /* rounds in which their G has not called fork() */
    CP_WATCH_PARENT = 1,   /* rounds in which it has, as they ended in the parent */
    CP_WATCH_CHILD = 2,    /* the same in the child; what was counted before the fork is the parent's work */
};

/* A distribution: one quantity of one watch, for one set of labels. Valid during the call that receives
 * it. */
struct cp_watch_row {
    size_t size;       /* sizeof(struct cp_watch_row) as the library was compiled */
    const char *watch; /* the watch's name */
    /* n_labels labels in the order of the options' keys, with "" for those that Gs had not. A row of a watch
     * for keys has the label "stage", whose value is "" for the time from begin to end. */
    const struct cp_label *labels;
    size_t n_labels;
    enum cp_watch_side side;
    const char *quantity; /* "time", "cpuTime", "instructions", "ipc" ... */
    const char *unit;     /* "ns", "count", or "ratio" */
    uint64_t count;       /* how many rounds the row is about */
    /* In the unit; 0 if there is no round. */
    double sum, min, max, mean, sigma;
    const void *distribution; /* for cp_watch_percentile() and cp_watch_buckets() */
};
typedef int cp_watch_row_fn(void *context, const struct cp_watch_row *row);
/* Calls fn for each row: watch by watch, then by labels, then by quantity. A result of fn other than 0 ends
 * the list and is returned. */
int cp_watch_each(const struct cp_watch_snapshot *snapshot, cp_watch_row_fn *fn, void *context);
/* Returns the value that `percent` % of the row's rounds do not exceed, in the row's unit, with an error of
 * at most 1 %, and never below the minimum or above the maximum; 0 if there is no round. */
double cp_watch_percentile(const struct cp_watch_row *row, double percent);
/* Calls fn for each bucket of the distribution that has rounds, in ascending order: count rounds have values
 * from low to high, in the row's unit, both included. A result of fn other than 0 ends the list and is
 * returned. */
typedef int cp_watch_bucket_fn(void *context, double low, double high, uint64_t count);
int cp_watch_buckets(const struct cp_watch_row *row, cp_watch_bucket_fn *fn, void *context);

/* What is in no distribution. Valid during the call that receives it. */
struct cp_watch_state {
    size_t size;       /* sizeof(struct cp_watch_state) as the library was compiled */
    const char *watch; /* the watch's name */
    uint64_t open;     /* rounds, or keys, that have begun and not ended */
    uint64_t partial;  /* rounds that are in the distribution of time alone: see above */
    uint64_t refused;  /* begins that returned an error, and began nothing */
    uint64_t lost;     /* rounds without memory for their values; keys that a second begin has replaced */
    uint64_t unknown;  /* moves and ends of keys that were not open, and moves to stages that are not there */
    uint64_t dropped;  /* rounds that cp_watch_drop() has ended */
};
typedef int cp_watch_state_fn(void *context, const struct cp_watch_state *state);
/* Calls fn for each watch of the snapshot. A result of fn other than 0 ends the list and is returned. */
int cp_watch_states(const struct cp_watch_snapshot *snapshot, cp_watch_state_fn *fn, void *context);

/* The forms in which a snapshot can be printed. */
enum cp_watch_form {
    CP_WATCH_TEXT = 0,       /* a table for people */
    CP_WATCH_JSON = 1,       /* an object, with all buckets */
    CP_WATCH_PROMETHEUS = 2, /* histograms in the text format of Prometheus; time in seconds */
};
/* Prints the snapshot. Returns 0, -EINVAL for an unknown form, -ENOMEM, or the error of writing to out. */
int cp_watch_print(const struct cp_watch_snapshot *snapshot, enum cp_watch_form form, FILE *out);

#ifdef __cplusplus
}

/* A round from its construction to its destruction. */
class cp_watch_scope
{
  public:
    explicit cp_watch_scope(struct cp_watch *watch)
    {
        cp_watch_begin(watch, &round);
    }
    ~cp_watch_scope()
    {
        cp_watch_end(&round);
    }
    cp_watch_scope(const cp_watch_scope &) = delete;
    cp_watch_scope &operator=(const cp_watch_scope &) = delete;

  private:
    struct cp_watch_round round;
};
#endif
#endif
