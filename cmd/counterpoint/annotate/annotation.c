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

/* Finds how many samples a value stands for: the profile counts them, or says the period. */
static size_t find_count(struct annotation *annotation)
{
    const struct profile *profile = annotation->hot.profile;
    const struct value_type *type = &profile->types[annotation->hot.type];
    size_t count = annotation->hot.type;

    annotation->per_sample = 1;
    for (size_t i = 0; i < profile->n_types; i++)
        if (strcmp(profile->types[i].name, "samples") == 0)
            count = i;
    if (profile->period > 0 && strcmp(profile->period_type.unit, type->unit) == 0 &&
        strcmp(profile->period_type.name, type->name) == 0)
        annotation->per_sample = (double)profile->period;
    return count;
}

static void count_samples(struct annotation *annotation)
{
    const struct hot_function *hot = &annotation->hot;
    const size_t count = find_count(annotation);
    double values = 0;

    for (size_t i = 0; i < annotation->graph.n; i++) {
        const struct basic_block *block = &annotation->graph.blocks[i];

        for (size_t j = block->first; j < block->first + block->n; j++) {
            const double value = (double)hot_value(hot, j, count);

            annotation->notes[i].samples += count == hot->type ? value / annotation->per_sample : value;
            values += (double)hot_value(hot, j, hot->type);
        }
        annotation->samples += annotation->notes[i].samples;
    }
    if (annotation->samples > 0)
        annotation->per_sample = values / annotation->samples;
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

/* A branch was left out of the measurement; at most one can be taken in a cycle. */
static void prepare_frequency(struct annotation *annotation, size_t i)
{
    const struct block_note *note = &annotation->notes[i];
    struct frequency_block *to = &annotation->frequencies[i];
    const double least = note->facts.result.has_branch ? 1 : GUESS;

    to->samples = note->samples;
    to->is_measured = block_has_best(&note->facts);
    to->cycles = fmax(least, to->is_measured ? note->facts.result.cycles
                                             : GUESS * (double)annotation->graph.blocks[i].n);
}

/* ---- All ------------------------------------------------------------------------------------- */

static void conclude(struct annotation *annotation, size_t i)
{
    struct block_note *note = &annotation->notes[i];
    const double frequency = annotation->frequencies[i].frequency;

    note->facts.share = annotation->samples > 0 ? note->samples / annotation->samples : 0;
    if (note->samples < ENOUGH || note->samples < WORTH * annotation->samples)
        return;
    find_peak(&annotation->hot, &annotation->graph.blocks[i], &note->facts);
    find_telling_event(&annotation->hot, &annotation->graph.blocks[i], &note->facts);
    if (frequency <= 0 || note->facts.is_loop)
        return;
    note->cycles = note->samples / frequency;
    if (block_has_best(&note->facts))
        note->facts.ratio = note->cycles / annotation->frequencies[i].cycles;
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
    const char *name = hot->profile->types[hot->type].name;

    flow_graph_make(graph, hot->steps, hot->n_steps, &hot->arena);
    annotation->notes = arena_array(&hot->arena, graph->n, sizeof *annotation->notes);
    annotation->frequencies = arena_array(&hot->arena, graph->n, sizeof *annotation->frequencies);
    annotation->has_cycles = strstr(name, "ycles") != NULL && strstr(name, "talled") == NULL;
    count_samples(annotation);
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
