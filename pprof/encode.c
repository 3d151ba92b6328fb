/* Encodes a profile piece by piece: each message is filled, packed and forgotten. See encode.h. */
#include "encode.h"

#include "stream.h"

/* The encoder holds one part at a time: the part's words, and the messages that its message points to. */
struct encoder {
    const struct cp__encoding *of;
    struct cp__stream *stream;
    uint64_t *words;
    Cp__Proto__Line *lines, **line_pointers;
    Cp__Proto__Label *labels, **label_pointers;
};

/* Writes a Profile message in which a repeated field has one element, and all other fields are empty. */
#define PUT(e, field, value)                                                                                 \
    do {                                                                                                     \
        Cp__Proto__Profile piece_ = CP__PROTO__PROFILE__INIT;                                                \
        piece_.n_##field = 1;                                                                                \
        piece_.field = (value);                                                                              \
        cp__stream_put((e)->stream, &piece_);                                                                \
    } while (0)

/* ---- Parts ----------------------------------------------------------------------------------- */

static void encode_sample(struct encoder *e, size_t i)
{
    Cp__Proto__Sample sample = CP__PROTO__SAMPLE__INIT;
    int64_t room[CP__MAX_VALUES];
    const int64_t *values = e->of->values(e->of->what, i, room);
    uint64_t *words = e->words, *labels;
    size_t n;

    if (values == NULL)
        return;
    n = e->of->sample(e->of->what, i, words);
    sample.n_location_id = words[0];
    sample.location_id = words + 1;
    labels = words + 1 + words[0];
    for (size_t j = 0; j < words[0]; j++)
        sample.location_id[j]++; /* ids begin at 1 */
    sample.n_value = e->of->n_types;
    sample.value = (int64_t *)(uintptr_t)values; /* packing them does not write to them */
    sample.n_label = (size_t)(words + n - labels) / 4;
    sample.label = e->label_pointers;
    for (size_t j = 0; j < sample.n_label; j++, labels += 4) {
        cp__proto__label__init(&e->labels[j]);
        e->labels[j].key = (int64_t)labels[0];
        e->labels[j].str = (int64_t)labels[1];
        e->labels[j].num = (int64_t)labels[2];
        e->labels[j].num_unit = (int64_t)labels[3];
    }
    PUT(e, sample, &(Cp__Proto__Sample *){&sample});
}

static void encode_mapping(struct encoder *e, size_t i)
{
    const struct cp__encoded_mapping *of = &e->of->mappings[i];
    Cp__Proto__Mapping mapping = CP__PROTO__MAPPING__INIT;

    if (of->id == 0)
        return;
    mapping.id = of->id;
    mapping.memory_start = of->start;
    mapping.memory_limit = of->limit;
    mapping.file_offset = of->offset;
    mapping.filename = of->file;
    mapping.build_id = of->build_id;
    mapping.has_functions = of->has_functions;
    mapping.has_filenames = of->has_files;
    mapping.has_line_numbers = of->has_lines;
    mapping.has_inline_frames = of->has_inlining;
    PUT(e, mapping, &(Cp__Proto__Mapping *){&mapping});
}

static void encode_location(struct encoder *e, size_t i)
{
    Cp__Proto__Location location = CP__PROTO__LOCATION__INIT;
    const uint64_t *words = e->words;
    const size_t n = e->of->location(e->of->what, i, e->words);

    location.id = i + 1;
    location.mapping_id = words[0];
    location.address = words[1];
    location.is_folded = words[2] != 0;
    location.n_line = (n - 3) / 3;
    location.line = e->line_pointers;
    for (size_t j = 0; j < location.n_line; j++) {
        cp__proto__line__init(&e->lines[j]);
        e->lines[j].function_id = words[3 + 3 * j] + 1;
        e->lines[j].line = (int64_t)words[4 + 3 * j];
        e->lines[j].column = (int64_t)words[5 + 3 * j];
    }
    PUT(e, location, &(Cp__Proto__Location *){&location});
}

static void encode_function(struct encoder *e, size_t i)
{
    Cp__Proto__Function function = CP__PROTO__FUNCTION__INIT;
    const uint64_t *words = e->words;

    e->of->function(e->of->what, i, e->words);
    function.id = i + 1;
    function.name = (int64_t)words[0];
    function.system_name = (int64_t)words[1];
    function.filename = (int64_t)words[2];
    function.start_line = (int64_t)words[3];
    PUT(e, function, &(Cp__Proto__Function *){&function});
}

/* Writes string i: first those of the table, then the names, then the comments. */
static void encode_string(struct encoder *e, size_t i)
{
    const struct cp__encoding *of = e->of;
    const char *text = i < of->strings->n                 ? cp__strings_get(of->strings, (uint32_t)i)
                       : i < of->strings->n + of->n_names ? of->names[i - of->strings->n]
                                                          : of->comments[i - of->strings->n - of->n_names];

    PUT(e, string_table, &(char *){(char *)(uintptr_t)text}); /* packing it does not write to it */
}

/* ---- The head -------------------------------------------------------------------------------- */

/* Returns the type of value i, or of the period if i is n_types. */
static Cp__Proto__ValueType type_of(const struct encoder *e, size_t i)
{
    Cp__Proto__ValueType type = CP__PROTO__VALUE_TYPE__INIT;

    type.type = (int64_t)e->of->types[2 * i];
    type.unit = (int64_t)e->of->types[2 * i + 1];
    return type;
}

static void encode_type(struct encoder *e, size_t i)
{
    Cp__Proto__ValueType type = type_of(e, i);

    PUT(e, sample_type, &(Cp__Proto__ValueType *){&type});
}

/* Writes the fields that are not repeated. */
static void encode_head(struct encoder *e)
{
    Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
    Cp__Proto__ValueType period_type = type_of(e, e->of->n_types);

    piece.period_type = &period_type;
    piece.time_nanos = e->of->time_ns;
    piece.duration_nanos = e->of->duration_ns;
    piece.period = e->of->period;
    piece.default_sample_type = e->of->default_type;
    piece.drop_frames = e->of->drop_frames;
    piece.keep_frames = e->of->keep_frames;
    piece.doc_url = e->of->doc_url;
    cp__stream_put(e->stream, &piece);
}

static void encode_comment(struct encoder *e, size_t i)
{
    const struct cp__encoding *of = e->of;
    int64_t comment =
        (int64_t)(i < of->n_known_comments ? of->known_comments[i]
                                           : of->strings->n + of->n_names + i - of->n_known_comments);

    PUT(e, comment, &comment);
}

/* ---- The whole profile ----------------------------------------------------------------------- */

/* Allocates the encoder's memory in one piece, which the caller frees. The arrays follow each other without
 * padding, because words, pointers and messages have one alignment. */
static void *encoder_reserve(struct encoder *e)
{
    const size_t n = e->of->max_words, n_lines = n / 3 + 1, n_labels = n / 4 + 1;
    char *memory = calloc(1, n * sizeof *e->words + n_lines * (sizeof *e->lines + sizeof *e->line_pointers) +
                                 n_labels * (sizeof *e->labels + sizeof *e->label_pointers));

    if (memory == NULL)
        return NULL;
    e->words = (uint64_t *)memory;
    e->line_pointers = (Cp__Proto__Line **)(e->words + n);
    e->label_pointers = (Cp__Proto__Label **)(e->line_pointers + n_lines);
    e->lines = (Cp__Proto__Line *)(e->label_pointers + n_labels);
    e->labels = (Cp__Proto__Label *)(e->lines + n_lines);
    for (size_t i = 0; i < n_lines; i++)
        e->line_pointers[i] = &e->lines[i];
    for (size_t i = 0; i < n_labels; i++)
        e->label_pointers[i] = &e->labels[i];
    return memory;
}

static void encode_each(struct encoder *e, size_t n, void (*encode)(struct encoder *e, size_t i))
{
    for (size_t i = 0; i < n && e->stream->error == 0; i++)
        encode(e, i);
}

int cp__encode(const struct cp__encoding *of, struct cp_writer *w)
{
    struct encoder e = {.of = of, .stream = cp__stream_new(w)};
    void *memory = encoder_reserve(&e);
    int result = -ENOMEM;

    if (e.stream != NULL && memory != NULL) {
        encode_each(&e, of->n_types, encode_type);
        encode_head(&e);
        encode_each(&e, of->n_known_comments + of->n_comments, encode_comment);
        encode_each(&e, of->n_samples, encode_sample);
        encode_each(&e, of->n_mappings, encode_mapping);
        encode_each(&e, of->n_locations, encode_location);
        encode_each(&e, of->n_functions, encode_function);
        encode_each(&e, of->strings->n + of->n_names + of->n_comments, encode_string);
        result = cp__stream_end(e.stream);
    }
    free(memory);
    cp__stream_free(e.stream);
    return result;
}
