/*
 * What an M's handler remembers of return addresses: how each leads on to the next one.
 *
 * Most functions on a stack are the same in the next sample. A look-up of their rows takes about 30 ns a
 * frame, an entry here about a tenth of that. An entry holds a rule of the most frequent kind: the CFA is the
 * stack or frame pointer plus a number, and the return address and the frame pointer are saved at known
 * distances from it. An address has one place in the cache, and a new entry replaces the old one.
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
    int16_t cfa;          /* from the stack or frame pointer */
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

static inline struct cp__cached_step *cp__cached_step(struct cp__unwind_cache *cache, uintptr_t pc)
{
    return &cache->steps[(pc ^ pc >> 8) % CP__CACHE_ENTRIES];
}

static inline bool cp__cache_has(struct cp__unwind_cache *cache, uintptr_t pc)
{
    return pc != 0 && cp__cached_step(cache, pc)->pc == pc; /* an entry that is empty has a pc of 0 */
}

/* Goes to the caller by the entry for the place. Returns false, and leaves the place unchanged, if there is
 * none, or if the stack does not allow the step: rows may allow it then. */
bool cp__step_by_cache_from_handler(struct cp__unwind_cache *cache, struct cp__walk_place *place,
                                    const struct cp__stack *stack);

#endif
