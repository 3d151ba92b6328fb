/* Describes a profile made of samples to the encoder; see encode.h. */
#include "encode.h"
#include "profile_data.h"
#include "rounds.h"

struct told {
    const struct cp__profile *profile;
    const struct cp__profile_meta *meta;
};

static int64_t clamp_value(uint64_t value) /* values in the file are signed */
{
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static size_t tell_function(const void *what, size_t i, uint64_t *words)
{
    const struct cp__function *function = &((const struct told *)what)->profile->functions[i];
    size_t n = 0;

    words[n++] = function->name;
    words[n++] = function->system_name;
    words[n++] = function->file;
    words[n++] = function->start_line;
    return n;
}

static size_t tell_location(const void *what, size_t i, uint64_t *words)
{
    const struct cp__profile *p = ((const struct told *)what)->profile;
    const struct cp__frame *frame = &p->frames[i];
    size_t n = 0;

    words[n++] = frame->mapping == 0 ? 0 : p->uses[frame->mapping - 1].id;
    words[n++] = frame->address;
    words[n++] = false;
    for (uint32_t j = 0; j < frame->n_lines; j++) {
        words[n++] = p->lines[frame->first_line + j].function;
        words[n++] = p->lines[frame->first_line + j].line;
        words[n++] = 0;
    }
    return n;
}

static size_t n_labels_of(const struct cp__profile *p, const struct cp__profile_stack *stack)
{
    return stack->labels == 0 ? 0 : cp_labels_count(p->label_sets[stack->labels - 1].labels);
}

static size_t tell_label(uint64_t *words, uint32_t key, uint32_t value, uint64_t number, uint32_t unit)
{
    words[0] = key;
    words[1] = value;
    words[2] = number;
    words[3] = unit;
    return 4;
}

static size_t tell_rounds(uint64_t *words, const struct cp__profile *p, uint32_t set)
{
    struct cp__round_label labels[CP__ROUND_LABELS];
    const size_t n_labels = cp__profile_rounds_labels(p, set, labels);
    size_t n = 0;

    for (size_t i = 0; i < n_labels; i++)
        n += tell_label(words + n, labels[i].key, labels[i].string, labels[i].number, labels[i].unit);
    return n;
}

static size_t tell_sample(const void *what, size_t i, uint64_t *words)
{
    const struct cp__profile *p = ((const struct told *)what)->profile;
    const struct cp__profile_stack *stack = &p->stacks[i];
    const size_t n_labels = n_labels_of(p, stack);
    size_t n = 0;

    words[n++] = stack->depth;
    for (uint32_t j = 0; j < stack->depth; j++)
        words[n++] = p->stack_frames[stack->first + j];
    if (cp__stack_is_precise(p, stack))
        words[1] = stack->ip - 1;
    for (size_t j = 0; j < n_labels; j++) {
        const uint32_t *label = p->label_strings + p->label_sets[stack->labels - 1].first_string + 2 * j;

        n += tell_label(words + n, label[0], label[1], 0, 0);
    }
    n += tell_rounds(words + n, p, stack->rounds);
    if (stack->address != 0)
        n += tell_label(words + n, p->address_key, stack->address_string, 0, 0);
    if (cp__stack_is_undecided(p, stack))
        n += tell_label(words + n, p->recorded_key, 0, stack->ip, 0); /* an id is a number plus 1 */
    return n;
}

/* The values of a stack: those made of its weight, then the further ones. */
enum { MADE = 2 };
_Static_assert(MADE + CP__MAX_FURTHER <= CP__MAX_VALUES, "there is room for the values of a sample");

static const int64_t *tell_values(const void *what, size_t i, int64_t room[CP__MAX_VALUES])
{
    const struct told *told = what;
    const struct cp__profile *p = told->profile;
    const uint64_t weight = p->stacks[i].weight;
    const uint64_t factor = told->meta->period_type == NULL ? told->meta->period : 1;
    uint64_t product;

    room[0] = clamp_value(weight);
    room[1] = __builtin_mul_overflow(weight, factor, &product) ? INT64_MAX : clamp_value(product);
    for (size_t j = 0; j < p->n_further; j++)
        room[MADE + j] = clamp_value(cp__stack_values(p, i)[j]);
    return room + told->meta->is_count;
}

/* Lists the names of the types and units of the values, and of the period if it has its own, numbered from
 * "first". Types are the numbers of the two names of each value, and at last of the period's. Returns how
 * many values there are. */
static size_t list_types(const struct told *told, uint64_t first, const char **names, uint64_t *types)
{
    const struct cp__profile *p = told->profile;
    const struct cp__value_type *period = told->meta->period_type;
    const size_t n = MADE + p->n_further;

    names[0] = "samples";
    names[1] = "count";
    names[2] = told->meta->sample_type;
    names[3] = told->meta->sample_unit;
    for (size_t i = 0; i < p->n_further; i++) {
        names[2 * (MADE + i)] = p->further[i].type;
        names[2 * (MADE + i) + 1] = p->further[i].unit;
    }
    if (period != NULL) {
        names[2 * n] = period->type;
        names[2 * n + 1] = period->unit;
    }
    for (size_t i = 0; i < 2 * n; i++)
        types[i] = first + i;
    types[2 * n] = period != NULL ? first + 2 * n : types[2];
    types[2 * n + 1] = period != NULL ? first + 2 * n + 1 : types[3];
    return n;
}

/* Returns the number of words of the longest sample or location. */
static size_t longest_tuple(const struct cp__profile *p)
{
    size_t most = 4, n;

    for (size_t i = 0; i < p->n_stacks; i++) {
        n = 1 + p->stacks[i].depth + 4 * (n_labels_of(p, &p->stacks[i]) + CP__ROUND_LABELS + 2);
        most = n > most ? n : most;
    }
    for (size_t i = 0; i < p->n_frames; i++) {
        n = 3 + 3 * p->frames[i].n_lines;
        most = n > most ? n : most;
    }
    return most;
}

int cp__profile_encode(const struct cp__profile *p, const struct cp__profile_meta *meta, struct cp_writer *w)
{
    const struct told told = {p, meta};
    const char *names[2 * (CP__MAX_VALUES + 1)];
    uint64_t types[2 * (CP__MAX_VALUES + 1)];
    const size_t n_values = list_types(&told, p->strings.n, names, types);
    const struct cp__encoding encoding = {
        .what = &told,
        .function = tell_function,
        .location = tell_location,
        .sample = tell_sample,
        .values = tell_values,
        .n_functions = p->n_functions,
        .n_locations = p->n_frames,
        .n_samples = p->n_stacks,
        .max_words = longest_tuple(p),
        .mappings = p->uses,
        .n_mappings = p->mappings.n,
        .strings = &p->strings,
        .names = names,
        .n_names = 2 * (n_values + (meta->period_type != NULL)),
        .comments = meta->comments,
        .n_comments = meta->n_comments,
        .types = types + 2 * meta->is_count,
        .n_types = n_values - meta->is_count,
        .time_ns = meta->time_ns,
        .duration_ns = meta->duration_ns,
        .period = clamp_value(meta->period),
        .default_type = (int64_t)types[meta->shows_further ? 2 * MADE : 2],
    };

    return cp__encode(&encoding, w);
}
