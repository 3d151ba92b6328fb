/*
 * How profiles are encoded. A profile made of samples (profile_data.h) and one merged of others (merge.h)
 * tell of their parts in the same words, and encode.c writes both.
 */
#ifndef COUNTERPOINT_PPROF_ENCODE_H
#define COUNTERPOINT_PPROF_ENCODE_H

#include "pprof.h"
#include "runtime/base/table.h"

/* What a profile's file says of a mapping. */
struct cp__encoded_mapping {
    uint32_t id; /* in the file; 0: the mapping is not in it */
    uint64_t start, limit, offset;
    uint32_t file, build_id;                                /* numbers of strings */
    bool has_functions, has_files, has_lines, has_inlining; /* if some of its frames have */
};

/*
 * A profile to encode. Strings, functions and locations are numbered from 0. A part is a tuple of words:
 *
 *     function    name, system name, file, first line
 *     location    id of the mapping (0: none), address, is it folded, then of each line: function, line,
 *                 column
 *     sample      how many locations, those, then of each label: key, string, number, unit
 *
 * A call writes the words of part i, max_words at most, and returns how many there are. The values of a
 * sample, n_types of them, may be written to room; a sample without values is left out.
 */
typedef size_t cp__tell_fn(const void *what, size_t i, uint64_t *words);
struct cp__encoding {
    const void *what; /* for the calls */
    cp__tell_fn *function, *location, *sample;
    const int64_t *(*values)(const void *what, size_t i, int64_t room[2]);
    size_t n_functions, n_locations, n_samples, max_words;
    const struct cp__encoded_mapping *mappings;
    size_t n_mappings;

    const struct cp__strings *strings;
    const char *const *names; /* strings behind those */
    size_t n_names;
    const uint64_t *known_comments; /* numbers of strings */
    size_t n_known_comments;
    const char *const *comments; /* strings behind the names, and comments behind the known ones */
    size_t n_comments;

    const uint64_t *types; /* type and unit, strings, of each value, and then of the period */
    size_t n_types;
    int64_t time_ns, duration_ns, period, default_type, drop_frames, keep_frames, doc_url;
};

/* Writes the profile, gzipped, to w (ops->write only), with a fixed amount of memory. The writer's error,
 * -ENOMEM, or 0. */
int cp__encode(const struct cp__encoding *encoding, struct cp_writer *w);

#endif
