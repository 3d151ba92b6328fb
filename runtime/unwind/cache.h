/*
 * What an M's handler remembers of return addresses: how each leads on to the next one.
 *
 * Most functions on a stack are the same in the next sample. A look-up of their rows takes about 30 ns a
 * frame, an entry here about a tenth of that. An entry holds a rule of the most frequent kind: the CFA is the
 * stack or frame pointer plus a number, and the return address and the frame pointer are saved at known
 * distances from it; or it says that the chain ends there. An address has two places in the cache, and a new
 * entry replaces the older one. With one place, every other stack of 24 frames would have two addresses that
 * replace each other in every sample.
 *
 * The cache belongs to one M's handler. All entries are of one version of the table of code (code.h): if
 * another version has been published, the first walk after that empties the cache. So an address of an object
 * that was unmapped is forgotten when the table is.
 */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_CACHE_H
#define COUNTERPOINT_RUNTIME_UNWIND_CACHE_H

#include "step.h"

#define CP__CACHE_ENTRIES 256

struct cp__cached_step {
    uintptr_t pc; /* 0: none */
    /* All distances are in words. */
    int16_t cfa;          /* from the stack or frame pointer; 0: the function has no caller */
    int16_t return_place; /* from the CFA, like the next */
    int16_t fp_place;     /* 0: the frame pointer is the caller's already */
    bool cfa_is_by_fp;
};

struct cp__unwind_cache {
    uint64_t version;
    struct cp__cached_step steps[CP__CACHE_ENTRIES];
};

/* Empties the cache if its version is not this one. */
void cp__cache_begin_from_handler(struct cp__unwind_cache *cache, uint64_t version);
/* Notes that the rule leads on from the return address pc, if the cache holds rules of that kind. */
void cp__cache_note_from_handler(struct cp__unwind_cache *cache, uintptr_t pc, const struct cp__rule *rule);

/* Notes that the function has no caller to which it could return at pc. */
void cp__cache_note_end_from_handler(struct cp__unwind_cache *cache, uintptr_t pc);

/* Returns the first of the two places of an address. */
static inline struct cp__cached_step *cp__cache_places(struct cp__unwind_cache *cache, uintptr_t pc)
{
    return &cache->steps[(pc ^ pc >> 8) % (CP__CACHE_ENTRIES / 2) * 2];
}

/* Returns the entry for an address, or one that is not for it. */
static inline const struct cp__cached_step *cp__cached_step(struct cp__unwind_cache *cache, uintptr_t pc)
{
    const struct cp__cached_step *places = cp__cache_places(cache, pc);

    return __builtin_expect(places[0].pc == pc, 1) ? &places[0] : &places[1];
}

/* Returns whether an entry is that of the address. An empty one has an address of 0. */
static inline bool cp__is_step_of(const struct cp__cached_step *step, uintptr_t pc)
{
    return step->pc == pc && pc != 0;
}

static inline bool cp__cache_has(struct cp__unwind_cache *cache, uintptr_t pc)
{
    return cp__is_step_of(cp__cached_step(cache, pc), pc);
}

/* The frames that a walk has found. */
struct cp__chain {
    uintptr_t *frames;
    unsigned n;
    unsigned max;
    uintptr_t top; /* the stack pointer before the last step */
    bool ends;     /* by the cache, the place that the walk has come to has no caller */
};

/* Walks from a place behind a call by the entries for it and for its callers, as far as they lead and the
 * stack allows, and appends the callers to the chain. Returns whether the place has come to one that is
 * not in the chain, because the cache does not know it, or the chain is full. */
bool cp__cache_walk_from_handler(struct cp__unwind_cache *cache, struct cp__walk_place *place,
                                 const struct cp__stack *stack, struct cp__chain *chain);

#endif
