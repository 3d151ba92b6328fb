#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merge.h"
#include "runtime/base/fail.h"
#include "stream.h"
#include "writer.h"

/* In words, of which there are more than what they tell of. */
static size_t longest(const struct cp__tuples *tuples)
{
    size_t most = 1, n;

    for (size_t i = 0; i < tuples->n; i++) {
        cp__tuples_get(tuples, i, &n);
        most = n > most ? n : most;
    }
    return most;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static void put_type(struct cp__stream *s, const uint64_t *strings, bool is_period)
{
    Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
    Cp__Proto__ValueType type = CP__PROTO__VALUE_TYPE__INIT;

    type.type = (int64_t)strings[0];
    type.unit = (int64_t)strings[1];
    if (is_period)
        piece.period_type = &type;
    piece.n_sample_type = !is_period;
    piece.sample_type = &(Cp__Proto__ValueType *){&type};
    cp__stream_put(s, &piece);
}

static void put_header(struct cp__stream *s, const struct cp_merge *m)
{
    Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;

    for (size_t i = 0; i <= m->n_types; i++)
        put_type(s, m->type_strings + 2 * i, i == m->n_types);
    piece.time_nanos = m->time_ns;
    piece.duration_nanos = m->duration_ns;
    piece.period = m->period;
    piece.default_sample_type = m->default_type;
    piece.drop_frames = m->drop_frames;
    piece.keep_frames = m->keep_frames;
    piece.doc_url = m->doc_url;
    cp__stream_put(s, &piece);
}

/* Tools show all of them in front of everything else: so many at most, and then one that tells how many more
 * there were. */
enum { MAX_COMMENTS = 64 };

static void put_comments(struct cp__stream *s, const struct cp_merge *m)
{
    for (size_t i = 0; i < m->comments.n && i <= MAX_COMMENTS; i++) {
        Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
        int64_t comment =
            (int64_t)(i < MAX_COMMENTS ? m->comments.words[m->comments.offsets[i]] : m->strings.n);

        piece.n_comment = 1;
        piece.comment = &comment;
        cp__stream_put(s, &piece);
    }
}

static void put_strings(struct cp__stream *s, const struct cp_merge *m)
{
    char text[100];

    for (size_t i = 0; i < m->strings.n; i++)
        cp__stream_put_string(s, cp__strings_get(&m->strings, (uint32_t)i));
    if (m->comments.n <= MAX_COMMENTS)
        return;
    snprintf(text, sizeof text, "and %zu more comments, in the %zu profiles that were merged",
             m->comments.n - MAX_COMMENTS, m->n_profiles);
    cp__stream_put_string(s, text);
}

static bool is_zero(const int64_t *values, size_t n)
{
    while (n > 0 && values[n - 1] == 0)
        n--;
    return n == 0;
}

static void put_sample(struct cp__stream *s, const struct cp_merge *m, size_t i,
                       const struct cp__scratch *scratch)
{
    Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
    Cp__Proto__Sample sample = CP__PROTO__SAMPLE__INIT;
    size_t n;
    const uint64_t *words = cp__tuples_get(&m->samples, i, &n);
    const uint64_t *labels = words + 1 + words[0];

    for (size_t j = 0; j < words[0]; j++)
        scratch->ids[j] = words[1 + j] + 1;
    sample.n_location_id = words[0];
    sample.location_id = scratch->ids;
    sample.n_value = m->n_types;
    sample.value = m->values + i * m->n_types;
    sample.n_label = (size_t)(words + n - labels) / 4;
    sample.label = scratch->label_pointers;
    for (size_t j = 0; j < sample.n_label; j++) {
        Cp__Proto__Label *label = &scratch->labels[j];

        cp__proto__label__init(label);
        label->key = (int64_t)labels[4 * j];
        label->str = (int64_t)labels[4 * j + 1];
        label->num = (int64_t)labels[4 * j + 2];
        label->num_unit = (int64_t)labels[4 * j + 3];
    }
    piece.n_sample = 1;
    piece.sample = &(Cp__Proto__Sample *){&sample};
    cp__stream_put(s, &piece);
}

static void put_samples(struct cp__stream *s, const struct cp_merge *m, const struct cp__scratch *scratch)
{
    for (size_t i = 0; i < m->samples.n && s->error == 0; i++)
        if (!is_zero(m->values + i * m->n_types, m->n_types))
            put_sample(s, m, i, scratch);
}

static void put_mappings(struct cp__stream *s, const struct cp_merge *m)
{
    for (size_t i = 0; i < m->mappings.n && s->error == 0; i++) {
        const struct cp__merged_mapping *data = &m->mapping_data[i];
        Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
        Cp__Proto__Mapping mapping = CP__PROTO__MAPPING__INIT;

        mapping.id = i + 1;
        mapping.memory_start = data->start;
        mapping.memory_limit = data->limit;
        mapping.file_offset = data->offset;
        mapping.filename = data->file;
        mapping.build_id = data->build_id;
        mapping.has_functions = data->has_functions;
        mapping.has_filenames = data->has_files;
        mapping.has_line_numbers = data->has_lines;
        mapping.has_inline_frames = data->has_inlining;
        piece.n_mapping = 1;
        piece.mapping = &(Cp__Proto__Mapping *){&mapping};
        cp__stream_put(s, &piece);
    }
}

static void put_locations(struct cp__stream *s, const struct cp_merge *m, const struct cp__scratch *scratch)
{
    for (size_t i = 0; i < m->locations.n && s->error == 0; i++) {
        Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
        Cp__Proto__Location location = CP__PROTO__LOCATION__INIT;
        size_t n;
        const uint64_t *words = cp__tuples_get(&m->locations, i, &n);

        location.id = i + 1;
        location.mapping_id = words[0];
        location.address = words[1] + (words[0] == 0 ? 0 : m->mapping_data[words[0] - 1].start);
        location.is_folded = words[2] != 0;
        location.n_line = (n - 3) / 3;
        location.line = scratch->line_pointers;
        for (size_t j = 0; j < location.n_line; j++) {
            Cp__Proto__Line *line = &scratch->lines[j];

            cp__proto__line__init(line);
            line->function_id = words[3 + 3 * j] + 1;
            line->line = (int64_t)words[4 + 3 * j];
            line->column = (int64_t)words[5 + 3 * j];
        }
        piece.n_location = 1;
        piece.location = &(Cp__Proto__Location *){&location};
        cp__stream_put(s, &piece);
    }
}

static void put_functions(struct cp__stream *s, const struct cp_merge *m)
{
    for (size_t i = 0; i < m->functions.n && s->error == 0; i++) {
        Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
        Cp__Proto__Function function = CP__PROTO__FUNCTION__INIT;
        size_t n;
        const uint64_t *words = cp__tuples_get(&m->functions, i, &n);

        function.id = i + 1;
        function.name = (int64_t)words[0];
        function.system_name = (int64_t)words[1];
        function.filename = (int64_t)words[2];
        function.start_line = (int64_t)words[3];
        piece.n_function = 1;
        piece.function = &(Cp__Proto__Function *){&function};
        cp__stream_put(s, &piece);
    }
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int encode(const void *what, struct cp_writer *w)
{
    const struct cp_merge *m = what;
    const size_t n_sample = longest(&m->samples);
    struct cp__stream *s = cp__stream_new(w);
    struct cp__scratch *scratch = cp__scratch_new(n_sample, longest(&m->locations), n_sample);
    int result = -ENOMEM;

    if (s != NULL && scratch != NULL) {
        put_header(s, m);
        put_comments(s, m);
        put_samples(s, m, scratch);
        put_mappings(s, m);
        put_locations(s, m, scratch);
        put_functions(s, m);
        put_strings(s, m);
        result = cp__stream_end(s);
    }
    free(scratch);
    cp__stream_free(s);
    return result;
}

static int write_merge(const void *what, struct cp_writer *w, struct cp_error *err)
{
    return cp__write_attempt(w, encode, what, err);
}

int cp_merge_write(const struct cp_merge *m, struct cp_writer w, struct cp_error *err)
{
    if (m->n_profiles == 0)
        return cp__error(err, -ENODATA, "There is nothing to write: no profile was added to the merge.");
    return cp__write_elsewhere(w, write_merge, m, err);
}
