/*
 * How profiles are encoded. A profile made of samples (profile_data.h) and one merged of others (merge.h)
 * describe their parts in the same words, and encode.c writes both.
 */
#ifndef COUNTERPOINT_PPROF_ENCODE_H
#define COUNTERPOINT_PPROF_ENCODE_H

#include "pprof.h"
#include "runtime/base/table.h"

/* What a profile's file says about a mapping. */
struct cp__encoded_mapping {
    uint32_t id; /* the id in the file; 0: the file leaves the mapping out */
    uint64_t start, limit, offset;
    uint32_t file, build_id;                                /* numbers of strings */
    bool has_functions, has_files, has_lines, has_inlining; /* at least one of its frames has them */
    /* not in the file: */
    uint32_t missing;      /* enum cp__missing: why frames have no names */
    bool has_unnamed_leaf; /* a sample was taken in a function without a name */
};

/* The most values of a sample that are not in memory as they are written. */
enum { CP__MAX_VALUES = 10 };

/*
 * A profile to encode. Strings, functions and locations are numbered from 0. A part of the profile is a
 * tuple of words:
 *
 *     function    name, system name, file, first line
 *     location    id of the mapping (0: none), address, is it folded, then of each line: function, line,
 *                 column
 *     sample      number of locations, the locations, then of each label: key, string, number, unit
 *
 * The functions below write the words of part i, at most max_words, and return how many there are. "values"
 * returns the n_types values of sample i, and may write CP__MAX_VALUES of them to "room"; NULL leaves the
 * sample out.
 */
typedef size_t cp__tell_fn(const void *what, size_t i, uint64_t *words);
struct cp__encoding {
    const void *what; /* the argument for the functions */
    cp__tell_fn *function, *location, *sample;
    const int64_t *(*values)(const void *what, size_t i, int64_t room[CP__MAX_VALUES]);
    size_t n_functions, n_locations, n_samples, max_words;
    const struct cp__encoded_mapping *mappings;
    size_t n_mappings;

    const struct cp__strings *strings;
    const char *const *names; /* further strings, numbered after those of "strings" */
    size_t n_names;
    const uint64_t *known_comments; /* comments that are numbers of strings */
    size_t n_known_comments;
    const char *const *comments; /* further comments, whose strings are numbered after the names */
    size_t n_comments;

    const uint64_t *types; /* numbers of the strings for type and unit: of each value, then of the period */
    size_t n_types;
    int64_t time_ns, duration_ns, period, default_type, drop_frames, keep_frames, doc_url;
};

/* Writes the profile, gzipped, to w by ops->write alone, with a fixed amount of memory. Returns 0, the
 * writer's error, or -ENOMEM. */
int cp__encode(const struct cp__encoding *encoding, struct cp_writer *w);

#endif
