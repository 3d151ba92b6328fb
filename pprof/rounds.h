/* The rounds of watches that samples were taken in, as labels of a profile's stacks. Samples of different
 * rounds are different stacks, because each round has its duration. */
#ifndef COUNTERPOINT_PPROF_ROUNDS_H
#define COUNTERPOINT_PPROF_ROUNDS_H

#include "profile_data.h"

/* The key of the label that tells in which watches a stack was. */
#define CP__WATCH_KEY "watch"
/* A profile tells so many rounds apart, which take some 30 MB with stacks of 20 frames. Samples in further
 * rounds have the label of the watch, without a duration, and are folded together. */
enum { CP__ROUNDS_TOLD = 100000 };
/* At most so many labels tell of the rounds of a stack: a watch and a duration for each. */
enum { CP__ROUND_LABELS = 2 * CP_SAMPLE_ROUNDS };

/* Finds or adds a set of rounds, as a sample has them. Stores the set's number plus 1, or 0 if there are no
 * rounds. Returns 0, or -ENOMEM without a change. */
int cp__profile_rounds_find(struct cp__profile *p, const struct cp_sample *sample, uint32_t *set);
/* Asks for the durations of rounds that have ended meanwhile: of all rounds, or of so many that a reader's
 * pass takes some 100 us at most. */
void cp__profile_rounds_look(struct cp__profile *p, bool all);
/* Looks for durations, and adds the strings of the labels. Returns 0 or -ENOMEM. */
int cp__profile_rounds_resolve(struct cp__profile *p);

/* A label of a stack: key, string, number and unit, as encode.h has them. */
struct cp__round_label {
    uint32_t key, string, unit;
    uint64_t number;
};
/* Makes the labels of a set of rounds, by its number plus 1, and returns how many there are. */
size_t cp__profile_rounds_labels(const struct cp__profile *p, uint32_t set,
                                 struct cp__round_label labels[CP__ROUND_LABELS]);
/* Prints a line "# watches: {"NAME":NS, ...}", or nothing if there are no rounds. */
void cp__profile_rounds_print(FILE *out, const struct cp__profile *p, uint32_t set);

/* A watch with samples. */
struct cp__sampled_watch {
    const char *name;
    unsigned number; /* the highest of this name */
    uint64_t rounds; /* how many of them have samples */
    uint64_t ended;  /* the part of them whose duration is known */
};
/* Calls fn for each watch with samples, by their numbers; two watches of one name are one. */
typedef void cp__sampled_watch_fn(void *context, const struct cp__sampled_watch *watch);
int cp__profile_rounds_each(const struct cp__profile *p, cp__sampled_watch_fn *fn, void *context);

void cp__profile_rounds_free(struct cp__profile *p);

#endif
