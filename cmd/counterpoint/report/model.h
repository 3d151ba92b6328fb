/*
 * A profile in pprof's format as plain structs, whichever program has written it:
 *
 *     struct profile *profile;
 *     struct cp_error err;
 *
 *     if (profile_parse(&profile, data, size, "cpu.pb.gz", &err) < 0)
 *         return complain(STATUS_FAILURE, "%s", err.message);
 *     for (size_t i = 0; i < profile->n_samples; i++)
 *         total += profile->samples[i].values[type];
 *     profile_free(profile);
 *
 * Everything that a profile points to lives as long as the profile. Strings are never NULL: they are "" if
 * the file has none. They may hold control characters.
 */
#ifndef COUNTERPOINT_CMD_REPORT_MODEL_H
#define COUNTERPOINT_CMD_REPORT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "error.h"

struct value_type {
    const char *name, *unit; /* "cpu", "nanoseconds" */
};

struct profile_mapping {
    const char *file, *build_id;
    uint64_t start, limit, offset; /* of the code in memory, and of start in the file */
    bool has_functions;
};

struct profile_function {
    const char *name;        /* for people */
    const char *system_name; /* the linker's */
    const char *file;
    int64_t start_line; /* 0: unknown */
};

struct profile_line {
    const struct profile_function *function;
    int64_t line; /* 0: unknown */
};

/* An address of code. lines[0] is the innermost inlined function, and the last line is the function that the
 * others are inlined in; without symbols there are no lines. */
struct profile_location {
    uint64_t address;                      /* 0: unknown */
    const struct profile_mapping *mapping; /* NULL: unknown */
    const struct profile_line *lines;
    size_t n_lines;
};

struct profile_label {
    const char *key;
    const char *text; /* NULL: the label is a number */
    int64_t number;
    const char *unit;
};

struct profile_sample {
    struct profile_location *const *locations; /* the leaf first */
    size_t n_locations;
    int64_t *values; /* one for each type */
    const struct profile_label *labels;
    size_t n_labels;
};

struct profile {
    struct value_type *types;
    size_t n_types;
    size_t default_type; /* the index of the type to show if the user names none */
    struct value_type period_type;
    int64_t period;
    int64_t time_ns, duration_ns; /* the start, since 1970; 0: unknown */

    struct profile_mapping *mappings; /* the first one is the program's, by custom */
    size_t n_mappings;
    struct profile_function *functions;
    size_t n_functions;
    struct profile_location *locations;
    size_t n_locations;
    struct profile_sample *samples;
    size_t n_samples;
    const char **comments;
    size_t n_comments;
    const char *drop_frames, *keep_frames; /* regular expressions */

    struct arena arena; /* for whoever adds to the profile */
    void *unpacked;     /* the message that strings point into */
};

/* The most bytes to which a profile may unpack. */
#define PROFILE_LIMIT ((size_t)512 << 20)

/* Reads a profile, gzipped or plain, whose data is not needed after the call. `source` names it in sentences.
 * Returns 0, or a negative errno value and the sentence: -EBADMSG if the data is no such profile, or damaged,
 * -EFBIG, -ENOMEM. */
int profile_parse(struct profile **profile, const void *data, size_t size, const char *source,
                  struct cp_error *err);
/* NULL does nothing. */
void profile_free(struct profile *profile);

/* Finds the type of samples that has this name, or number; NULL and "" are the default type. Returns false
 * if there is none. */
bool profile_find_type(const struct profile *profile, const char *name, size_t *type);

/* Returns whether a sample has a negative value. */
bool profile_is_difference(const struct profile *profile);

/* Returns the value that a comment "key: value" of the profile has; NULL: there is no such comment. The keys
 * of the library's profiles are in docs/accuracy.md. The value goes to the end of the comment. */
const char *profile_fact(const struct profile *profile, const char *key);

/* ---- The hottest functions ------------------------------------------------------------------- */

struct hot {
    const char *name; /* lives as long as the profile */
    double share;     /* of all values, from 0 to 1, in the function itself */
};

/* Stores the n functions that have the most of the profile's default type in themselves, the hottest first.
 * Returns how many it stored: fewer than n if the profile has fewer functions with values. The end of
 * other commands prints them. */
size_t report_hottest(struct profile *profile, size_t n, struct hot *out);

#endif
