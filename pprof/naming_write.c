/* Writes profiles anew, with names that were left for later. See naming.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "comments.h"
#include "naming_data.h"
#include "pprof/symbol/kernel.h"
#include "pprof/symbol/symbol.h"
#include "runtime/base/fail.h"
#include "writer.h"

/* A profile that is written anew. The numbers of samples and locations stay. */
struct renewal {
    struct cp__naming *naming;
    const Cp__Proto__Profile *p;
    bool is_kernel_same;
    struct cp__id_tables ids;
    struct cp__strings strings;
    uint32_t *string_numbers; /* of the profile's strings */
    struct cp__tuples functions;
    uint32_t *functions_of; /* the numbers of the profile's functions */
    uint32_t *known;        /* numbers plus 1 of the functions of naming->known; 0: not added yet */
    struct renewed {
        uint32_t frame;   /* number in naming->known, plus 1; 0: the location keeps what it has */
        uint32_t mapping; /* number in mappings, plus 1; 0: none */
    } * locations;
    struct cp__encoded_mapping *mappings;
    size_t n_mappings, mappings_capacity;
    uint64_t *types, *comments;
    size_t n_comments;
    struct cp__profile_findings findings;
};

static const struct cp__frame *known_frame(const struct renewal *r, size_t i)
{
    return r->locations[i].frame == 0 ? NULL : &r->naming->known->frames[r->locations[i].frame - 1];
}

static uint32_t renewed_string(const struct renewal *r, int64_t number)
{
    return r->string_numbers[number];
}

/* ---- What the profile has -------------------------------------------------------------------- */

static int reserve_renewal(struct renewal *r)
{
    const Cp__Proto__Profile *p = r->p;

    r->string_numbers = calloc(p->n_string_table, sizeof *r->string_numbers);
    r->functions_of = calloc(p->n_function + 1, sizeof *r->functions_of);
    r->known = calloc(r->naming->known->n_functions + 1, sizeof *r->known);
    r->locations = calloc(p->n_location + 1, sizeof *r->locations);
    if (r->string_numbers == NULL || r->functions_of == NULL || r->known == NULL || r->locations == NULL)
        return -ENOMEM;
    return cp__id_tables_fill(&r->ids, p);
}

static int copy_strings(struct renewal *r)
{
    int result = 0;

    for (size_t i = 0; i < r->p->n_string_table && result == 0; i++)
        result = cp__strings_add(&r->strings, r->p->string_table[i], &r->string_numbers[i]);
    return result;
}

static int copy_types(struct renewal *r)
{
    r->types = cp__merge_types(r->p, r->string_numbers);
    return r->types == NULL ? -ENOMEM : 0;
}

static int copy_functions(struct renewal *r)
{
    int result = 0;

    for (size_t i = 0; i < r->p->n_function && result == 0; i++) {
        const Cp__Proto__Function *f = r->p->function[i];
        const uint64_t words[] = {renewed_string(r, f->name), renewed_string(r, f->system_name),
                                  renewed_string(r, f->filename), (uint64_t)f->start_line};

        result = cp__tuples_add(&r->functions, words, 4, &r->functions_of[i]);
    }
    return result;
}

static int copy_mappings(struct renewal *r)
{
    if (CP__RESERVE(r->mappings, r->mappings_capacity, r->p->n_mapping + 1) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < r->p->n_mapping; i++) {
        const Cp__Proto__Mapping *m = r->p->mapping[i];

        r->mappings[r->n_mappings++] = (struct cp__encoded_mapping){
            .start = m->memory_start,
            .limit = m->memory_limit,
            .offset = m->file_offset,
            .file = renewed_string(r, m->filename),
            .build_id = renewed_string(r, m->build_id),
            .has_functions = m->has_functions,
            .has_files = m->has_filenames,
            .has_lines = m->has_line_numbers,
            .has_inlining = m->has_inline_frames,
        };
    }
    return 0;
}

/* ---- What was found -------------------------------------------------------------------------- */

/* Adds a function of naming->known, unless it is there. */
static int add_known_function(struct renewal *r, uint32_t number)
{
    const struct cp__profile *known = r->naming->known;
    const struct cp__function *f = &known->functions[number];
    uint32_t name, system_name, file;

    if (r->known[number] != 0)
        return 0;
    if (cp__strings_add(&r->strings, cp__strings_get(&known->strings, f->name), &name) < 0 ||
        cp__strings_add(&r->strings, cp__strings_get(&known->strings, f->system_name), &system_name) < 0 ||
        cp__strings_add(&r->strings, cp__strings_get(&known->strings, f->file), &file) < 0 ||
        cp__tuples_add(&r->functions, (uint64_t[]){name, system_name, file, f->start_line}, 4,
                       &r->known[number]) < 0)
        return -ENOMEM;
    r->known[number]++;
    return 0;
}

/* Takes the lines of a frame over, and says in its mapping what it has. */
static int take_lines(struct renewal *r, const struct cp__frame *frame, struct cp__encoded_mapping *use)
{
    const struct cp__profile *known = r->naming->known;
    int result = 0;

    for (uint32_t i = 0; i < frame->n_lines && result == 0; i++) {
        const struct cp__line *line = &known->lines[frame->first_line + i];

        use->has_functions |= known->functions[line->function].name != 0;
        use->has_files |= known->functions[line->function].file != 0;
        use->has_lines |= line->line != 0;
        result = add_known_function(r, line->function);
    }
    return result;
}

/* Moves a location of the kernel into the mapping of its module. */
static int move_into_module(struct renewal *r, struct renewed *location, const struct cp__frame *frame)
{
    uint32_t file, i;

    if (frame->mapping == 0)
        return 0;
    if (cp__strings_add(&r->strings, r->naming->known->mappings.items[frame->mapping - 1].file, &file) < 0 ||
        CP__RESERVE(r->mappings, r->mappings_capacity, r->n_mappings + 1) < 0)
        return -ENOMEM;
    for (i = 0; i < r->n_mappings; i++)
        if (r->mappings[i].file == file && r->mappings[i].start == CP__KERNEL_START)
            break;
    if (i == r->n_mappings)
        r->mappings[r->n_mappings++] =
            (struct cp__encoded_mapping){.start = CP__KERNEL_START, .limit = UINT64_MAX, .file = file};
    location->mapping = i + 1;
    return 0;
}

/* Names a location of the kernel. */
static int name_kernel_location(struct renewal *r, size_t i, uint32_t frame)
{
    static const char otherwise[] = "the profile is of another boot of the machine, or of another machine, "
                                    "whose kernel has its functions "
                                    "at other addresses";
    const struct cp__profile *known = r->naming->known;
    struct renewed *location = &r->locations[i];

    if (!r->is_kernel_same || frame >= r->naming->n_looked_up) {
        strcpy(r->findings.kernel, otherwise);
        return 0;
    }
    if (known->frames[frame].n_lines == 0)
        memcpy(r->findings.kernel, known->findings.kernel, sizeof r->findings.kernel);
    location->frame = frame + 1;
    if (move_into_module(r, location, &known->frames[frame]) < 0)
        return -ENOMEM;
    return location->mapping == 0 ? 0
                                  : take_lines(r, &known->frames[frame], &r->mappings[location->mapping - 1]);
}

/* Names a location of a file. What there was no memory for keeps its address. */
static int name_file_location(struct renewal *r, size_t i, uint32_t object, uint32_t frame)
{
    const struct cp__profile *known = r->naming->known;
    struct renewed *location = &r->locations[i];
    struct cp__encoded_mapping *use = &r->mappings[location->mapping - 1];

    if (cp__naming_is_newer(r->naming, object) || frame >= r->naming->n_looked_up) {
        use->missing = CP__MISSING_REPLACED;
        return 0;
    }
    if (!known->frames[frame].is_resolved) {
        r->findings.unnamed++;
        return 0;
    }
    location->frame = frame + 1;
    use->missing = known->uses[object].missing;
    use->has_inlining |= known->uses[object].has_inlining;
    return take_lines(r, &known->frames[frame], use);
}

static int name_location(struct renewal *r, size_t i)
{
    const Cp__Proto__Location *location = r->p->location[i];
    const Cp__Proto__Mapping *mapping = NULL;
    uint32_t number, object = 0, frame = 0;

    if (cp__ids_find(&r->ids.mappings, location->mapping_id, &number)) {
        mapping = r->p->mapping[number];
        r->locations[i].mapping = number + 1;
    }
    if (!cp__naming_wants(r->p, location, mapping))
        return 0;
    if (location->address < CP__KERNEL_START && cp__naming_object(r->naming, r->p, mapping, &object) < 0)
        return -ENOMEM;
    if (cp__naming_frame(r->naming, location, mapping, object, &frame) < 0)
        return -ENOMEM;
    return location->address >= CP__KERNEL_START ? name_kernel_location(r, i, frame)
                                                 : name_file_location(r, i, object, frame);
}

static int name_locations(struct renewal *r)
{
    int result = 0;

    for (size_t i = 0; i < r->p->n_location && result == 0; i++)
        result = name_location(r, i);
    return result;
}

/* Numbers the first mapping, which readers take for the program's, and those with locations. */
static void number_renewed(struct renewal *r)
{
    uint32_t id = 0;

    for (size_t i = 0; i < r->p->n_location; i++)
        if (r->locations[i].mapping != 0)
            r->mappings[r->locations[i].mapping - 1].id = 1;
    for (size_t i = 0; i < r->n_mappings; i++)
        if (i == 0 || r->mappings[i].id != 0)
            r->mappings[i].id = ++id;
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

/* Returns the number, plus 1, of the location of the recorded instruction of a sample; 0: it has none. */
static uint32_t recorded_location(const struct renewal *r, const Cp__Proto__Sample *sample)
{
    uint32_t i;

    for (size_t j = 0; j < sample->n_label; j++)
        if (strcmp(r->p->string_table[sample->label[j]->key], CP__RECORDED_KEY) == 0 &&
            cp__ids_find(&r->ids.locations, (uint64_t)sample->label[j]->num, &i))
            return i + 1;
    return 0;
}

/* Returns the number of the location that is the leaf of a sample: the recorded instruction, if it is in the
 * function of the interrupted one. */
static uint32_t leaf_of(const struct renewal *r, const Cp__Proto__Sample *sample, bool *is_elsewhere)
{
    const uint32_t recorded = recorded_location(r, sample);
    const struct cp__frame *leaf, *ip;
    uint32_t i = 0;

    *is_elsewhere = false;
    cp__ids_find(&r->ids.locations, sample->location_id[0], &i);
    if (recorded == 0)
        return i;
    leaf = known_frame(r, i);
    ip = known_frame(r, recorded - 1);
    *is_elsewhere = leaf == NULL || ip == NULL || leaf->place != ip->place || leaf->entry == 0 ||
                    leaf->entry != ip->entry;
    return *is_elsewhere ? i : recorded - 1;
}

/* Notes what the samples' leaves lack. */
static void look_at_leaves(struct renewal *r)
{
    for (size_t i = 0; i < r->p->n_sample; i++) {
        const Cp__Proto__Sample *sample = r->p->sample[i];
        const struct cp__line *line;
        const struct cp__frame *frame;
        bool is_elsewhere;
        uint32_t leaf;

        if (sample->n_location_id == 0)
            continue;
        leaf_of(r, sample, &is_elsewhere);
        r->findings.elsewhere += is_elsewhere ? (uint64_t)sample->value[0] : 0;
        cp__ids_find(&r->ids.locations, sample->location_id[0], &leaf);
        if (r->locations[leaf].mapping == 0 || r->p->location[leaf]->n_line > 0)
            continue;
        frame = known_frame(r, leaf);
        line = frame == NULL || frame->n_lines == 0
                   ? NULL
                   : &r->naming->known->lines[frame->first_line + frame->n_lines - 1];
        if (line == NULL || r->naming->known->functions[line->function].name == 0)
            r->mappings[r->locations[leaf].mapping - 1].has_unnamed_leaf = true;
    }
}

/* ---- Comments -------------------------------------------------------------------------------- */

static void list_missing_names(struct renewal *r)
{
    struct cp__profile_findings *findings = &r->findings;

    for (size_t i = 0; i < r->n_mappings; i++) {
        if (!cp__uses_lack_names(r->mappings, i))
            continue;
        if (findings->n_missing < CP__MAX_MISSING)
            findings->missing[findings->n_missing] =
                (struct cp__profile_missing){cp__strings_get(&r->strings, r->mappings[i].file),
                                             cp__missing_explain(r->mappings[i].missing)};
        findings->n_missing++;
    }
}

/* Makes the comments anew, and adds their strings. */
static int renew_comments(struct renewal *r)
{
    const char **texts = calloc(r->p->n_comment + 1, sizeof *texts);
    struct cp__comments *comments = NULL;
    const char *const *list;
    uint32_t string;
    int result = -ENOMEM;

    for (size_t i = 0; texts != NULL && i < r->p->n_comment; i++)
        texts[i] = r->p->string_table[r->p->comment[i]];
    if (texts != NULL)
        comments = cp__comments_name(texts, r->p->n_comment, &r->findings);
    if (comments != NULL) {
        list = cp__comments_list(comments, &r->n_comments);
        r->comments = calloc(r->n_comments + 1, sizeof *r->comments);
        result = r->comments == NULL ? -ENOMEM : 0;
        for (size_t i = 0; i < r->n_comments && result == 0; i++) {
            result = cp__strings_add(&r->strings, list[i], &string);
            r->comments[i] = string;
        }
    }
    free(comments);
    free(texts);
    return result;
}

/* ---- The encoder's questions ----------------------------------------------------------------- */

static size_t renewed_function(const void *what, size_t i, uint64_t *words)
{
    return cp__tuples_copy(&((const struct renewal *)what)->functions, i, 0, words);
}

static size_t renewed_location(const void *what, size_t i, uint64_t *words)
{
    const struct renewal *r = what;
    const Cp__Proto__Location *location = r->p->location[i];
    const struct cp__frame *frame = known_frame(r, i);
    uint32_t function = 0;
    size_t n = 0;

    words[n++] = r->locations[i].mapping == 0 ? 0 : r->mappings[r->locations[i].mapping - 1].id;
    words[n++] = location->address;
    words[n++] = (uint64_t)location->is_folded;
    for (size_t j = 0; j < location->n_line; j++) {
        cp__ids_find(&r->ids.functions, location->line[j]->function_id, &function);
        words[n++] = r->functions_of[function];
        words[n++] = (uint64_t)location->line[j]->line;
        words[n++] = (uint64_t)location->line[j]->column;
    }
    for (uint32_t j = 0; frame != NULL && j < frame->n_lines; j++) {
        const struct cp__line *line = &r->naming->known->lines[frame->first_line + j];

        words[n++] = r->known[line->function] - 1;
        words[n++] = line->line;
        words[n++] = 0;
    }
    return n;
}

static size_t renewed_sample(const void *what, size_t i, uint64_t *words)
{
    const struct renewal *r = what;
    const Cp__Proto__Sample *sample = r->p->sample[i];
    bool is_elsewhere;
    uint32_t number = 0;
    size_t n = 0;

    words[n++] = sample->n_location_id;
    for (size_t j = 0; j < sample->n_location_id; j++) {
        cp__ids_find(&r->ids.locations, sample->location_id[j], &number);
        words[n++] = number;
    }
    if (sample->n_location_id > 0)
        words[1] = leaf_of(r, sample, &is_elsewhere);
    for (size_t j = 0; j < sample->n_label; j++) {
        const Cp__Proto__Label *label = sample->label[j];

        if (strcmp(r->p->string_table[label->key], CP__RECORDED_KEY) == 0)
            continue;
        words[n++] = renewed_string(r, label->key);
        words[n++] = renewed_string(r, label->str);
        words[n++] = (uint64_t)label->num;
        words[n++] = renewed_string(r, label->num_unit);
    }
    return n;
}

static const int64_t *renewed_values(const void *what, size_t i, int64_t room[CP__MAX_VALUES])
{
    (void)room;
    return ((const struct renewal *)what)->p->sample[i]->value;
}

static size_t longest_renewed(const struct renewal *r)
{
    size_t most = 4, n;

    for (size_t i = 0; i < r->p->n_sample; i++) {
        n = 1 + r->p->sample[i]->n_location_id + 4 * r->p->sample[i]->n_label;
        most = n > most ? n : most;
    }
    for (size_t i = 0; i < r->p->n_location; i++) {
        const struct cp__frame *frame = known_frame(r, i);

        n = 3 + 3 * (r->p->location[i]->n_line + (frame == NULL ? 0 : frame->n_lines));
        most = n > most ? n : most;
    }
    return most;
}

static int encode_renewal(const void *what, struct cp_writer *w)
{
    const struct renewal *r = what;
    const Cp__Proto__Profile *p = r->p;
    const struct cp__encoding encoding = {
        .what = r,
        .function = renewed_function,
        .location = renewed_location,
        .sample = renewed_sample,
        .values = renewed_values,
        .n_functions = r->functions.n,
        .n_locations = p->n_location,
        .n_samples = p->n_sample,
        .max_words = longest_renewed(r),
        .mappings = r->mappings,
        .n_mappings = r->n_mappings,
        .strings = &r->strings,
        .known_comments = r->comments,
        .n_known_comments = r->n_comments,
        .types = r->types,
        .n_types = p->n_sample_type,
        .time_ns = p->time_nanos,
        .duration_ns = p->duration_nanos,
        .period = p->period,
        .default_type = renewed_string(r, p->default_sample_type),
        .drop_frames = renewed_string(r, p->drop_frames),
        .keep_frames = renewed_string(r, p->keep_frames),
        .doc_url = renewed_string(r, p->doc_url),
    };

    return cp__encode(&encoding, w);
}

/* ---- The whole profile ----------------------------------------------------------------------- */

static int fill_renewal(struct renewal *r)
{
    if (reserve_renewal(r) < 0 || copy_strings(r) < 0 || copy_types(r) < 0 || copy_functions(r) < 0 ||
        copy_mappings(r) < 0 || name_locations(r) < 0)
        return -ENOMEM;
    number_renewed(r);
    look_at_leaves(r);
    list_missing_names(r);
    return renew_comments(r);
}

static void free_renewal(struct renewal *r)
{
    cp__id_tables_free(&r->ids);
    cp__strings_free(&r->strings);
    cp__tuples_free(&r->functions);
    free(r->string_numbers);
    free(r->functions_of);
    free(r->known);
    free(r->locations);
    free(r->mappings);
    free(r->types);
    free(r->comments);
}

static int write_renewal(const void *what, struct cp_writer *w, struct cp_error *err)
{
    return cp__write_attempt(w, encode_renewal, what, err);
}

int cp__naming_write(struct cp__naming *naming, const void *data, size_t size, struct cp_writer w,
                     struct cp_error *err)
{
    struct renewal r = {.naming = naming};
    int result;
    Cp__Proto__Profile *p = cp__merge_read(data, size, CP_MERGE_LIMIT, &result, err);

    if (p == NULL)
        return result;
    r.p = p;
    cp__naming_is_left(naming, p, &r.is_kernel_same);
    result = fill_renewal(&r);
    if (result < 0)
        cp__error(err, result, "There is not enough memory to write a profile with names.");
    else
        result = cp__write_elsewhere(w, write_renewal, &r, err);
    free_renewal(&r);
    cp__proto__profile__free_unpacked(p, NULL);
    return result;
}
