/*
 * The stacks of the begins of a watch's rounds, and the sums of the rounds that began there.
 *
 * Each shard has its own stacks, which the shard's M adds. A round holds on to its stack and adds its values
 * when it ends, perhaps on another M, so the sums are added to by atomic operations. A stack stays until the
 * watch is closed.
 */
#ifndef COUNTERPOINT_RUNTIME_WATCH_STACKS_H
#define COUNTERPOINT_RUNTIME_WATCH_STACKS_H

#include "runtime/base/table.h"
#include "runtime/m.h"
#include "watch.h"

/* A deeper stack is cut off at its outer end. */
#define CP__WATCH_FRAMES 128
/* If a shard has so many stacks, rounds that begin elsewhere have none. */
#define CP__WATCH_STACKS_MAX 65536

/* What rounds have added: their number, and the sum of each quantity in the units of its histogram. */
struct cp__stack_sums {
    uint64_t rounds;
    uint64_t values[CP_WATCH_QUANTITIES];
};

struct cp__stack_record {
    /* Immutable once the record is linked. */
    struct cp__stack_record *next;
    uint32_t series;
    uint32_t depth;
    /* Shared, atomic; one for each side. */
    struct cp__stack_sums sums[3];
    uintptr_t frames[]; /* innermost first: an address in the call of the begin, then return addresses */
};

/* The M's, except linked, which others read. All zeros means empty. */
struct cp__stacks {
    struct cp__table table;
    struct cp__stack_record **records;
    size_t n, capacity;
    struct cp__stack_record *linked;
    struct cp__unwind_cache *cache; /* NULL: none yet, or no memory */
};

/* Returns the record of the stack from the caller of the place `here` outwards, for rounds of a series; NULL:
 * there is no memory for it. m is the calling thread's. */
struct cp__stack_record *cp__begins_find(struct cp__stacks *stacks, struct cp__m *m,
                                         const struct cp__registers *here, uint32_t series);
/* Adds a round that has ended. */
void cp__stack_add(struct cp__stack_record *record, enum cp_watch_side side, const uint64_t *values,
                   unsigned n);
void cp__begins_free(struct cp__stacks *stacks);
/* In the child of a fork: forgets what the parent's rounds have added. */
void cp__begins_forget(struct cp__stacks *stacks);

/* What the rounds of a watch have in common that began with the same stack, the same labels and the same
 * side. */
struct cp__watch_stack {
    const uintptr_t *frames;
    unsigned depth;
    struct cp_labels *labels; /* those of the watch's keys; NULL: none */
    enum cp_watch_side side;
    uint64_t rounds;
    uint64_t values[CP_WATCH_QUANTITIES]; /* sums, in the order of the watch's quantities; of ratios: 0 */
};
typedef int cp__watch_stack_fn(void *context, const struct cp__watch_stack *stack);
/* Calls fn for each; two Ms may bring the same stack. A result other than 0 ends the list and is returned.
 * Returns -EINVAL if the watch does not take stacks. fn must not use the watch. */
int cp__watch_each_stack(const struct cp_watch *watch, cp__watch_stack_fn *fn, void *context);

#endif
