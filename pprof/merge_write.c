/* Writes a merged profile; see merge.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "merge.h"
#include "runtime/base/fail.h"
#include "writer.h"

/* The most comments of a merged profile, because tools show all comments before anything else. A further
 * comment says how many were left out. */
enum { MAX_COMMENTS = 64 };

static size_t merged_function(const void *what, size_t i, uint64_t *words)
{
    return cp__tuples_copy(&((const struct cp_merge *)what)->functions, i, 0, words);
}

/* Writes a location, with the address in the mapping turned into an address in the process. */
static size_t merged_location(const void *what, size_t i, uint64_t *words)
{
    const struct cp_merge *m = what;
    const size_t n = cp__tuples_copy(&m->locations, i, 0, words);

    words[1] += words[0] == 0 ? 0 : m->mapping_data[words[0] - 1].start;
    return n;
}

static size_t merged_sample(const void *what, size_t i, uint64_t *words)
{
    return cp__tuples_copy(&((const struct cp_merge *)what)->samples, i, 0, words);
}

/* Returns the values of a sample, or NULL, which leaves it out, if all are zero. */
static const int64_t *merged_values(const void *what, size_t i, int64_t room[CP__MAX_VALUES])
{
    const struct cp_merge *m = what;
    const int64_t *values = m->values + i * m->n_types;

    (void)room;
    for (size_t j = 0; j < m->n_types; j++)
        if (values[j] != 0)
            return values;
    return NULL;
}

/* The comments that no profile has had. */
struct last {
    char more[100], empty[CP__TALLY_COMMENT];
    const char *list[3];
    size_t n;
};

/* Adds how many comments were left out, and that the merged profile is empty. Returns the number of
 * comments. */
static size_t take_last(struct last *last, const struct cp_merge *m, size_t left_out)
{
    if (left_out > 0) {
        snprintf(last->more, sizeof last->more, "more_comments: %zu # in the %zu profiles that were merged",
                 left_out, m->n_profiles);
        last->list[last->n++] = last->more;
    }
    if (cp__tally_is_empty(m, last->empty)) {
        last->list[last->n++] = last->empty;
        last->list[last->n++] = "limits: empty # is the key of the line that tells why there are no samples";
    }
    return last->n;
}

static int encode_merge(const void *what, struct cp_writer *w)
{
    const struct cp_merge *m = what;
    const size_t n_comments = m->comments.n < MAX_COMMENTS ? m->comments.n : MAX_COMMENTS;
    struct last last = {.n = 0};
    const struct cp__encoding encoding = {
        .what = m,
        .function = merged_function,
        .location = merged_location,
        .sample = merged_sample,
        .values = merged_values,
        .n_functions = m->functions.n,
        .n_locations = m->locations.n,
        .n_samples = m->samples.n,
        .max_words = cp__tuples_longest(
            &m->samples, cp__tuples_longest(&m->locations, cp__tuples_longest(&m->functions, 1))),
        .mappings = m->mapping_data,
        .n_mappings = m->mappings.n,
        .strings = &m->strings,
        .known_comments = m->comments.words,
        .n_known_comments = n_comments,
        .comments = last.list,
        .n_comments = take_last(&last, m, m->comments.n - n_comments),
        .types = m->type_strings,
        .n_types = m->n_types,
        .time_ns = m->time_ns,
        .duration_ns = m->duration_ns,
        .period = m->period,
        .default_type = m->default_type,
        .drop_frames = m->drop_frames,
        .keep_frames = m->keep_frames,
        .doc_url = m->doc_url,
    };

    return cp__encode(&encoding, w);
}

static int write_merge(const void *what, struct cp_writer *w, struct cp_error *err)
{
    return cp__write_attempt(w, encode_merge, what, err);
}

int cp_merge_write(const struct cp_merge *m, struct cp_writer w, struct cp_error *err)
{
    if (m->n_profiles == 0)
        return cp__error(err, -ENODATA, "There is nothing to write: no profile was added to the merge.");
    return cp__write_elsewhere(w, write_merge, m, err);
}
