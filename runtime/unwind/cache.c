#include "cache.h"

#include <string.h>

#define WORD ((intptr_t)sizeof(uintptr_t))

/* A place of a walk by the cache, so small that it stays in registers. */
struct place {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;
};

void cp__cache_begin_from_handler(struct cp__unwind_cache *cache, uint64_t version)
{
    if (cache->version == version)
        return;
    memset(cache->steps, 0, sizeof cache->steps);
    cache->version = version;
}

/* Returns whether a distance in bytes is one of whole words, and whether that word is in the frame: from
 * `words` below the CFA to just below the CFA. */
static bool is_in_frame(int32_t distance, int32_t words)
{
    return distance % WORD == 0 && distance < 0 && distance / WORD >= -words;
}

static bool is_frequent_kind(const struct cp__rule *rule)
{
    if (rule->flags != 0 || rule->return_how != CP__AT)
        return false;
    if (rule->cfa_from != CP__SP_NUMBER && rule->cfa_from != CP__FP_NUMBER)
        return false;
    if (rule->cfa <= 0 || rule->cfa % WORD != 0 || rule->cfa / WORD > INT16_MAX)
        return false;
    if (rule->fp_how != CP__SAME &&
        (rule->fp_how != CP__AT || !is_in_frame(rule->fp_value, rule->cfa / (int32_t)WORD)))
        return false;
    return is_in_frame(rule->return_value, rule->cfa / (int32_t)WORD);
}

static void put_step(struct cp__unwind_cache *cache, const struct cp__cached_step *entry)
{
    struct cp__cached_step *places = cp__cache_places(cache, entry->pc);

    if (cp__cache_has(cache, entry->pc))
        return;
    places[1] = places[0];
    places[0] = *entry;
}

void cp__cache_note_from_handler(struct cp__unwind_cache *cache, uintptr_t pc, const struct cp__rule *rule)
{
    if (!is_frequent_kind(rule))
        return;
    put_step(cache, &(struct cp__cached_step){
                        .pc = pc,
                        .cfa = (int16_t)(rule->cfa / WORD),
                        .return_place = (int16_t)(rule->return_value / WORD),
                        .fp_place = (int16_t)(rule->fp_how == CP__AT ? rule->fp_value / WORD : 0),
                        .cfa_is_by_fp = rule->cfa_from == CP__FP_NUMBER});
}

void cp__cache_note_end_from_handler(struct cp__unwind_cache *cache, uintptr_t pc)
{
    put_step(cache, &(struct cp__cached_step){.pc = pc});
}

/* Takes the step of an entry. Returns false, and leaves the place unchanged, if the stack does not allow
 * the step. The saved words lie between the register that the CFA comes from and the CFA, so that the two
 * are all that there is to check. The stack holds frames of other functions, and a sanitizer may have
 * fenced parts of these frames. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static inline bool
take_step(const struct cp__cached_step *step, struct place *place, uintptr_t hi)
{
    const uintptr_t base = step->cfa_is_by_fp ? place->fp : place->sp;
    const uintptr_t *cfa = (const uintptr_t *)base + step->cfa;

    if (base - place->sp > hi - place->sp || hi - base < (uintptr_t)(step->cfa * WORD) ||
        base % (uintptr_t)WORD != 0)
        return false;
    place->pc = cp__code_address_from_handler(cfa[step->return_place]);
    if (step->fp_place != 0)
        place->fp = cfa[step->fp_place];
    place->sp = (uintptr_t)cfa;
    return true;
}

bool cp__cache_walk_from_handler(struct cp__unwind_cache *cache, struct cp__walk_place *from,
                                 const struct cp__stack *stack, struct cp__chain *chain)
{
    const uintptr_t hi = stack->hi, end = stack->ends_there ? hi - stack->slack : UINTPTR_MAX;
    struct place place = {from->regs.pc, from->regs.sp, from->regs.fp};
    const struct cp__cached_step *step = cp__cached_step(cache, place.pc);
    bool is_ahead = false;

    if (place.sp > hi || (from->sp_is_least && !step->cfa_is_by_fp))
        return false;
    while (cp__is_step_of(step, place.pc) && place.sp < end) {
        const uintptr_t top = place.sp;

        chain->ends = step->cfa == 0;
        if (chain->ends)
            break;
        if (!take_step(step, &place, hi))
            break;
        chain->top = top;
        step = cp__cached_step(cache, place.pc);
        is_ahead =
            !cp__is_step_of(step, place.pc) || chain->n == chain->max || cp__stack_holds(stack, place.pc);
        if (is_ahead)
            break;
        chain->frames[chain->n++] = place.pc;
    }
    if (place.sp != from->regs.sp)
        *from = (struct cp__walk_place){.regs = {.pc = place.pc, .sp = place.sp, .fp = place.fp}};
    return is_ahead;
}
