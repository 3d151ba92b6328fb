#include "unwind.h"

#include "cache.h"
#include "code.h"
#include "rows.h"
#include "step.h"

/* The two words at which a frame pointer points. */
struct frame {
    uintptr_t fp; /* the caller's frame pointer */
    uintptr_t pc; /* the return address, as the function saved it */
};

/* Returns whether pc can be a return address. A word that is no address of code is none: the chain has left
 * the frames. An address of the stack itself is none either, even if the stack is executable. */
static bool is_code(uintptr_t pc, const struct cp__stack *stack, struct cp__code_range *last)
{
    return cp__code_holds_from_handler(last, pc) && !cp__stack_holds(stack, pc);
}

/* Returns the frame at fp, or NULL if the frame is not completely between floor and the stack's end. */
static const struct frame *frame_at(uintptr_t fp, uintptr_t floor, const struct cp__stack *stack)
{
    if (fp < floor || fp % sizeof(uintptr_t) != 0 || fp >= stack->hi || stack->hi - fp < sizeof(struct frame))
        return NULL;
    return (const struct frame *)fp;
}

/* Returns the address at which a caller continues, from the word that a frame has saved; 0 if that is no
 * code. */
static uintptr_t caller_of(uintptr_t saved, const struct cp__stack *stack, struct cp__code_range *last)
{
    uintptr_t pc = cp__code_address_from_handler(saved);

    return is_code(pc, stack, last) ? pc : 0;
}

/* A walk from the interrupted function to its callers. */
struct walk {
    struct cp__walk_place place;
    const struct cp__stack *stack;
    struct cp__unwind_cache *cache; /* NULL: none */
    struct cp__code_range range;    /* the code that the place is in, or that an earlier place was in */
    bool has_rule; /* rows tell about the last place that the walk has left or could not leave */
};

/* Finds what the rows tell about the place. A return address may lie behind the end of its function, if the
 * call is the last instruction there; so the address before it counts. */
static const struct cp__rule *find_rule(const struct walk *walk)
{
    const struct cp__code_range *range = &walk->range;
    uintptr_t pc = walk->place.regs.pc - (walk->place.is_interrupted ? 0 : 1);
    const struct cp__rule *rule;

    if (range->rows == NULL || pc - range->start >= range->size)
        return NULL;
    rule = cp__rows_find_from_handler(range->rows, pc - range->origin);
    return rule->cfa_from == CP__CFA_UNKNOWN ? NULL : rule;
}

/* Goes to the caller of the interrupted function by the code ahead, if the code tells. */
static bool step_by_code(struct cp__walk_place *place, const struct cp__stack *stack)
{
    struct cp__registers caller;

    if (!place->is_interrupted || !cp__caller_from_handler(&place->regs, stack->hi, &caller))
        return false;
    *place = (struct cp__walk_place){.regs = caller, .sp_is_least = !CP__RECORD_ENDS_FRAME};
    return true;
}

/* Returns whether a rule that is right at calls only says that interrupted code has stored nothing yet,
 * although the code ahead does not lead to a return. The function has made its frame record then. */
static bool is_too_early(const struct walk *walk, const struct cp__rule *rule)
{
    return walk->place.is_interrupted && (rule->flags & CP__RULE_CALLS_ONLY) != 0 &&
           rule->return_how == CP__SAME;
}

/* If the code ahead did not tell the stack pointer, a rule that needs the stack pointer does not lead on, and
 * the frame record of the caller does. */
static enum cp__step take_slow_step(struct walk *walk)
{
    const uintptr_t pc = walk->place.regs.pc;
    const bool is_call = !walk->place.is_interrupted;
    const struct cp__rule *rule;

    cp__code_holds_from_handler(&walk->range, pc);
    rule = find_rule(walk);
    walk->has_rule = rule != NULL;
    if ((rule == NULL || (rule->flags & CP__RULE_CALLS_ONLY) != 0) && step_by_code(&walk->place, walk->stack))
        return CP__STEP_TAKEN;
    if (rule != NULL && !is_too_early(walk, rule)) {
        enum cp__step step =
            cp__step_by_rule_from_handler(&walk->place, rule, walk->range.rows->expressions, walk->stack);

        if (step == CP__STEP_TAKEN && is_call && walk->cache != NULL)
            cp__cache_note_from_handler(walk->cache, pc, rule);
        if (step != CP__STEP_LOST || !walk->place.sp_is_least)
            return step;
    }
    return cp__step_by_frame_from_handler(&walk->place, walk->stack);
}

static enum cp__step take_step(struct walk *walk)
{
    if (walk->cache == NULL || !cp__step_by_cache_from_handler(walk->cache, &walk->place, walk->stack))
        return take_slow_step(walk);
    walk->has_rule = true;
    return CP__STEP_TAKEN;
}

/* Returns whether the place that the walk has come to is in code. An address that the cache has is. */
static bool is_place_code(struct walk *walk)
{
    const uintptr_t pc = walk->place.regs.pc;

    if (walk->cache != NULL && cp__cache_has(walk->cache, pc))
        return !cp__stack_holds(walk->stack, pc);
    return is_code(pc, walk->stack, &walk->range);
}

/* Returns whether a chain that cannot be followed beyond top has reached the stack's first frame. A frame
 * pointer of 0 would not prove it, because code that uses the register for something else may store zeros
 * too. If the first frame is unknown, rows would have told it. */
static bool is_at_end(const struct walk *walk, uintptr_t top)
{
    const struct cp__stack *stack = walk->stack;

    return stack->hi - top <= stack->slack && !(stack->slack == UINTPTR_MAX && walk->has_rule);
}

unsigned cp__unwind_from_handler(const struct cp__registers *regs, const struct cp__stack *stack,
                                 struct cp__unwind_cache *cache, uintptr_t *frames, unsigned max,
                                 unsigned *flags)
{
    struct walk walk = {.place = {.regs = *regs, .is_interrupted = true}, .stack = stack, .cache = cache};
    enum cp__step taken = CP__STEP_LOST;
    uintptr_t top = regs->sp;
    unsigned n = 0;

    *flags = 0;
    frames[n++] = regs->pc;
    if (!cp__stack_holds(stack, regs->sp))
        return n;
    *flags = CP__CHAIN_INCOMPLETE;
    if (!is_code(regs->pc, stack, &walk.range))
        return n;
    if (cache != NULL)
        cp__cache_begin_from_handler(cache, cp__code_version_from_handler());
    while ((taken = take_step(&walk)) == CP__STEP_TAKEN && is_place_code(&walk)) {
        if (n == max) {
            *flags = CP__CHAIN_TRUNCATED;
            return n;
        }
        frames[n++] = walk.place.regs.pc;
        top = walk.place.regs.sp;
    }
    if (taken == CP__STEP_ENDS || is_at_end(&walk, top))
        *flags = 0;
    return n;
}

__attribute__((no_sanitize("address", "thread", "undefined"))) unsigned
cp__unwind_callers(const void *frame_pointer, const struct cp__stack *stack, uintptr_t *frames, unsigned max)
{
    struct cp__code_range range = {.size = 0};
    const struct frame *frame = frame_at((uintptr_t)frame_pointer, stack->lo, stack);
    uintptr_t pc;
    unsigned n = 0;

    while (n < max && frame != NULL && (pc = caller_of(frame->pc, stack, &range)) != 0) {
        frames[n++] = pc;
        frame = frame_at(frame->fp, (uintptr_t)(frame + 1), stack);
    }
    return n;
}
