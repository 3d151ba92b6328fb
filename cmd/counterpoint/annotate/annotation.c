/* See annotation.h. */
#include "annotation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A block is measured if it has this part of the function's samples. */
#define WORTH 0.003
/* So many samples say something of a block. */
#define ENOUGH 10
/* What a block takes that was not measured: so many cycles for an instruction. */
#define GUESS 0.25
/* An event explains a block if it has so many times the block's part of the samples of it. */
#define EVENT_FACTOR 1.5

/* ---- Samples --------------------------------------------------------------------------------- */

/* Returns the value of a sample: the profile counts samples of any event, or says the period. */
static double value_of_sample(const struct profile *profile, size_t type)
{
    double values = 0, samples = 0;
    size_t count = type;

    for (size_t i = 0; i < profile->n_types; i++)
        if (strcmp(profile->types[i].name, "samples") == 0)
            count = i;
    if (count == type)
        return profile->period > 0 && strcmp(profile->period_type.name, profile->types[type].name) == 0
                   ? (double)profile->period
                   : 1;
    for (size_t i = 0; i < profile->n_samples; i++) {
        if (profile->samples[i].values[type] <= 0)
            continue;
        values += (double)profile->samples[i].values[type];
        samples += (double)profile->samples[i].values[count];
    }
    return values > 0 && samples > 0 ? values / samples : 1;
}

static double value_of_block(const struct annotation *annotation, size_t i, size_t type)
{
    const struct basic_block *block = &annotation->graph.blocks[i];
    double sum = 0;

    for (size_t j = block->first; j < block->first + block->n; j++)
        sum += (double)hot_value(&annotation->hot, j, type);
    return sum;
}

static void count_samples(struct annotation *annotation)
{
    const size_t type = annotation->hot.type;

    annotation->per_sample = value_of_sample(annotation->hot.profile, type);
    for (size_t i = 0; i < annotation->graph.n; i++) {
        annotation->notes[i].samples = value_of_block(annotation, i, type) / annotation->per_sample;
        annotation->samples += annotation->notes[i].samples;
    }
}

/* Names are ours or perf's: "cycles", "cycles:u", "instructions:ppp". */
static bool is_event_named(const struct profile *profile, size_t type, const char *name)
{
    const char *known = profile->types[type].name;
    const size_t length = strlen(name);

    return strncmp(known, name, length) == 0 && (known[length] == '\0' || known[length] == ':');
}

static void find_instructions(struct annotation *annotation)
{
    const struct profile *profile = annotation->hot.profile;
    double sum = 0;

    annotation->has_cycles = is_event_named(profile, annotation->hot.type, "cycles");
    for (size_t type = 0; type < profile->n_types && annotation->has_cycles && !annotation->has_count;
         type++) {
        if (!is_event_named(profile, type, "instructions"))
            continue;
        for (size_t i = 0; i < annotation->graph.n; i++)
            sum += value_of_block(annotation, i, type);
        annotation->has_count = sum > 0;
        annotation->count = type;
        annotation->per_count = value_of_sample(profile, type);
    }
}

/* ---- What a block looks like ----------------------------------------------------------------- */

static bool stores_at(const struct hot_function *hot, const struct basic_block *block, uint64_t place)
{
    for (size_t i = block->first; i < block->first + block->n; i++)
        if (hot->steps[i].step.stores && hot->steps[i].step.place == place)
            return true;
    return false;
}

static void look_at_steps(const struct hot_function *hot, const struct basic_block *block,
                          struct block_facts *facts)
{
    for (size_t i = block->first; i < block->first + block->n; i++) {
        const struct cp__step *step = &hot->steps[i].step;

        facts->loads |= step->loads;
        facts->stores |= step->stores;
        facts->divides |= step->divides;
        facts->loads_what_it_stores |= step->loads && step->place != 0 && stores_at(hot, block, step->place);
    }
    facts->has_call = block->has_call;
    facts->is_loop = block->is_loop;
}

/* Samples are at what waits for a load if they are not at the load itself: mostly the next instruction, or
 * the one behind it. */
static void find_peak(const struct hot_function *hot, const struct basic_block *block,
                      struct block_facts *facts)
{
    const size_t last = block->first + block->n - 1;
    int64_t sum = 0, most = 0;

    for (size_t i = block->first; i <= last; i++) {
        const int64_t next = i < last ? hot_value(hot, i + 1, hot->type) : 0;
        const int64_t value = hot_value(hot, i, hot->type);

        sum += value;
        if (!hot->steps[i].step.loads || (value < next ? next : value) <= most)
            continue;
        most = value < next ? next : value;
        facts->peak_address = hot->steps[i].address;
    }
    facts->peak = sum > 0 ? (double)most / (double)sum : 0;
}

static bool is_about_waits(const char *name)
{
    return strstr(name, "iss") != NULL || strstr(name, "ault") != NULL || strstr(name, "lign") != NULL ||
           strstr(name, "plit") != NULL || strstr(name, "refill") != NULL;
}

static void find_telling_event(const struct hot_function *hot, const struct basic_block *block,
                               struct block_facts *facts)
{
    for (size_t type = 0; type < hot->profile->n_types; type++) {
        double sum = 0, mine = 0;

        if (type == hot->type || !is_about_waits(hot->profile->types[type].name))
            continue;
        for (size_t i = 0; i < hot->n_steps; i++) {
            sum += (double)hot_value(hot, i, type);
            mine += i >= block->first && i < block->first + block->n ? (double)hot_value(hot, i, type) : 0;
        }
        if (sum == 0 || mine / sum < facts->share * EVENT_FACTOR || mine / sum < facts->event_share)
            continue;
        facts->event = hot->profile->types[type].name;
        facts->event_share = mine / sum;
    }
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static enum status measure_block(struct annotation *annotation, struct cp_block *block, size_t i)
{
    const struct basic_block *at = &annotation->graph.blocks[i];
    struct cp_block_result *result = &annotation->notes[i].facts.result;
    struct cp_error err;

    if (at->has_call || annotation->notes[i].samples < WORTH * annotation->samples ||
        annotation->notes[i].samples == 0)
        return STATUS_OK;
    result->size = sizeof *result;
    if (cp_block_measure(block, annotation->hot.bytes + (at->start - annotation->hot.symbol.start),
                         at->end - at->start, result, &err) < 0)
        return complain(STATUS_FAILURE, "%s", err.message);
    return STATUS_OK;
}

/* Returns what an execution takes at least. A branch was left out of the measurement; at most one can be
 * taken in a cycle. */
static double least_cycles(const struct annotation *annotation, size_t i)
{
    const struct block_facts *facts = &annotation->notes[i].facts;
    const double least = facts->result.has_branch ? 1 : GUESS;

    return fmax(least,
                block_has_best(facts) ? facts->result.cycles : GUESS * (double)annotation->graph.blocks[i].n);
}

static void prepare_frequency(struct annotation *annotation, size_t i)
{
    struct frequency_block *to = &annotation->frequencies[i];

    if (annotation->has_count) {
        to->samples = value_of_block(annotation, i, annotation->count) / annotation->per_count;
        to->cycles = (double)annotation->graph.blocks[i].n;
        to->source = FREQUENCY_COUNTED;
        return;
    }
    to->samples = annotation->notes[i].samples;
    to->cycles = least_cycles(annotation, i);
    to->source = block_has_best(&annotation->notes[i].facts) ? FREQUENCY_MEASURED : FREQUENCY_GUESSED;
}

/* ---- All ------------------------------------------------------------------------------------- */

static void conclude(struct annotation *annotation, size_t i)
{
    struct block_note *note = &annotation->notes[i];
    const double frequency = annotation->frequencies[i].frequency;

    note->facts.is_alone = note->facts.is_loop && !annotation->has_count;
    note->facts.share = annotation->samples > 0 ? note->samples / annotation->samples : 0;
    if (note->samples < ENOUGH || note->samples < WORTH * annotation->samples)
        return;
    find_peak(&annotation->hot, &annotation->graph.blocks[i], &note->facts);
    find_telling_event(&annotation->hot, &annotation->graph.blocks[i], &note->facts);
    if (frequency <= 0 || note->facts.is_alone)
        return;
    note->cycles = note->samples / frequency;
    if (annotation->has_count)
        note->cycles *= annotation->per_sample / annotation->per_count;
    if (block_has_best(&note->facts))
        note->facts.ratio = note->cycles / least_cycles(annotation, i);
}

static int compare_notes(const void *a, const void *b, void *notes)
{
    const struct block_note *first = (struct block_note *)notes + *(const size_t *)a;
    const struct block_note *second = (struct block_note *)notes + *(const size_t *)b;

    return (first->samples < second->samples) - (first->samples > second->samples);
}

static void sort_notes(struct annotation *annotation)
{
    annotation->order = arena_array(&annotation->hot.arena, annotation->graph.n, sizeof *annotation->order);
    for (size_t i = 0; i < annotation->graph.n; i++)
        annotation->order[i] = i;
    qsort_r(annotation->order, annotation->graph.n, sizeof *annotation->order, compare_notes,
            annotation->notes);
}

enum status annotation_make(struct annotation *annotation, struct cp_block *block)
{
    struct hot_function *hot = &annotation->hot;
    struct flow_graph *graph = &annotation->graph;
    enum status status = STATUS_OK;

    flow_graph_make(graph, hot->steps, hot->n_steps, &hot->arena);
    annotation->notes = arena_array(&hot->arena, graph->n, sizeof *annotation->notes);
    annotation->frequencies = arena_array(&hot->arena, graph->n, sizeof *annotation->frequencies);
    count_samples(annotation);
    find_instructions(annotation);
    for (size_t i = 0; i < graph->n && status == STATUS_OK; i++) {
        look_at_steps(hot, &graph->blocks[i], &annotation->notes[i].facts);
        status = measure_block(annotation, block, i);
        prepare_frequency(annotation, i);
    }
    if (status != STATUS_OK)
        return status;
    frequency_estimate(graph, annotation->frequencies);
    for (size_t i = 0; i < graph->n; i++)
        conclude(annotation, i);
    sort_notes(annotation);
    return STATUS_OK;
}
