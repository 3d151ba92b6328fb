/* See hot.h. */
#include "hot.h"

#include <elf.h>
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/counterpoint/report/graph.h"
#include "cmd/counterpoint/report/names.h"

/* A symbol that instructions of the function are in. */
struct part {
    struct code *code;
    struct code_symbol symbol;
    int64_t value;
};

struct parts {
    struct part *list;
    size_t n, room;
    struct cp_error why; /* why the instructions of a sample are not known; "": they are */
};

/* ---- Which function -------------------------------------------------------------------------- */

/* Returns the function that has the instruction of a sample, whatever is inlined there; NULL: unknown. */
static const struct profile_function *function_of(const struct profile_sample *sample)
{
    const struct profile_location *leaf = sample->n_locations > 0 ? sample->locations[0] : NULL;

    return leaf != NULL && leaf->n_lines > 0 ? leaf->lines[leaf->n_lines - 1].function : NULL;
}

static bool has_name(const struct profile_function *function, const char *name)
{
    return strcmp(function->name, name) == 0 || strcmp(function->system_name, name) == 0;
}

/* Returns the hottest function that has the name, or matches; NULL: none has a value. */
static const struct profile_function *choose_function(struct hot_function *hot, const char *name,
                                                      const regex_t *expression)
{
    const struct profile *profile = hot->profile;
    int64_t *values = arena_array(&hot->arena, profile->n_functions, sizeof *values);
    const struct profile_function *best = NULL;

    hot->unnamed = 0;
    for (size_t i = 0; i < profile->n_samples; i++) {
        const struct profile_function *function = function_of(&profile->samples[i]);

        *(function != NULL ? &values[function - profile->functions] : &hot->unnamed) +=
            profile->samples[i].values[hot->type];
    }
    for (size_t i = 0; i < profile->n_functions; i++) {
        const struct profile_function *function = &profile->functions[i];

        if ((name != NULL && !has_name(function, name)) ||
            (expression != NULL && !expression_matches(expression, function->name)))
            continue;
        if (values[i] > (best != NULL ? values[best - profile->functions] : 0))
            best = function;
    }
    return best;
}

static enum status find_hot_function(struct hot_function *hot, const char *name,
                                     const struct profile_function **function)
{
    regex_t expression;
    enum status status;

    *function = choose_function(hot, name, NULL);
    if (*function != NULL)
        return STATUS_OK;
    if (name == NULL)
        return complain(STATUS_NO, "No sample of the profile is in a function whose name is known.");
    status = expression_read(&expression, name);
    if (status != STATUS_OK)
        return status;
    *function = choose_function(hot, NULL, &expression);
    regfree(&expression);
    if (*function == NULL)
        return complain(STATUS_NO, "No function of the profile that matches \"%s\" has samples in itself.",
                        name);
    return STATUS_OK;
}

/* ---- Its instructions ------------------------------------------------------------------------ */

static bool is_one_file(const struct profile_mapping *a, const struct profile_mapping *b)
{
    return strcmp(a->file, b->file) == 0 && strcmp(a->build_id, b->build_id) == 0;
}

/* Returns the code of a mapping, whose file is opened once; NULL: *err says why not. */
static struct code *code_of_mapping(struct hot_function *hot, const struct profile_mapping *mapping,
                                    struct cp_error *err)
{
    const struct profile_mapping *mappings = hot->profile->mappings;
    const size_t index = (size_t)(mapping - mappings);

    for (size_t i = 0; i < hot->profile->n_mappings; i++)
        if (hot->opened[i] != NULL && is_one_file(&mappings[i], mapping))
            return hot->opened[i];
    return hot->opened[index] = code_open(mapping, err);
}

/* Finds the address in the file of a location. Returns false, and says why in *err, if it is not known. */
static bool find_address(struct hot_function *hot, const struct profile_location *location,
                         struct code **code, uint64_t *address, struct cp_error *err)
{
    snprintf(err->message, sizeof err->message, "the profile does not say where they are.");
    if (location->mapping == NULL || location->address == 0)
        return false;
    *code = code_of_mapping(hot, location->mapping, err);
    if (*code == NULL)
        return false;
    snprintf(err->message, sizeof err->message, "0x%" PRIx64 " is in no segment of %.200s.",
             location->address, location->mapping->file);
    return code_address(*code, location->mapping, location->address, address);
}

static void add_to_part(struct parts *parts, struct code *code, const struct code_symbol *symbol,
                        int64_t value)
{
    for (size_t i = 0; i < parts->n; i++) {
        if (parts->list[i].code != code || parts->list[i].symbol.start != symbol->start)
            continue;
        parts->list[i].value += value;
        return;
    }
    parts->list = grow_array(parts->list, parts->n, &parts->room, sizeof *parts->list);
    parts->list[parts->n++] = (struct part){code, *symbol, value};
}

static void add_sample_to_part(struct hot_function *hot, struct parts *parts,
                               const struct profile_sample *sample)
{
    struct code_symbol symbol;
    struct code *code;
    struct cp_error err;
    uint64_t address;

    if (!find_address(hot, sample->locations[0], &code, &address, &err))
        parts->why = err;
    else if (code_symbol(code, address, &symbol))
        add_to_part(parts, code, &symbol, sample->values[hot->type]);
    else
        snprintf(parts->why.message, sizeof parts->why.message,
                 "%.200s has no symbol there, and no debug file of it is on this machine.", code_file(code));
}

/* Chooses the symbol with the most of the function's values. */
static enum status choose_symbol(struct hot_function *hot, const struct profile_function *function)
{
    const struct part *best = NULL;
    struct parts parts = {0};
    int64_t sum = 0;

    for (size_t i = 0; i < hot->profile->n_samples; i++)
        if (function_of(&hot->profile->samples[i]) == function) {
            sum += hot->profile->samples[i].values[hot->type];
            add_sample_to_part(hot, &parts, &hot->profile->samples[i]);
        }
    for (size_t i = 0; i < parts.n; i++)
        if (best == NULL || parts.list[i].value > best->value)
            best = &parts.list[i];
    if (best != NULL) {
        hot->code = best->code;
        hot->symbol = best->symbol;
        hot->elsewhere = sum - best->value;
    }
    free(parts.list);
    if (best == NULL)
        return complain(STATUS_NO, "The instructions of %.200s cannot be read: %s", function->name,
                        parts.why.message);
    return STATUS_OK;
}

static enum status decode_steps(struct hot_function *hot)
{
    const size_t size = hot->symbol.end - hot->symbol.start;
    size_t at = 0;

    if (code_machine(hot->code) != EM_X86_64)
        return complain(STATUS_NO, "%s is for another processor: blocks can be annotated on x86-64 only.",
                        code_file(hot->code));
    hot->bytes = code_bytes(hot->code, hot->symbol.start, hot->symbol.end);
    if (hot->bytes == NULL)
        return complain(STATUS_NO, "%s has no bytes of %s.", code_file(hot->code), hot->symbol.name);
    hot->steps = arena_array(&hot->arena, size, sizeof *hot->steps);
    while (at < size) {
        struct code_step *step = &hot->steps[hot->n_steps++];

        step->address = hot->symbol.start + at;
        if (!cp__flow_decode(hot->bytes + at, size - at, step->address, &step->step))
            return complain(STATUS_NO, "The bytes of %s at 0x%" PRIx64 " are no instruction.",
                            hot->symbol.name, step->address);
        at += step->step.length;
    }
    return STATUS_OK;
}

/* ---- Its samples ----------------------------------------------------------------------------- */

/* Returns the last step that does not begin behind the address. */
static size_t step_of_address(const struct hot_function *hot, uint64_t address)
{
    size_t low = 0, high = hot->n_steps;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (hot->steps[middle].address <= address)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void count_sample_of_steps(struct hot_function *hot, const struct profile_sample *sample)
{
    const size_t n_types = hot->profile->n_types;
    struct code *code;
    struct cp_error err;
    uint64_t address;
    int64_t *values;

    if (sample->n_locations == 0 || sample->locations[0]->mapping == NULL ||
        strcmp(sample->locations[0]->mapping->file, code_file(hot->code)) != 0 ||
        !find_address(hot, sample->locations[0], &code, &address, &err) || code != hot->code ||
        address < hot->symbol.start || address >= hot->symbol.end)
        return;
    values = &hot->values[step_of_address(hot, address) * n_types];
    for (size_t i = 0; i < n_types; i++)
        values[i] += sample->values[i];
    hot->inside += sample->values[hot->type];
}

enum status hot_function_find(struct hot_function *hot, const struct profile *profile, size_t type,
                              const char *name)
{
    const struct profile_function *function;
    enum status status;

    *hot = (struct hot_function){.profile = profile, .type = type, .total = profile_total(profile, type)};
    hot->opened = arena_array(&hot->arena, profile->n_mappings, sizeof *hot->opened);
    status = find_hot_function(hot, name, &function);
    if (status == STATUS_OK) {
        hot->name = function->name;
        status = choose_symbol(hot, function);
    }
    if (status == STATUS_OK)
        status = decode_steps(hot);
    if (status != STATUS_OK)
        return status;
    hot->values = arena_array(&hot->arena, hot->n_steps * profile->n_types, sizeof *hot->values);
    for (size_t i = 0; i < profile->n_samples; i++)
        count_sample_of_steps(hot, &profile->samples[i]);
    return STATUS_OK;
}

void hot_function_free(struct hot_function *hot)
{
    for (size_t i = 0; i < hot->profile->n_mappings; i++)
        code_close(hot->opened[i]);
    arena_free(&hot->arena);
}
