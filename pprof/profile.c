/* Folds samples into a profile; see profile.h. */
#include "profile.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pprof/symbol/kernel.h"
#include "profile_data.h"
#include "rounds.h"
#include "runtime/base/clock.h"
#include "runtime/base/fail.h"

/* A sample in the form in which it is stored: up to MAX_NAMED frames at its outer end have a name and no
 * address. */
enum { MAX_NAMED = 4, MAX_DEPTH = CP_MAX_FRAMES + MAX_NAMED };
struct key {
    struct cp__frame_key {
        uint64_t address;
        uint32_t name;  /* number in names, plus 1 */
        uint32_t place; /* as in struct cp__frame */
    } frames[MAX_DEPTH];
    uint32_t depth;
    uint32_t labels;         /* number of the label set, plus 1 */
    uint32_t rounds;         /* number of the set of rounds, plus 1 */
    struct cp__frame_key ip; /* the recorded instruction; address 0: none */
    uint64_t address;        /* the address of the data */
};

/* For an address in no known mapping, the mappings are read again, but not more often than this, because
 * code that belongs to no object, such as that of a just-in-time compiler, has new addresses all the
 * time. */
enum { NOTE_INTERVAL_NS = 100000000 };

/* Frames of code that one mapping after the other had, and nobody knows which one ran. */
#define REPLACED "[code replaced]"

static uint32_t as_place(struct cp__profile *p, size_t mapping)
{
    if (mapping >= p->mappings.n)
        return 0;
    p->mappings.items[mapping].is_used = true;
    return (uint32_t)mapping + 1;
}

/* Returns the place of an address of another process. */
static uint32_t place_other(struct cp__profile *p, uint32_t process, uint64_t address)
{
    const uint32_t place = as_place(p, cp__mappings_find_of(&p->mappings, process, address));

    return place != 0 ? place : cp__no_place(process);
}

/* Places the frames that were added since the last time, and were in no known mapping. */
static void place_late(struct cp__profile *p)
{
    for (; p->n_placed < p->n_frames; p->n_placed++) {
        struct cp__frame *frame = &p->frames[p->n_placed];
        const uint32_t process = cp__frame_process(p, frame);

        if (frame->name != 0 || cp__is_placed(frame))
            continue;
        frame->place = process != 0 ? place_other(p, process, frame->address)
                                    : as_place(p, cp__mappings_find_between(&p->mappings, frame->address));
    }
}

/* Without memory, the profile keeps the mappings that it knows. */
int cp__profile_note_mappings(struct cp__profile *profile)
{
    int result = cp__mappings_note(&profile->mappings);

    profile->noted_ns = cp__clock_ns(CLOCK_MONOTONIC_COARSE);
    if (result == 0)
        place_late(profile);
    return result;
}

/* Returns the number of the mapping that a sampled address of this process was in; mappings.n if none is
 * known. */
static size_t find_mapping(struct cp__profile *p, uint64_t address)
{
    size_t found = p->is_of_now ? cp__mappings_find_near(&p->mappings, address, &p->last_place)
                                : cp__mappings_find_then(&p->mappings, address, p->loads, p->is_between);

    if (found != p->mappings.n || address >= CP__KERNEL_START ||
        cp__clock_ns(CLOCK_MONOTONIC_COARSE) - p->noted_ns < NOTE_INTERVAL_NS)
        return found;
    p->is_of_now = false;
    if (cp__profile_note_mappings(p) < 0)
        return p->mappings.n; /* cp__profile_resolve() tries again */
    return cp__mappings_find_then(&p->mappings, address, p->loads, true);
}

int cp__profile_new(struct cp__profile **profile)
{
    return cp__profile_new_with(profile, NULL, 0);
}

int cp__profile_new_with(struct cp__profile **profile, const struct cp__value_type *further, size_t n)
{
    struct cp__profile *p = calloc(1, sizeof *p);
    uint32_t empty;

    if (p == NULL)
        return -ENOMEM;
    p->kallsyms = "/proc/kallsyms";
    for (; p->n_further < n && p->n_further < CP__MAX_FURTHER; p->n_further++)
        p->further[p->n_further] = further[p->n_further];
    if (cp__strings_add(&p->strings, "", &empty) < 0) {
        cp__profile_free(p);
        return -ENOMEM;
    }
    *profile = p;
    return 0;
}

void cp__profile_end(struct cp__profile *profile, int64_t ended_ns)
{
    profile->ended_ns = ended_ns;
}

void cp__profile_leave_names(struct cp__profile *profile, bool leave)
{
    profile->are_names_left = leave;
}

void cp__profile_free(struct cp__profile *p)
{
    size_t i;

    if (p == NULL)
        return;
    cp__stage_drop(p);
    cp__profile_rounds_free(p);
    for (i = 0; i < p->n_label_sets; i++)
        cp_labels_unref(p->label_sets[i].labels);
    for (i = 0; i < p->n_names; i++)
        free(p->names[i]);
    cp__mappings_free(&p->mappings);
    cp__strings_free(&p->strings);
    cp__table_free(&p->stack_table);
    cp__table_free(&p->frame_table);
    cp__table_free(&p->label_table);
    cp__table_free(&p->function_table);
    free(p->stacks);
    free(p->values);
    free(p->stack_frames);
    free(p->frames);
    free(p->names);
    free(p->label_sets);
    free(p->lines);
    free(p->functions);
    free(p->label_strings);
    free(p->uses);
    free(p);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static uint32_t hash_labels(const struct cp_labels *labels)
{
    size_t n = cp_labels_count(labels);
    uint64_t hash = n;
    size_t i;

    for (i = 0; i < n; i++) {
        hash = cp__hash_add_string(hash, cp_labels_key(labels, i));
        hash = cp__hash_add_string(hash, cp_labels_value(labels, i));
    }
    return cp__hash_end(hash);
}

static bool same_labels(const struct cp_labels *a, const struct cp_labels *b)
{
    size_t n = cp_labels_count(a);
    size_t i;

    if (n != cp_labels_count(b))
        return false;
    for (i = 0; i < n; i++)
        if (strcmp(cp_labels_key(a, i), cp_labels_key(b, i)) != 0 ||
            strcmp(cp_labels_value(a, i), cp_labels_value(b, i)) != 0)
            return false;
    return true;
}

/* Returns the number, plus 1, of the set with equal labels; if there is none, the one that the next set
 * gets. */
static uint32_t find_labels(const struct cp__profile *p, const struct cp_labels *labels)
{
    uint32_t hash, number;
    size_t at;

    if (cp_labels_count(labels) == 0)
        return 0;
    if (p->last_labels != 0 && p->label_sets[p->last_labels - 1].labels == labels)
        return p->last_labels;
    hash = hash_labels(labels);
    at = hash;
    while (cp__table_next(&p->label_table, hash, &at, &number))
        if (same_labels(p->label_sets[number].labels, labels))
            return number + 1;
    return (uint32_t)p->n_label_sets + 1;
}

static int reserve_labels(struct cp__profile *p)
{
    if (CP__RESERVE(p->label_sets, p->label_sets_capacity, p->n_label_sets + 1) < 0)
        return -ENOMEM;
    return cp__table_reserve(&p->label_table, 1);
}

/* Adds a set of labels; reserve_labels() has made room. */
static void add_labels(struct cp__profile *p, struct cp_labels *labels)
{
    cp__table_insert(&p->label_table, hash_labels(labels), (uint32_t)p->n_label_sets);
    p->label_sets[p->n_label_sets++] = (struct cp__label_set){.labels = cp_labels_ref(labels)};
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static uint64_t hash_frame(uint64_t hash, const struct cp__frame_key *key)
{
    return cp__hash_add(hash, key->address ^ (uint64_t)key->name << 48 ^ (uint64_t)key->place << 32);
}

static bool same_frame(const struct cp__frame *frame, const struct cp__frame_key *key)
{
    return frame->address == key->address && frame->name == key->name && frame->place == key->place;
}

/* Finds or adds a frame, for which there is room, and returns its number. */
static uint32_t find_frame(struct cp__profile *p, const struct cp__frame_key *key)
{
    uint32_t hash = cp__hash_end(hash_frame(0, key));
    size_t at = hash;
    uint32_t number;

    while (cp__table_next(&p->frame_table, hash, &at, &number))
        if (same_frame(&p->frames[number], key))
            return number;
    number = (uint32_t)p->n_frames++;
    p->frames[number] = (struct cp__frame){.address = key->address, .name = key->name, .place = key->place};
    cp__table_insert(&p->frame_table, hash, number);
    return number;
}

/* Mappings may have changed since the frame was added, so all frames are looked at. */
const struct cp__frame *cp__profile_find(const struct cp__profile *p, uint64_t address)
{
    for (size_t i = 0; i < p->n_frames; i++)
        if (p->frames[i].name == 0 && p->frames[i].address == address &&
            cp__frame_process(p, &p->frames[i]) == 0)
            return &p->frames[i];
    return NULL;
}

/* Finds or adds a name in place of an address; *number is the name's number plus 1. The names are few, so a
 * linear search is enough. */
static int find_frame_name(struct cp__profile *p, const char *text, uint32_t *number)
{
    size_t i;
    char *copy;

    for (i = 0; i < p->n_names; i++) {
        if (strcmp(p->names[i], text) == 0) {
            *number = (uint32_t)i + 1;
            return 0;
        }
    }
    if (CP__RESERVE(p->names, p->names_capacity, p->n_names + 1) < 0)
        return -ENOMEM;
    copy = strdup(text);
    if (copy == NULL)
        return -ENOMEM;
    p->names[p->n_names++] = copy;
    *number = (uint32_t)p->n_names;
    return 0;
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static bool same_stack(const struct cp__profile *p, const struct cp__profile_stack *stack,
                       const struct key *key)
{
    uint32_t i;

    if (stack->depth != key->depth || stack->labels != key->labels || stack->rounds != key->rounds ||
        stack->address != key->address || (stack->ip == 0) != (key->ip.address == 0) ||
        (stack->ip != 0 && !same_frame(&p->frames[stack->ip - 1], &key->ip)))
        return false;
    for (i = 0; i < key->depth; i++)
        if (!same_frame(&p->frames[p->stack_frames[stack->first + i]], &key->frames[i]))
            return false;
    return true;
}

/* Makes room for the further values of one more stack, and sets them to 0. */
static int reserve_values(struct cp__profile *p)
{
    if (p->n_further == 0)
        return 0;
    if (CP__RESERVE(p->values, p->values_capacity, (p->n_stacks + 1) * p->n_further) < 0)
        return -ENOMEM;
    memset(cp__stack_values(p, p->n_stacks), 0, p->n_further * sizeof *p->values);
    return 0;
}

/* Adds a stack without weight. Its number is p->n_stacks before. */
static int add_stack(struct cp__profile *p, const struct key *key, uint32_t hash)
{
    struct cp__profile_stack stack = {.address = key->address,
                                      .first = p->n_stack_frames,
                                      .depth = key->depth,
                                      .labels = key->labels,
                                      .rounds = key->rounds};
    uint32_t i;

    if (CP__RESERVE(p->stacks, p->stacks_capacity, p->n_stacks + 1) < 0 ||
        CP__RESERVE(p->stack_frames, p->stack_frames_capacity, p->n_stack_frames + key->depth) < 0 ||
        CP__RESERVE(p->frames, p->frames_capacity, p->n_frames + key->depth + 1) < 0 ||
        cp__table_reserve(&p->frame_table, key->depth + 1) < 0 || cp__table_reserve(&p->stack_table, 1) < 0 ||
        reserve_values(p) < 0)
        return -ENOMEM;
    for (i = 0; i < key->depth; i++)
        p->stack_frames[p->n_stack_frames++] = find_frame(p, &key->frames[i]);
    if (key->ip.address != 0)
        stack.ip = find_frame(p, &key->ip) + 1;
    cp__table_insert(&p->stack_table, hash, (uint32_t)p->n_stacks);
    p->stacks[p->n_stacks++] = stack;
    return 0;
}

static uint32_t hash_stack(const struct key *key)
{
    const uint64_t sets = (uint64_t)key->rounds << 32 | key->labels;
    uint64_t mixed = cp__hash_add(cp__hash_add(sets, key->ip.address), key->address);

    for (uint32_t i = 0; i < key->depth; i++)
        mixed = hash_frame(mixed, &key->frames[i]);
    return cp__hash_end(mixed);
}

/* Finds or adds the stack of the key, and stores its number. */
static int find_stack(struct cp__profile *p, const struct key *key, uint32_t *number)
{
    const uint32_t hash = hash_stack(key);
    size_t at = hash;

    while (cp__table_next(&p->stack_table, hash, &at, number))
        if (same_stack(p, &p->stacks[*number], key))
            return 0;
    *number = (uint32_t)p->n_stacks;
    return add_stack(p, key, hash);
}

/* Adds the weight and the further values, if there are any, to the stack of the key, which is added if it is
 * new. */
static int fold_stack(struct cp__profile *p, const struct key *key, uint64_t weight, const uint64_t *further)
{
    uint32_t number;

    if (find_stack(p, key, &number) < 0)
        return -ENOMEM;
    p->stacks[number].weight += weight;
    for (size_t i = 0; further != NULL && i < p->n_further; i++)
        cp__stack_values(p, number)[i] += further[i];
    return 0;
}

/* Returns whether frame i is a return address. The innermost frames of the kernel and of the program are
 * instructions. */
static bool is_return(const struct cp_sample *sample, uint32_t i)
{
    return i > 0 && i != sample->kernel_depth;
}

/* Returns the key of an address of another process. All processes have one kernel. */
static struct cp__frame_key key_of_other(struct cp__profile *p, uint32_t process, uint64_t address)
{
    const bool is_kernel = address >= CP__KERNEL_START;

    return (struct cp__frame_key){.address = address,
                                  .place = is_kernel ? 0 : place_other(p, process, address)};
}

/* Returns the instruction that the processor recorded, if it is not the interrupted one, and its mapping is
 * known; else the address is 0. resolve.c finds out later whether both are in one function. */
static struct cp__frame_key recorded_elsewhere(struct cp__profile *p, uint32_t process,
                                               const struct cp_sample *sample)
{
    const bool is_elsewhere =
        sample->depth > 0 && sample->kernel_depth == 0 && sample->ip != sample->frames[0];
    size_t mapping;

    if (!is_elsewhere || sample->ip == 0)
        return (struct cp__frame_key){.address = 0};
    if (process != 0)
        return key_of_other(p, process, sample->ip);
    mapping = find_mapping(p, sample->ip);
    if (mapping == CP__MAPPING_REPLACED)
        return (struct cp__frame_key){.address = 0};
    return (struct cp__frame_key){.address = sample->ip, .place = as_place(p, mapping)};
}

static int append_name(struct cp__profile *p, struct key *key, const char *text)
{
    struct cp__frame_key *frame = &key->frames[key->depth++];

    *frame = (struct cp__frame_key){.address = 0};
    return find_frame_name(p, text, &frame->name);
}

/* Appends the frame of an address of this process. Frames of replaced code that follow each other become
 * one. */
static int append_address(struct cp__profile *p, struct key *key, uint64_t address, bool *is_replaced)
{
    const size_t mapping = find_mapping(p, address);

    if (mapping != CP__MAPPING_REPLACED) {
        key->frames[key->depth++] = (struct cp__frame_key){.address = address, .place = as_place(p, mapping)};
        return 0;
    }
    *is_replaced = true;
    if (key->depth > 0 && key->frames[key->depth - 1].name != 0)
        return 0;
    return append_name(p, key, REPLACED);
}

static int append_frames(struct cp__profile *p, struct key *key, const struct cp_sample *sample,
                         bool *is_replaced)
{
    const uint32_t n = sample->depth < CP_MAX_FRAMES ? sample->depth : CP_MAX_FRAMES;
    int result = 0;

    for (uint32_t i = 0; i < n && result == 0; i++)
        result = append_address(p, key, sample->frames[i] - is_return(sample, i), is_replaced);
    return result;
}

/* The same for a sample of another process. */
static void append_frames_of(struct cp__profile *p, struct key *key, uint32_t process,
                             const struct cp_sample *sample)
{
    for (uint32_t i = 0; i < sample->depth && i < CP_MAX_FRAMES; i++)
        key->frames[key->depth++] = key_of_other(p, process, sample->frames[i] - is_return(sample, i));
}

/* Appends frames that say what the sample's flags mean, in place of the callers that are not known. */
static int append_flags(struct cp__profile *p, struct key *key, const struct cp_sample *sample)
{
    int result = 0;

    if ((sample->flags & CP_SAMPLE_LATE) != 0)
        result = append_name(p, key, "[late: callers unknown]");
    if (result == 0 && (sample->flags & CP_SAMPLE_TRUNCATED) != 0)
        result = append_name(p, key, "[truncated: more than 256 frames]");
    if (result == 0 && (sample->flags & CP_SAMPLE_INCOMPLETE) != 0)
        result = append_name(p, key, "[incomplete stack]");
    if (result == 0 && (sample->flags & CP__SAMPLE_RUNNING) != 0)
        result = append_name(p, key, "[running: stack unavailable]");
    if (result == 0 && ((sample->flags & CP_SAMPLE_FOREIGN_SP) != 0 || key->depth == 0))
        result = append_name(p, key, "[unknown stack]");
    return result;
}

int cp__profile_add(struct cp__profile *p, const struct cp_sample *sample)
{
    return cp__profile_add_values(p, sample, NULL);
}

int cp__profile_add_values(struct cp__profile *p, const struct cp_sample *sample, const uint64_t *further)
{
    return cp__profile_add_of(p, 0, sample, further);
}

int cp__profile_add_of(struct cp__profile *p, uint32_t process, const struct cp_sample *sample,
                       const uint64_t *further)
{
    struct key key;
    bool is_replaced = false, is_new;
    int result = 0;

    p->loads = sample->loads;
    p->is_of_now = cp__mappings_are_of_now(&p->mappings, sample->loads, p->is_between);
    key.depth = 0;
    key.ip = recorded_elsewhere(p, process, sample);
    key.address = sample->addr;
    key.labels = find_labels(p, sample->labels);
    is_new = key.labels > p->n_label_sets;
    if (process != 0)
        append_frames_of(p, &key, process, sample);
    else
        result = append_frames(p, &key, sample, &is_replaced);
    if (result < 0 || append_flags(p, &key, sample) < 0 ||
        cp__profile_rounds_find(p, sample, &key.rounds) < 0 || (is_new && reserve_labels(p) < 0) ||
        fold_stack(p, &key, sample->weight, further) < 0)
        return -ENOMEM;
    if (is_new)
        add_labels(p, sample->labels);
    p->last_labels = key.labels;
    p->replaced += is_replaced ? sample->weight : 0;
    return 0;
}

int cp__profile_add_named(struct cp__profile *p, const char *frame, uint64_t weight)
{
    return cp__profile_add_named_values(p, frame, weight, NULL);
}

int cp__profile_add_named_values(struct cp__profile *p, const char *frame, uint64_t weight,
                                 const uint64_t *further)
{
    struct key key = {.depth = 0};

    if (append_name(p, &key, frame) < 0)
        return -ENOMEM;
    return fold_stack(p, &key, weight, further);
}

/* ---- Resolving ------------------------------------------------------------------------------- */

int cp__profile_resolve(struct cp__profile *profile, struct cp__profile_findings *findings,
                        struct cp_error *err)
{
    if (cp__profile_note_mappings(profile) == 0 && cp__profile_look_up(profile) == 0) {
        *findings = profile->findings;
        return 0;
    }
    return cp__error(err, -ENOMEM,
                     "The profile could not be written: there is not enough memory. It is kept, and can be "
                     "written when memory is free.");
}

int cp__profile_resolve_all(struct cp__profile *profile, struct cp_error *err)
{
    struct cp__profile_findings findings;
    int result = cp__profile_resolve(profile, &findings, err);

    if (result < 0 || findings.unnamed == 0)
        return result;
    return cp__error(err, -ENOMEM, "There is not enough memory to look up function names.");
}
