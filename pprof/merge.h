/* Profiles that are being merged: merge_read.c reads the profiles, merge.c folds them together, and
 * merge_write.c writes the merged profile. */
#ifndef COUNTERPOINT_PPROF_MERGE_H
#define COUNTERPOINT_PPROF_MERGE_H

#include "empty.h"
#include "encode.h"
#include "profile.pb-c.h"

/* What the comments of the profiles say of their samples, summed up. */
struct cp__tally {
    char event[sizeof((struct cp_event_spec *)NULL)->name];
    size_t n; /* profiles that tell their event */
    uint64_t samples, count, excluded, threads, refused, lost;
    uint64_t left_out; /* comments that are not there */
};

/*
 * Each distinct thing is stored once, as a tuple of words:
 *
 *     mapping     size, file offset, build id or file; the start only if the mapping has neither, because
 *                 other processes have the same file at other addresses
 *     function    name, system name, file, first line
 *     location    mapping plus 1 (0: none), address in it, is it folded, then of each line: function, line,
 *                 column
 *     sample      number of locations, the locations, then of each label: key, string, number, unit
 *     comment     string
 *
 * In these tuples, strings, functions and so on are numbers from 0.
 */
struct cp_merge {
    size_t n_profiles;
    char *types; /* what the samples count, in words; equal in all the profiles */
    size_t n_types;
    uint64_t *type_strings; /* type and unit of each value, then of the period */

    struct cp__strings strings;
    struct cp__tuples mappings, functions, locations, samples, comments;
    struct cp__encoded_mapping *mapping_data; /* for each mapping, from the first profile that has it */
    size_t mapping_data_capacity;
    int64_t *values; /* n_types for each sample; a sample with only zeros is not written */
    size_t n_values, values_capacity;

    int64_t time_ns, duration_ns, period;
    uint32_t default_type, drop_frames, keep_frames, doc_url;

    struct cp__tally tally;
    char warning[CP__EMPTY_TEXT];
};

/* ---- Profiles without samples: merge_empty.c ------------------------------------------------- */

enum { CP__TALLY_COMMENT = 512 };

/* Adds what a comment of a profile says. */
void cp__tally_add(struct cp__tally *tally, const char *comment);
/* Returns the comment as the merged profile has it: NULL if it says that its profile is empty, which the
 * merged one need not be, and the list of limits without that. May write the comment into text. */
const char *cp__tally_comment(const char *comment, char text[CP__TALLY_COMMENT]);
/* Writes the comment "empty" of the merged profile; returns false if that needs none. */
bool cp__tally_is_empty(const struct cp_merge *m, char comment[CP__TALLY_COMMENT]);

/* ---- Reading: merge_read.c ------------------------------------------------------------------- */

/* Unpacks a profile, gzipped or not, and checks that everything that it refers to exists. Returns NULL and
 * an error, *result and the sentence in *err: -EBADMSG if the profile makes no sense, -EFBIG if it unpacks
 * to more than "limit" bytes or takes more than CP_MERGE_MEMORY_FACTOR * limit bytes of memory, -ENOMEM. */
Cp__Proto__Profile *cp__merge_read(const void *data, size_t size, size_t limit, int *result,
                                   struct cp_error *err);

/* Returns the types and units of a profile's values, then those of its period, by the numbers that its
 * strings have elsewhere. The caller frees them. NULL: no memory. */
uint64_t *cp__merge_types(const Cp__Proto__Profile *p, const uint32_t *strings);

/* The mappings, functions or locations of a profile, found by their ids. */
struct cp__ids {
    uint64_t *ids;
    uint32_t *numbers; /* numbers in the merge, plus 1; 0: not in the merge yet */
    size_t n;
    struct cp__table table;
};

/* Makes room for n ids in a struct that is all zero. Returns 0 or -ENOMEM. */
int cp__ids_reserve(struct cp__ids *ids, size_t n);
/* Adds the next id. Returns false if the id is 0 or was added before. */
bool cp__ids_add(struct cp__ids *ids, uint64_t id);
/* Stores which id it is, counted from 0 in the order of adding. Returns false if the id was not added. */
bool cp__ids_find(const struct cp__ids *ids, uint64_t id, uint32_t *i);
void cp__ids_free(struct cp__ids *ids);

/* The ids of a profile's mappings, functions and locations. */
struct cp__id_tables {
    struct cp__ids mappings, functions, locations;
};
/* Returns 0; -ENOMEM; or -EBADMSG if an id is 0 or occurs twice. The caller frees the tables in any case. */
int cp__id_tables_fill(struct cp__id_tables *tables, const Cp__Proto__Profile *p);
void cp__id_tables_free(struct cp__id_tables *tables);

#endif
