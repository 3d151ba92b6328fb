/* A profile's file, written to a stream piece by piece. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile_data.h"
#include "stream.h"

/* ---- Samples --------------------------------------------------------------------------------- */

/* Values are signed in the file. */
static int64_t clamp(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static int64_t multiply(uint64_t weight, uint64_t period)
{
    uint64_t product;

    return __builtin_mul_overflow(weight, period, &product) ? INT64_MAX : clamp(product);
}

static size_t count_labels(const struct cp__profile *p, size_t set)
{
    return cp_labels_count(p->label_sets[set].labels);
}

static struct cp__scratch *scratch_new(const struct cp__profile *p)
{
    size_t n_ids = 0, n_lines = 0, n_labels = 0;
    size_t i;

    for (i = 0; i < p->n_stacks; i++)
        n_ids = p->stacks[i].depth > n_ids ? p->stacks[i].depth : n_ids;
    for (i = 0; i < p->n_frames; i++)
        n_lines = p->frames[i].n_lines > n_lines ? p->frames[i].n_lines : n_lines;
    for (i = 0; i < p->n_label_sets; i++)
        n_labels = count_labels(p, i) > n_labels ? count_labels(p, i) : n_labels;
    return cp__scratch_new(n_ids, n_lines, n_labels + 1); /* the data's address */
}

static void fill_label(Cp__Proto__Label *label, uint32_t key, uint32_t value)
{
    cp__proto__label__init(label);
    label->key = key;
    label->str = value;
}

static size_t fill_labels(const struct cp__profile *p, const struct cp__stack *stack,
                          struct cp__scratch *scratch)
{
    const uint32_t *strings;
    size_t n = 0, i;

    if (stack->labels != 0) {
        strings = p->label_strings + p->label_sets[stack->labels - 1].first_string;
        n = count_labels(p, stack->labels - 1);
        for (i = 0; i < n; i++)
            fill_label(&scratch->labels[i], strings[2 * i], strings[2 * i + 1]);
    }
    if (stack->address != 0)
        fill_label(&scratch->labels[n++], p->address_key, stack->address_string);
    return n;
}

static void put_samples(struct cp__stream *s, const struct cp__profile *p,
                        const struct cp__profile_meta *meta, struct cp__scratch *scratch)
{
    size_t n;
    uint32_t i;

    for (n = 0; n < p->n_stacks && s->error == 0; n++) {
        const struct cp__stack *stack = &p->stacks[n];
        Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
        Cp__Proto__Sample sample = CP__PROTO__SAMPLE__INIT;
        int64_t values[] = {clamp(stack->weight), multiply(stack->weight, meta->period)};

        for (i = 0; i < stack->depth; i++)
            scratch->ids[i] = (uint64_t)p->stack_frames[stack->first + i] + 1;
        if (cp__stack_is_precise(p, stack))
            scratch->ids[0] = stack->ip;
        sample.n_location_id = stack->depth;
        sample.location_id = scratch->ids;
        sample.n_value = meta->is_count ? 1 : 2;
        sample.value = values;
        sample.n_label = fill_labels(p, stack, scratch);
        sample.label = scratch->label_pointers;
        piece.n_sample = 1;
        piece.sample = &(Cp__Proto__Sample *){&sample};
        cp__stream_put(s, &piece);
    }
}

/* ---- What samples refer to ------------------------------------------------------------------- */

static void put_mappings(struct cp__stream *s, const struct cp__profile *p)
{
    const struct cp__mapping_use *use;
    size_t i;

    for (i = 0; i < p->mappings.n; i++) {
        Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
        Cp__Proto__Mapping mapping = CP__PROTO__MAPPING__INIT;

        use = &p->uses[i];
        if (use->id == 0)
            continue;
        mapping.id = use->id;
        mapping.memory_start = p->mappings.items[i].start;
        mapping.memory_limit = p->mappings.items[i].limit;
        mapping.file_offset = p->mappings.items[i].offset;
        mapping.filename = use->file;
        mapping.build_id = use->build_id;
        mapping.has_functions = use->has_functions;
        mapping.has_filenames = use->has_files;
        mapping.has_line_numbers = use->has_lines;
        mapping.has_inline_frames = use->has_inlining;
        piece.n_mapping = 1;
        piece.mapping = &(Cp__Proto__Mapping *){&mapping};
        cp__stream_put(s, &piece);
    }
}

static void put_locations(struct cp__stream *s, const struct cp__profile *p, struct cp__scratch *scratch)
{
    size_t n;
    uint32_t i;

    for (n = 0; n < p->n_frames && s->error == 0; n++) {
        const struct cp__frame *frame = &p->frames[n];
        Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
        Cp__Proto__Location location = CP__PROTO__LOCATION__INIT;

        for (i = 0; i < frame->n_lines; i++) {
            cp__proto__line__init(&scratch->lines[i]);
            scratch->lines[i].function_id = (uint64_t)p->lines[frame->first_line + i].function + 1;
            scratch->lines[i].line = p->lines[frame->first_line + i].line;
        }
        location.id = n + 1;
        location.mapping_id = frame->mapping == 0 ? 0 : p->uses[frame->mapping - 1].id;
        location.address = frame->address;
        location.n_line = frame->n_lines;
        location.line = scratch->line_pointers;
        piece.n_location = 1;
        piece.location = &(Cp__Proto__Location *){&location};
        cp__stream_put(s, &piece);
    }
}

static void put_functions(struct cp__stream *s, const struct cp__profile *p)
{
    size_t i;

    for (i = 0; i < p->n_functions && s->error == 0; i++) {
        Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
        Cp__Proto__Function function = CP__PROTO__FUNCTION__INIT;

        function.id = i + 1;
        function.name = p->functions[i].name;
        function.system_name = p->functions[i].name; /* readers translate names of C++ and Rust themselves */
        function.filename = p->functions[i].file;
        function.start_line = p->functions[i].start_line;
        piece.n_function = 1;
        piece.function = &(Cp__Proto__Function *){&function};
        cp__stream_put(s, &piece);
    }
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* The strings of meta stand in the table behind those of the profile, in this order, and then the
 * comments. */
enum { SAMPLES, COUNT, TYPE, UNIT, FIRST_COMMENT };

static void put_strings(struct cp__stream *s, const struct cp__profile *p,
                        const struct cp__profile_meta *meta)
{
    size_t i;

    for (i = 0; i < p->strings.n && s->error == 0; i++)
        cp__stream_put_string(s, cp__strings_get(&p->strings, (uint32_t)i));
    cp__stream_put_string(s, "samples");
    cp__stream_put_string(s, "count");
    cp__stream_put_string(s, meta->sample_type);
    cp__stream_put_string(s, meta->sample_unit);
    for (i = 0; i < meta->n_comments; i++)
        cp__stream_put_string(s, meta->comments[i]);
}

static void put_meta(struct cp__stream *s, const struct cp__profile *p, const struct cp__profile_meta *meta)
{
    Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;
    Cp__Proto__ValueType samples = CP__PROTO__VALUE_TYPE__INIT;
    Cp__Proto__ValueType event = CP__PROTO__VALUE_TYPE__INIT;
    int64_t first = (int64_t)p->strings.n;
    int64_t comment;
    size_t i;

    samples.type = first + SAMPLES;
    samples.unit = first + COUNT;
    event.type = first + TYPE;
    event.unit = first + UNIT;
    piece.n_sample_type = meta->is_count ? 1 : 2;
    piece.sample_type = (Cp__Proto__ValueType *[]){meta->is_count ? &event : &samples, &event};
    piece.default_sample_type = event.type;
    piece.period_type = &event;
    piece.period = clamp(meta->period);
    piece.time_nanos = meta->time_ns;
    piece.duration_nanos = meta->duration_ns;
    cp__stream_put(s, &piece);
    for (i = 0; i < meta->n_comments; i++) {
        Cp__Proto__Profile more = CP__PROTO__PROFILE__INIT;

        comment = first + FIRST_COMMENT + (int64_t)i;
        more.n_comment = 1;
        more.comment = &comment;
        cp__stream_put(s, &more);
    }
}

int cp__profile_encode(const struct cp__profile *p, const struct cp__profile_meta *meta, struct cp_writer *w)
{
    struct cp__stream *s = cp__stream_new(w);
    struct cp__scratch *scratch = scratch_new(p);
    int result = -ENOMEM;

    if (s != NULL && scratch != NULL) {
        put_meta(s, p, meta);
        put_samples(s, p, meta, scratch);
        put_mappings(s, p);
        put_locations(s, p, scratch);
        put_functions(s, p);
        put_strings(s, p, meta);
        result = cp__stream_end(s);
    }
    free(scratch);
    cp__stream_free(s);
    return result;
}
