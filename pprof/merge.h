/* Profiles being merged, for the files that do it: merge_read.c reads them, merge.c folds them together,
 * merge_write.c writes what came of it. */
#ifndef COUNTERPOINT_PPROF_MERGE_H
#define COUNTERPOINT_PPROF_MERGE_H

#include "encode.h"
#include "profile.pb-c.h"

/*
 * What is equal is there once. The parts of a tuple, all of them words:
 *
 *     mapping     size, file offset, build id or file, and of one that has neither, the start: not where it
 *                 lies, which another process has elsewhere
 *     function    name, system name, file, first line
 *     location    mapping plus 1 (0: none), address in it, is it folded, then of each line: function, line,
 *                 column
 *     sample      how many locations, those, then of each label: key, string, number, unit
 *     comment     string
 *
 * Strings, functions and so on are numbers there, from 0.
 */
struct cp_merge {
    size_t n_profiles;
    char *types; /* of its samples, in words: those of all the profiles */
    size_t n_types;
    uint64_t *type_strings; /* type and unit of each, then of the period */

    struct cp__strings strings;
    struct cp__tuples mappings, functions, locations, samples, comments;
    struct cp__encoded_mapping *mapping_data; /* of each; the first profile that had it tells of it */
    size_t mapping_data_capacity;
    int64_t *values; /* n_types of each sample; one that has only zeros was not wholly added */
    size_t n_values, values_capacity;

    int64_t time_ns, duration_ns, period;
    uint32_t default_type, drop_frames, keep_frames, doc_url;
};

/* Unpacks a profile, which is gzipped or not, and checks that all that it refers to is there. NULL, with
 * -EBADMSG, -EFBIG or -ENOMEM in *result and its sentence in err, if it does not make sense, unpacks to more
 * than limit bytes, or takes more than CP_MERGE_MEMORY_FACTOR * limit bytes of memory. */
Cp__Proto__Profile *cp__merge_read(const void *data, size_t size, size_t limit, int *result,
                                   struct cp_error *err);

/* The things of a profile by their ids. */
struct cp__ids {
    uint64_t *ids;
    uint32_t *numbers; /* in the merge, plus 1; 0: not there yet */
    size_t n;
    struct cp__table table;
};

/* Makes room for n of them; zero before. -ENOMEM or 0. */
int cp__ids_reserve(struct cp__ids *ids, size_t n);
/* Adds the next one; false where the id is 0 or is there already. */
bool cp__ids_add(struct cp__ids *ids, uint64_t id);
/* Which it is, from 0, in the order in which they were added. */
bool cp__ids_find(const struct cp__ids *ids, uint64_t id, uint32_t *i);
void cp__ids_free(struct cp__ids *ids);

/* The ids of a profile's mappings, functions and locations. */
struct cp__id_tables {
    struct cp__ids mappings, functions, locations;
};
/* -ENOMEM; -EBADMSG where an id is 0 or there twice; or 0. Free it in any case. */
int cp__id_tables_fill(struct cp__id_tables *tables, const Cp__Proto__Profile *p);
void cp__id_tables_free(struct cp__id_tables *tables);

#endif
