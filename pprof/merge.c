/* Folds profiles together; see merge.h. */
#include "merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile_data.h"
#include "runtime/base/fail.h"

/* A profile that is being added to a merge. */
struct addition {
    struct cp_merge *m;
    const Cp__Proto__Profile *p;
    bool is_subtraction;
    struct cp__id_tables ids;
    uint32_t *strings; /* the numbers in the merge of the profile's strings */
    uint32_t *samples; /* the numbers in the merge of the profile's samples */
    uint64_t *words;   /* the tuple that is being made */
    size_t n_words, words_capacity;
};

static int64_t add_values(int64_t a, int64_t b)
{
    int64_t sum;

    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

static int64_t subtract_values(int64_t a, int64_t b)
{
    int64_t difference;

    if (!__builtin_sub_overflow(a, b, &difference))
        return difference;
    return b > 0 ? INT64_MIN : INT64_MAX;
}

/* ---- Types ----------------------------------------------------------------------------------- */

static void put_type(FILE *out, const Cp__Proto__Profile *p, const Cp__Proto__ValueType *type)
{
    fprintf(out, "%s in %s", p->string_table[type->type], p->string_table[type->unit]);
}

/* Returns what a profile's samples count, in words; the caller frees the text. */
static char *name_types(const Cp__Proto__Profile *p)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < p->n_sample_type; i++) {
        fputs(i > 0 ? ", " : "", out);
        put_type(out, p, p->sample_type[i]);
    }
    if (p->period_type != NULL) {
        fputs(" by ", out);
        put_type(out, p, p->period_type);
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* Refuses a profile whose samples count other things than those of the merge. The number n is compared, too,
 * because a name with ", " or " in " could make other types look the same in words. */
static int check_types(struct cp_merge *m, size_t n, const char *types, struct cp_error *err)
{
    if (m->types == NULL || (n == m->n_types && strcmp(types, m->types) == 0))
        return 0;
    return cp__error(
        err, -EINVAL,
        "Profiles of different things cannot be merged: one has %.150s, and those before it have "
        "%.150s.",
        types, m->types);
}

/* ---- Tuples ---------------------------------------------------------------------------------- */

/* Begins a tuple of at most n words. */
static int begin_tuple(struct addition *a, size_t n)
{
    a->n_words = 0;
    return CP__RESERVE(a->words, a->words_capacity, n);
}

/* Appends a word. begin_tuple() has made room. */
static void put_word(struct addition *a, uint64_t word)
{
    a->words[a->n_words++] = word;
}

/* Adds the tuple unless the same one is there, and stores its number. */
static int end_tuple(struct addition *a, struct cp__tuples *tuples, uint32_t *number)
{
    return cp__tuples_add(tuples, a->words, a->n_words, number);
}

/* Combines the flags of a mapping: frames have names if those of any profile have. (go tool pprof takes the
 * flags of the first profile, may then look up names again that are already known, and find fewer.) */
static void add_flags(struct cp__encoded_mapping *to, const struct cp__encoded_mapping *from)
{
    to->has_functions |= from->has_functions;
    to->has_files |= from->has_files;
    to->has_lines |= from->has_lines;
    to->has_inlining |= from->has_inlining;
}

static int fold_mapping(struct addition *a, uint32_t i)
{
    enum { PAGE = 4096 }; /* sizes are compared in pages, rounded up, as in go tool pprof */
    struct cp_merge *m = a->m;
    const Cp__Proto__Mapping *mapping = a->p->mapping[i];
    const size_t n = m->mappings.n;
    const struct cp__encoded_mapping data = {
        .id = (uint32_t)n + 1,
        .start = mapping->memory_start,
        .limit = mapping->memory_limit,
        .offset = mapping->file_offset,
        .file = a->strings[mapping->filename],
        .build_id = a->strings[mapping->build_id],
        .has_functions = mapping->has_functions,
        .has_files = mapping->has_filenames,
        .has_lines = mapping->has_line_numbers,
        .has_inlining = mapping->has_inline_frames,
    };
    const uint32_t file = data.build_id != 0 ? data.build_id : data.file;
    uint32_t number;

    if (a->ids.mappings.numbers[i] != 0)
        return 0;
    if (begin_tuple(a, 4) < 0 || CP__RESERVE(m->mapping_data, m->mapping_data_capacity, n + 1) < 0)
        return -ENOMEM;
    put_word(a, (data.limit - data.start + PAGE - 1) / PAGE);
    put_word(a, data.offset);
    put_word(a, file);
    put_word(a, file == 0 ? data.start : 0);
    if (end_tuple(a, &m->mappings, &number) < 0)
        return -ENOMEM;
    if (number == n)
        m->mapping_data[n] = data;
    else
        add_flags(&m->mapping_data[number], &data);
    a->ids.mappings.numbers[i] = number + 1;
    return 0;
}

static int fold_function(struct addition *a, uint32_t i)
{
    const Cp__Proto__Function *function = a->p->function[i];
    uint32_t number;

    if (a->ids.functions.numbers[i] != 0)
        return 0;
    if (begin_tuple(a, 4) < 0)
        return -ENOMEM;
    put_word(a, a->strings[function->name]);
    put_word(a, a->strings[function->system_name]);
    put_word(a, a->strings[function->filename]);
    put_word(a, (uint64_t)function->start_line);
    if (end_tuple(a, &a->m->functions, &number) < 0)
        return -ENOMEM;
    a->ids.functions.numbers[i] = number + 1;
    return 0;
}

/* Returns the number, plus 1, of something with that id that has been folded. Ids were checked by
 * cp__merge_read(). */
static uint32_t number_of(const struct cp__ids *ids, uint64_t id)
{
    uint32_t i = 0;

    return cp__ids_find(ids, id, &i) ? ids->numbers[i] : 0;
}

/* Folds the mapping and the functions that a location refers to. */
static int fold_parts(struct addition *a, const Cp__Proto__Location *location)
{
    uint32_t i;
    int result = 0;

    if (cp__ids_find(&a->ids.mappings, location->mapping_id, &i))
        result = fold_mapping(a, i);
    for (size_t j = 0; j < location->n_line && result == 0; j++)
        if (cp__ids_find(&a->ids.functions, location->line[j]->function_id, &i))
            result = fold_function(a, i);
    return result;
}

static int fold_location(struct addition *a, uint32_t i)
{
    const Cp__Proto__Location *location = a->p->location[i];
    uint32_t mapping, number;

    if (a->ids.locations.numbers[i] != 0)
        return 0;
    if (fold_parts(a, location) < 0 || begin_tuple(a, 3 + 3 * location->n_line) < 0)
        return -ENOMEM;
    put_word(a, number_of(&a->ids.mappings, location->mapping_id));
    put_word(a, location->address);
    if (cp__ids_find(&a->ids.mappings, location->mapping_id, &mapping))
        a->words[1] -= a->p->mapping[mapping]->memory_start;
    put_word(a, (uint64_t)location->is_folded);
    for (size_t j = 0; j < location->n_line; j++) {
        put_word(a, number_of(&a->ids.functions, location->line[j]->function_id) - 1);
        put_word(a, (uint64_t)location->line[j]->line);
        put_word(a, (uint64_t)location->line[j]->column);
    }
    if (end_tuple(a, &a->m->locations, &number) < 0)
        return -ENOMEM;
    a->ids.locations.numbers[i] = number + 1;
    return 0;
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* Sorts labels, so that equal sets of labels make equal tuples. */
static int compare_labels(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;

    for (int i = 0; i < 4; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* Returns the number of a label: that of the recorded instruction's location is the one in the merge. */
static uint64_t label_number(const struct addition *a, const Cp__Proto__Label *label)
{
    const bool is_location = strcmp(a->p->string_table[label->key], CP__RECORDED_KEY) == 0;
    const uint32_t number = is_location ? number_of(&a->ids.locations, (uint64_t)label->num) : 0;

    return number != 0 ? number : (uint64_t)label->num;
}

static void put_labels(struct addition *a, const Cp__Proto__Sample *sample)
{
    const size_t first = a->n_words;

    for (size_t i = 0; i < sample->n_label; i++) {
        put_word(a, a->strings[sample->label[i]->key]);
        put_word(a, a->strings[sample->label[i]->str]);
        put_word(a, label_number(a, sample->label[i]));
        put_word(a, a->strings[sample->label[i]->num_unit]);
    }
    qsort(a->words + first, sample->n_label, 4 * sizeof *a->words, compare_labels);
}

/* Folds the locations of a sample: those of its stack, and that of the recorded instruction, which only its
 * label has. */
static int fold_sample_locations(struct addition *a, const Cp__Proto__Sample *sample)
{
    uint32_t location;
    int result = 0;

    for (size_t i = 0; i < sample->n_location_id && result == 0; i++)
        if (cp__ids_find(&a->ids.locations, sample->location_id[i], &location))
            result = fold_location(a, location);
    for (size_t i = 0; i < sample->n_label && result == 0; i++)
        if (strcmp(a->p->string_table[sample->label[i]->key], CP__RECORDED_KEY) == 0 &&
            cp__ids_find(&a->ids.locations, (uint64_t)sample->label[i]->num, &location))
            result = fold_location(a, location);
    return result;
}

/* Finds the sample in the merge, or adds it with zeros as values. The values are added by add_samples(),
 * when nothing can fail any more. */
static int fold_sample(struct addition *a, size_t i)
{
    struct cp_merge *m = a->m;
    const Cp__Proto__Sample *sample = a->p->sample[i];

    if (fold_sample_locations(a, sample) < 0 ||
        begin_tuple(a, 1 + sample->n_location_id + 4 * sample->n_label) < 0 ||
        CP__RESERVE(m->values, m->values_capacity, m->n_values + a->p->n_sample_type) < 0)
        return -ENOMEM;
    put_word(a, sample->n_location_id);
    for (size_t j = 0; j < sample->n_location_id; j++)
        put_word(a, number_of(&a->ids.locations, sample->location_id[j]) - 1);
    put_labels(a, sample);
    if (end_tuple(a, &m->samples, &a->samples[i]) < 0)
        return -ENOMEM;
    for (; m->n_values < m->samples.n * a->p->n_sample_type; m->n_values++)
        m->values[m->n_values] = 0;
    return 0;
}

static int fold_comments(struct addition *a)
{
    uint32_t number;
    int result = 0;

    for (size_t i = 0; i < a->p->n_comment && result == 0; i++) {
        char text[CP__TALLY_COMMENT];
        const char *comment = cp__tally_comment(a->p->string_table[a->p->comment[i]], text);
        uint64_t string;

        if (comment == NULL)
            continue;
        result = cp__strings_add(&a->m->strings, comment, &number);
        string = number;
        if (result == 0)
            result = cp__tuples_add(&a->m->comments, &string, 1, &number);
    }
    return result;
}

/* ---- The whole profile ----------------------------------------------------------------------- */

/* Adds the profile's strings to the merge, and allocates the arrays of the addition. */
static int fold_strings(struct addition *a)
{
    const Cp__Proto__Profile *p = a->p;
    int result = 0;

    a->strings = calloc(p->n_string_table, sizeof *a->strings);
    a->samples = calloc(p->n_sample + 1, sizeof *a->samples);
    if (a->strings == NULL || a->samples == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < p->n_string_table && result == 0; i++)
        result = cp__strings_add(&a->m->strings, p->string_table[i], &a->strings[i]);
    return result;
}

/* Does everything that can fail. The new samples have only zeros so far, so they would not be written after
 * a failure. */
static int fold_profile(struct addition *a)
{
    int result = cp__id_tables_fill(&a->ids, a->p);

    if (result == 0)
        result = fold_strings(a);
    if (result == 0 && a->m->mappings.n == 0 && a->p->n_mapping > 0)
        result = fold_mapping(a, 0); /* readers expect the program's mapping first */
    for (size_t i = 0; i < a->p->n_sample && result == 0; i++)
        result = fold_sample(a, i);
    return result;
}

/* Takes a string of the header from the first profile that has one. */
static void take_string(uint32_t *string, const struct addition *a, int64_t number)
{
    if (*string == 0)
        *string = a->strings[number];
}

static void add_header(struct addition *a)
{
    struct cp_merge *m = a->m;
    const Cp__Proto__Profile *p = a->p;

    if (m->time_ns == 0 || p->time_nanos < m->time_ns)
        m->time_ns = p->time_nanos;
    m->duration_ns = add_values(m->duration_ns, p->duration_nanos);
    m->period = p->period > m->period ? p->period : m->period;
    take_string(&m->default_type, a, p->default_sample_type);
    take_string(&m->drop_frames, a, p->drop_frames);
    take_string(&m->keep_frames, a, p->keep_frames);
    take_string(&m->doc_url, a, p->doc_url);
    m->n_profiles++;
    for (size_t i = 0; i < p->n_comment; i++)
        cp__tally_add(&m->tally, p->string_table[p->comment[i]]);
}

static void add_samples(struct addition *a)
{
    for (size_t i = 0; i < a->p->n_sample; i++) {
        const Cp__Proto__Sample *sample = a->p->sample[i];
        int64_t *values = a->m->values + a->samples[i] * sample->n_value;

        for (size_t j = 0; j < sample->n_value; j++)
            values[j] = a->is_subtraction ? subtract_values(values[j], sample->value[j])
                                          : add_values(values[j], sample->value[j]);
    }
}

/* Sets the duration to the time from the subtracted, earlier profile to the profile that was added first. */
static void subtract_header(struct addition *a)
{
    a->m->duration_ns = subtract_values(a->m->time_ns, a->p->time_nanos);
    a->m->n_profiles++;
}

/* Sets the merge's types from the first profile. Takes *types over then. */
static int take_types(struct addition *a, char **types)
{
    struct cp_merge *m = a->m;

    if (m->types != NULL)
        return 0;
    m->type_strings = cp__merge_types(a->p, a->strings);
    if (m->type_strings == NULL)
        return -ENOMEM;
    m->n_types = a->p->n_sample_type;
    m->types = *types;
    *types = NULL;
    return 0;
}

static int add_profile(struct cp_merge *m, const Cp__Proto__Profile *p, bool is_subtraction,
                       struct cp_error *err)
{
    struct addition a = {.m = m, .p = p, .is_subtraction = is_subtraction};
    char *types = name_types(p);
    int result = types == NULL ? -ENOMEM : check_types(m, p->n_sample_type, types, err);

    if (result == 0) {
        result = fold_profile(&a);
        if (result == 0)
            result = fold_comments(&a);
        if (result == 0)
            result = take_types(&a, &types);
    }
    if (result == 0) {
        add_samples(&a);
        if (is_subtraction)
            subtract_header(&a);
        else
            add_header(&a);
    }
    if (result == -ENOMEM)
        cp__error(err, result, "There is not enough memory to merge a profile of %zu samples.", p->n_sample);
    free(types);
    free(a.strings);
    free(a.samples);
    free(a.words);
    cp__id_tables_free(&a.ids);
    return result;
}

struct cp_merge *cp_merge_new(void)
{
    return calloc(1, sizeof(struct cp_merge));
}

static void clear(struct cp_merge *m)
{
    cp__strings_free(&m->strings);
    cp__tuples_free(&m->mappings);
    cp__tuples_free(&m->functions);
    cp__tuples_free(&m->locations);
    cp__tuples_free(&m->samples);
    cp__tuples_free(&m->comments);
    free(m->types);
    free(m->type_strings);
    free(m->mapping_data);
    free(m->values);
    *m = (struct cp_merge){0};
}

static int read_and_add(struct cp_merge *m, const void *data, size_t size, bool is_subtraction,
                        struct cp_error *err)
{
    int result;
    Cp__Proto__Profile *p = cp__merge_read(data, size, CP_MERGE_LIMIT, &result, err);

    if (p == NULL)
        return result;
    result = add_profile(m, p, is_subtraction, err);
    if (result < 0 && m->n_profiles == 0)
        clear(m); /* so that the next profile, as the first, determines the types and the first mapping */
    cp__proto__profile__free_unpacked(p, NULL);
    return result;
}

int cp_merge_add(struct cp_merge *m, const void *data, size_t size, struct cp_error *err)
{
    return read_and_add(m, data, size, false, err);
}

int cp_merge_subtract(struct cp_merge *m, const void *data, size_t size, struct cp_error *err)
{
    return read_and_add(m, data, size, true, err);
}

void cp_merge_free(struct cp_merge *m)
{
    if (m != NULL)
        clear(m);
    free(m);
}
