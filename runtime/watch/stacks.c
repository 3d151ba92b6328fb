#include "stacks.h"

#include <string.h>

#include "recorder.h"
#include "runtime/base/fork_gate.h"
#include "runtime/moment.h"
#include "runtime/unwind/cache.h"
#include "runtime/unwind/code.h"

/* ---- Finding --------------------------------------------------------------------------------- */

/* Walks as the signal handler does, with a cache of its own, because a signal may come meanwhile. The first
 * frame is cp_watch_begin()'s. */
static unsigned walk(struct cp__stacks *stacks, struct cp__m *m, const struct cp__registers *here,
                     uintptr_t *frames)
{
    const struct cp_g *g = m->head.g;
    struct cp__stack of_g = {.next = &m->stack};
    unsigned flags, depth;

    if (stacks->cache == NULL)
        stacks->cache = calloc(1, sizeof *stacks->cache);
    if (g != NULL) {
        of_g.lo = g->stack_lo;
        of_g.hi = g->stack_hi;
        of_g.slack = CP__G_SLACK;
    }
    depth = cp__unwind_from_handler(here, &of_g, stacks->cache, frames, CP__WATCH_FRAMES, &flags, NULL) - 1;
    memmove(frames, frames + 1, depth * sizeof *frames);
    if (depth > 0)
        frames[0]--; /* the return address of the begin is behind the call */
    return depth;
}

static uint32_t hash_begin(const uintptr_t *frames, unsigned depth, uint32_t series)
{
    uint64_t hash = series;

    for (unsigned i = 0; i < depth; i++)
        hash = cp__hash_add(hash, frames[i]);
    return cp__hash_end(hash);
}

static struct cp__stack_record *make_record(struct cp__stacks *stacks, const uintptr_t *frames,
                                            unsigned depth, uint32_t series, uint32_t hash)
{
    struct cp__stack_record *record;

    if (stacks->n >= CP__WATCH_STACKS_MAX || cp__table_reserve(&stacks->table, 1) < 0 ||
        CP__RESERVE(stacks->records, stacks->capacity, stacks->n + 1) < 0)
        return NULL;
    record = calloc(1, sizeof *record + depth * sizeof *frames);
    if (record == NULL)
        return NULL;
    record->series = series;
    record->depth = depth;
    memcpy(record->frames, frames, depth * sizeof *frames);
    record->next = stacks->linked;
    cp_store_release(&stacks->linked, record); /* pairs with the acquire in each_record() */
    cp__table_insert(&stacks->table, hash, (uint32_t)stacks->n);
    stacks->records[stacks->n++] = record;
    return record;
}

struct cp__stack_record *cp__begins_find(struct cp__stacks *stacks, struct cp__m *m,
                                         const struct cp__registers *here, uint32_t series)
{
    uintptr_t frames[CP__WATCH_FRAMES];
    const unsigned depth = walk(stacks, m, here, frames);
    const uint32_t hash = hash_begin(frames, depth, series);
    struct cp__stack_record *record;
    uint32_t number;

    for (size_t at = hash; cp__table_next(&stacks->table, hash, &at, &number);) {
        record = stacks->records[number];
        if (record->series == series && record->depth == depth &&
            memcmp(record->frames, frames, depth * sizeof *frames) == 0)
            return record;
    }
    /* The stack may lead through code that was loaded since: the next walk then has its rows. */
    cp__code_look();
    cp__fork_delay(); /* a fork's child must find the table whole */
    record = make_record(stacks, frames, depth, series, hash);
    cp__fork_allow();
    return record;
}

void cp__stack_add(struct cp__stack_record *record, enum cp_watch_side side, const uint64_t *values,
                   unsigned n)
{
    struct cp__stack_sums *sums = &record->sums[side];

    cp_fetch_add_relaxed(&sums->rounds, 1u); /* relaxed, both: numbers of their own */
    for (unsigned i = 0; i < n; i++)
        cp_fetch_add_relaxed(&sums->values[i], values[i]);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int each_side(const struct cp_watch *watch, const struct cp__stack_record *record,
                     cp__watch_stack_fn *fn, void *context)
{
    int result = 0;

    for (unsigned side = 0; side < CP__WATCH_SIDES && result == 0; side++) {
        struct cp__watch_stack stack = {
            .frames = record->frames,
            .depth = record->depth,
            .labels = watch->series[record->series].labels,
            .side = (enum cp_watch_side)side,
            .rounds = cp_load_relaxed(&record->sums[side].rounds)}; /* relaxed: as above */

        for (unsigned i = 0; i < watch->n_quantities; i++) {
            if (watch->measures[i].kind != CP__MEASURE_RATIO)
                stack.values[i] = cp_load_relaxed(&record->sums[side].values[i]); /* relaxed: the same */
        }
        if (stack.rounds > 0)
            result = fn(context, &stack);
    }
    return result;
}

static int each_record(const struct cp_watch *watch, const struct cp__stacks *stacks, cp__watch_stack_fn *fn,
                       void *context)
{
    int result = 0;

    /* acquire: pairs with the release in make_record() */
    for (const struct cp__stack_record *record = cp_load_acquire(&stacks->linked);
         record != NULL && result == 0; record = record->next)
        result = each_side(watch, record, fn, context);
    return result;
}

int cp__watch_each_stack(const struct cp_watch *const_watch, cp__watch_stack_fn *fn, void *context)
{
    struct cp_watch *watch = (struct cp_watch *)(uintptr_t)const_watch; /* only the lock is changed */
    int result = 0;

    if (!watch->has_stacks)
        return -EINVAL;
    cp__lock(&watch->lock);
    for (const struct cp__shard *shard = watch->shards; shard != NULL && result == 0; shard = shard->next)
        result = each_record(watch, &shard->stacks, fn, context);
    cp__unlock(&watch->lock);
    return result;
}

/* ---- The end --------------------------------------------------------------------------------- */

void cp__begins_free(struct cp__stacks *stacks)
{
    struct cp__stack_record *next;

    for (struct cp__stack_record *record = stacks->linked; record != NULL; record = next) {
        next = record->next;
        free(record);
    }
    cp__table_free(&stacks->table);
    free(stacks->records);
    free(stacks->cache);
}

void cp__begins_forget(struct cp__stacks *stacks)
{
    /* acquire: pairs with the release in make_record() */
    for (struct cp__stack_record *record = cp_load_acquire(&stacks->linked); record != NULL;
         record = record->next)
        memset(record->sums, 0, sizeof record->sums);
}
