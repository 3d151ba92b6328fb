#include "model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pprof/merge.h"
#include "runtime/base/fail.h"

/* ---- From the message to structs ------------------------------------------------------------- */

/* The state while a message is turned into a profile. */
struct reading {
    struct profile *to;
    const Cp__Proto__Profile *from;
    struct cp__id_tables ids;
};

/* Number 0 is the empty string in every profile, and cp__merge_read() has checked the other numbers. */
static const char *string_of(const struct reading *r, int64_t number)
{
    return r->from->string_table[number];
}

static struct value_type value_type_of(const struct reading *r, const Cp__Proto__ValueType *type)
{
    return type == NULL ? (struct value_type){"", ""}
                        : (struct value_type){string_of(r, type->type), string_of(r, type->unit)};
}

static void read_header(const struct reading *r)
{
    const Cp__Proto__Profile *from = r->from;
    struct profile *to = r->to;

    to->types = arena_array(&to->arena, from->n_sample_type, sizeof *to->types);
    for (size_t i = 0; i < from->n_sample_type; i++)
        to->types[to->n_types++] = value_type_of(r, from->sample_type[i]);
    to->period_type = value_type_of(r, from->period_type);
    to->period = from->period;
    to->time_ns = from->time_nanos;
    to->duration_ns = from->duration_nanos;
    to->drop_frames = string_of(r, from->drop_frames);
    to->keep_frames = string_of(r, from->keep_frames);
    to->default_type = to->n_types - 1;
    for (size_t i = to->n_types; from->default_sample_type != 0 && i > 0; i--) {
        if (strcmp(to->types[i - 1].name, string_of(r, from->default_sample_type)) == 0)
            to->default_type = i - 1;
    }
}

/* Reads the comments, each once, as merging profiles does. Returns 0 or -ENOMEM. */
static int read_comments(const struct reading *r)
{
    struct profile *to = r->to;
    struct cp__strings known = {0};
    uint32_t number;
    int result = 0;

    to->comments = arena_array(&to->arena, r->from->n_comment, sizeof *to->comments);
    for (size_t i = 0; i < r->from->n_comment && result == 0; i++) {
        const char *comment = string_of(r, r->from->comment[i]);

        result = cp__strings_add(&known, comment, &number);
        if (result == 0 && number == to->n_comments)
            to->comments[to->n_comments++] = comment;
    }
    cp__strings_free(&known);
    return result;
}

static void read_mappings(const struct reading *r)
{
    struct profile *to = r->to;

    to->mappings = arena_array(&to->arena, r->from->n_mapping, sizeof *to->mappings);
    for (size_t i = 0; i < r->from->n_mapping; i++) {
        const Cp__Proto__Mapping *from = r->from->mapping[i];

        to->mappings[to->n_mappings++] = (struct profile_mapping){
            .file = string_of(r, from->filename),
            .build_id = string_of(r, from->build_id),
            .start = from->memory_start,
            .limit = from->memory_limit,
            .offset = from->file_offset,
            .has_functions = from->has_functions,
        };
    }
}

static void read_functions(const struct reading *r)
{
    struct profile *to = r->to;

    to->functions = arena_array(&to->arena, r->from->n_function, sizeof *to->functions);
    for (size_t i = 0; i < r->from->n_function; i++) {
        const Cp__Proto__Function *from = r->from->function[i];

        to->functions[to->n_functions++] = (struct profile_function){
            .name = string_of(r, from->name),
            .system_name = string_of(r, from->system_name),
            .file = string_of(r, from->filename),
            .start_line = from->start_line,
        };
    }
}

static struct profile_location read_location(const struct reading *r, const Cp__Proto__Location *from)
{
    struct profile *to = r->to;
    struct profile_line *lines = arena_array(&to->arena, from->n_line, sizeof *lines);
    struct profile_location location = {.address = from->address, .lines = lines, .n_lines = from->n_line};
    uint32_t number;

    if (cp__ids_find(&r->ids.mappings, from->mapping_id, &number))
        location.mapping = &to->mappings[number];
    for (size_t i = 0; i < from->n_line; i++) {
        if (cp__ids_find(&r->ids.functions, from->line[i]->function_id, &number))
            lines[i] = (struct profile_line){&to->functions[number], from->line[i]->line};
    }
    return location;
}

static void read_locations(const struct reading *r)
{
    struct profile *to = r->to;

    to->locations = arena_array(&to->arena, r->from->n_location, sizeof *to->locations);
    for (size_t i = 0; i < r->from->n_location; i++)
        to->locations[to->n_locations++] = read_location(r, r->from->location[i]);
}

static struct profile_sample read_sample(const struct reading *r, const Cp__Proto__Sample *from)
{
    struct profile *to = r->to;
    struct profile_location **locations = arena_array(&to->arena, from->n_location_id, sizeof *locations);
    struct profile_label *labels = arena_array(&to->arena, from->n_label, sizeof *labels);
    struct profile_sample sample = {.locations = locations,
                                    .n_locations = from->n_location_id,
                                    .values = from->value,
                                    .labels = labels,
                                    .n_labels = from->n_label};
    uint32_t number;

    for (size_t i = 0; i < from->n_location_id; i++) {
        if (cp__ids_find(&r->ids.locations, from->location_id[i], &number))
            locations[i] = &to->locations[number];
    }
    for (size_t i = 0; i < from->n_label; i++) {
        const Cp__Proto__Label *label = from->label[i];

        labels[i] = (struct profile_label){.key = string_of(r, label->key),
                                           .text = label->str != 0 ? string_of(r, label->str) : NULL,
                                           .number = label->num,
                                           .unit = string_of(r, label->num_unit)};
    }
    return sample;
}

/* Leaves out samples without a value, as merging profiles does. */
static void read_samples(const struct reading *r)
{
    struct profile *to = r->to;

    to->samples = arena_array(&to->arena, r->from->n_sample, sizeof *to->samples);
    for (size_t i = 0; i < r->from->n_sample; i++) {
        const Cp__Proto__Sample *from = r->from->sample[i];
        bool is_zero = true;

        for (size_t j = 0; j < from->n_value && is_zero; j++)
            is_zero = from->value[j] == 0;
        if (!is_zero)
            to->samples[to->n_samples++] = read_sample(r, from);
    }
}

/* ---- Equal mappings -------------------------------------------------------------------------- */

/* The mappings that stand for others, in the order in which samples come to them. */
struct unifying {
    const struct profile *profile;
    struct cp__strings files;
    struct cp__tuples known; /* by what go tool pprof tells mappings apart when it merges */
    const struct profile_mapping **firsts, **of; /* of: for each mapping, the one that stands for it */
};

/* Stores the mapping that stands for one. Returns 0 or -ENOMEM. */
static int find_first(struct unifying *u, const struct profile_mapping *mapping,
                      const struct profile_mapping **first)
{
    const struct profile_mapping **of = &u->of[mapping - u->profile->mappings];
    uint64_t words[3] = {(mapping->limit - mapping->start + 4095) / 4096, mapping->offset};
    uint32_t file, number;

    if (*of == NULL) {
        if (cp__strings_add(&u->files, mapping->build_id[0] != '\0' ? mapping->build_id : mapping->file,
                            &file) < 0)
            return -ENOMEM;
        words[2] = file;
        if (cp__tuples_add(&u->known, words, 3, &number) < 0)
            return -ENOMEM;
        if (u->firsts[number] == NULL)
            u->firsts[number] = mapping;
        *of = u->firsts[number];
    }
    *first = *of;
    return 0;
}

static int unify_location(struct unifying *u, struct profile_location *location)
{
    const struct profile_mapping *own = location->mapping;
    int result = own != NULL ? find_first(u, own, &location->mapping) : 0;

    if (result == 0 && own != NULL)
        location->address += location->mapping->start - own->start;
    return result;
}

/* Lets one of equal mappings stand for all: code without symbols is named by it. Addresses move to it.
 * Returns 0 or -ENOMEM. */
static int unify_mappings(struct profile *profile)
{
    struct unifying u = {.profile = profile};
    const struct profile_mapping *program;
    int result = 0;

    u.firsts = arena_array(&profile->arena, profile->n_mappings, sizeof *u.firsts);
    u.of = arena_array(&profile->arena, profile->n_mappings, sizeof *u.of);
    if (profile->n_mappings > 0)
        result = find_first(&u, &profile->mappings[0], &program);
    for (size_t i = 0; i < profile->n_samples; i++) {
        for (size_t j = 0; j < profile->samples[i].n_locations && result == 0; j++)
            result = unify_location(&u, profile->samples[i].locations[j]);
    }
    cp__strings_free(&u.files);
    cp__tuples_free(&u.known);
    return result;
}

/* ---- Reading a profile ----------------------------------------------------------------------- */

/* Says what a file is that is no profile in pprof's format, as far as its first bytes tell. */
static const char *describe_data(const unsigned char *data, size_t size)
{
    static const struct {
        const char *bytes;
        const char *what;
    } kinds[] = {
        {"PERFILE", "It is a file of perf record, damaged or from a pipe."},
        {"heap profile:", "It is a heap profile in an old text format: go tool pprof reads it."},
        {"--- ", "It is a profile in an old text format: go tool pprof reads it."},
        {"\177ELF", "It is a program or a library."},
        {"<", "It looks like a web page."},
        {"{", "It looks like JSON."},
        {"\0\0\0\0\0\0\0\0\003\0\0\0\0\0\0\0", "It is a CPU profile in gperftools' format: "
                                               "google-pprof reads it, and go tool pprof."},
    };
    const size_t gperftools = sizeof kinds / sizeof kinds[0] - 1;

    for (size_t i = 0; i <= gperftools; i++) {
        size_t length = i < gperftools ? strlen(kinds[i].bytes) : 16;

        if (size >= length && memcmp(data, kinds[i].bytes, length) == 0)
            return kinds[i].what;
    }
    return "It is damaged, cut off, or something else.";
}

static int explain_data(int result, const void *data, size_t size, const char *source, struct cp_error *err)
{
    if (size == 0)
        return cp__error(
            err, -EBADMSG,
            "%s is empty. The program that writes a profile does so when the profile is stopped: "
            "let the program stop it, or end.",
            source);
    if (result == -ENOMEM)
        return cp__error(err, result, "There is not enough memory to read %s.", source);
    if (result == -EFBIG)
        return cp__error(err, result, "%s unpacks to more than %zu MiB. Take a shorter profile.", source,
                         PROFILE_LIMIT >> 20);
    return cp__error(err, result, "%s is not a profile in pprof's format. %s", source,
                     describe_data(data, size));
}

static int read_message(struct profile *to, const Cp__Proto__Profile *from)
{
    struct reading r = {.to = to, .from = from};
    int result = cp__id_tables_fill(&r.ids, from);

    if (result == 0) {
        read_header(&r);
        read_mappings(&r);
        read_functions(&r);
        read_locations(&r);
        read_samples(&r);
        result = unify_mappings(to);
    }
    if (result == 0)
        result = read_comments(&r);
    cp__id_tables_free(&r.ids);
    return result;
}

int profile_parse(struct profile **profile, const void *data, size_t size, const char *source,
                  struct cp_error *err)
{
    struct cp_error ignored;
    int result = size == 0 ? -EBADMSG : 0;
    Cp__Proto__Profile *message = NULL;

    *profile = NULL;
    if (size > 0)
        message = cp__merge_read(data, size, PROFILE_LIMIT, &result, &ignored);
    if (message == NULL)
        return explain_data(result, data, size, source, err);
    *profile = calloc(1, sizeof **profile);
    if (*profile != NULL)
        (*profile)->unpacked = message;
    else
        cp__proto__profile__free_unpacked(message, NULL);
    result = *profile == NULL ? -ENOMEM : read_message(*profile, message);
    if (result == 0)
        return 0;
    profile_free(*profile);
    *profile = NULL;
    return explain_data(result, data, size, source, err);
}

void profile_free(struct profile *profile)
{
    if (profile == NULL)
        return;
    if (profile->unpacked != NULL)
        cp__proto__profile__free_unpacked(profile->unpacked, NULL);
    arena_free(&profile->arena);
    free(profile);
}

/* ---- Questions ------------------------------------------------------------------------------- */

bool profile_find_type(const struct profile *profile, const char *name, size_t *type)
{
    const char *bare;
    char *end;
    unsigned long number;

    *type = profile->default_type;
    if (name == NULL || name[0] == '\0')
        return true;
    number = strtoul(name, &end, 10);
    if (name[0] >= '0' && name[0] <= '9' && *end == '\0') {
        *type = number;
        return number < profile->n_types;
    }
    bare = strncmp(name, "inuse_", strlen("inuse_")) == 0 ? name + strlen("inuse_") : name;
    for (*type = 0; *type < profile->n_types; ++*type) {
        const char *known = profile->types[*type].name;

        if (strcmp(known, name) == 0 || strcmp(known, bare) == 0)
            return true;
    }
    return false;
}

bool profile_is_difference(const struct profile *profile)
{
    for (size_t i = 0; i < profile->n_samples; i++) {
        for (size_t j = 0; j < profile->n_types; j++) {
            if (profile->samples[i].values[j] < 0)
                return true;
        }
    }
    return false;
}
