#include "cache.h"

#include <string.h>

#define WORD ((intptr_t)sizeof(uintptr_t))

void cp__cache_begin_from_handler(struct cp__unwind_cache *cache, uint64_t version)
{
    if (cache->version == version)
        return;
    memset(cache->steps, 0, sizeof cache->steps);
    cache->version = version;
}

/* Returns whether a distance in bytes is one of whole words that fits into an entry. */
static bool fits(int32_t distance)
{
    return distance % WORD == 0 && distance / WORD >= INT16_MIN && distance / WORD <= INT16_MAX;
}

static bool is_frequent_kind(const struct cp__rule *rule)
{
    if (rule->flags != 0 || rule->return_how != CP__AT)
        return false;
    if (rule->cfa_from != CP__SP_NUMBER && rule->cfa_from != CP__FP_NUMBER)
        return false;
    if (rule->fp_how != CP__SAME && (rule->fp_how != CP__AT || rule->fp_value == 0))
        return false;
    return fits(rule->cfa) && fits(rule->return_value) && fits(rule->fp_value);
}

void cp__cache_note_from_handler(struct cp__unwind_cache *cache, uintptr_t pc, const struct cp__rule *rule)
{
    if (!is_frequent_kind(rule))
        return;
    *cp__cached_step(cache, pc) =
        (struct cp__cached_step){.pc = pc,
                                 .cfa = (int16_t)(rule->cfa / WORD),
                                 .return_place = (int16_t)(rule->return_value / WORD),
                                 .fp_place = (int16_t)(rule->fp_how == CP__AT ? rule->fp_value / WORD : 0),
                                 .cfa_is_by_fp = rule->cfa_from == CP__FP_NUMBER};
}

/* The stack holds frames of other functions, and a sanitizer may have fenced parts of these frames. */
__attribute__((no_sanitize("address", "thread", "undefined"))) bool
cp__step_by_cache_from_handler(struct cp__unwind_cache *cache, struct cp__walk_place *place,
                               const struct cp__stack *stack)
{
    const struct cp__cached_step *step = cp__cached_step(cache, place->regs.pc);
    const uintptr_t sp = place->regs.sp;
    const uintptr_t *cfa, *return_place, *fp_place;
    uintptr_t end;

    if (step->pc != place->regs.pc || place->is_interrupted || (place->sp_is_least && !step->cfa_is_by_fp))
        return false;
    end = (step->cfa_is_by_fp ? place->regs.fp : sp) + (uintptr_t)(step->cfa * WORD);
    if (end % (uintptr_t)WORD != 0 || end <= sp || end > stack->hi)
        return false;
    cfa = (const uintptr_t *)end;
    return_place = cfa + step->return_place;
    fp_place = cfa + step->fp_place;
    /* Each word begins in [sp, end of the stack). The CFA is aligned, so the word ends there, too. */
    if ((uintptr_t)return_place - sp >= stack->hi - sp ||
        (step->fp_place != 0 && (uintptr_t)fp_place - sp >= stack->hi - sp))
        return false;
    *place = (struct cp__walk_place){.regs = {.pc = cp__code_address_from_handler(*return_place),
                                              .sp = end,
                                              .fp = step->fp_place != 0 ? *fp_place : place->regs.fp}};
    return true;
}
