#include "unwind.h"

#include <string.h>

#include "cache.h"
#include "code.h"
#include "rows.h"
#include "stack.h"
#include "step.h"
#include "switches.h"

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

/* How many handlers of signals, each on another stack than what it interrupted, a walk leads through. */
#define MOST_CHANGES 4

/* A walk from the interrupted function to its callers. */
struct walk {
    struct cp__walk_place place;
    struct cp__stack *stacks;       /* those that are known */
    struct cp__stack *stack;        /* the one that the place is on */
    struct cp__stack open;          /* if nobody told of that one */
    unsigned changes;               /* how often the walk went from one stack to another */
    struct cp__unwind_cache *cache; /* NULL: none */
    struct cp__code_range range;    /* the code that the place is in, or that an earlier place was in */
    bool is_old;                    /* the table of code is older than what the linker has loaded */
    bool is_outdated;               /* a step was told by rows of an object that may have been unloaded */
    bool is_doubtful;               /* a step was taken that neither rows nor code have told */
    bool has_record;                /* the code of the place has stored the link register */
    bool wants_kept;                /* a rule needs a register that the walk does not follow */
    struct cp__kept *kept;          /* the registers that the walk follows beside pc, sp and fp; NULL: none */
};

/* Finds what the rows tell about the place. A return address may lie behind the end of its function, if the
 * call is the last instruction there; so the address before it counts. */
static const struct cp__rule *find_rule(const struct cp__code_range *range,
                                        const struct cp__walk_place *place)
{
    uintptr_t pc = place->regs.pc - (place->is_interrupted ? 0 : 1);
    const struct cp__rule *rule;

    if (range->rows == NULL || pc - range->start >= range->size)
        return NULL;
    rule = cp__rows_find_from_handler(range->rows, pc - range->origin);
    return rule->cfa_from == CP__CFA_UNKNOWN ? NULL : rule;
}

/* Returns whether code may have been called from the place that the code ahead leads to. Code also returns to
 * what it has pushed, to go elsewhere. What has called nothing is known by its rows: the kernel's call of a
 * handler, and the first code of a stack. Behind what is no code, the chain ends. */
static bool may_have_called(const struct walk *walk, const struct cp__walk_place *place)
{
    struct cp__code_range range = walk->range;
    const struct cp__rule *rule;

    if (!is_code(place->regs.pc, walk->stack, &range))
        return true;
    rule = find_rule(&range, place);
    if (rule != NULL && ((rule->flags & CP__RULE_SIGNAL) != 0 || rule->return_how == CP__UNDEFINED))
        return true;
    return cp__may_be_behind_call_from_handler(place->regs.pc, cp__text_at_from_handler);
}

/* Goes to the caller by the code ahead, if the code tells. Behind a call it can tell only if the stack
 * pointer is known. */
static enum cp__step step_by_code(struct walk *walk)
{
    struct cp__walk_place *place = &walk->place, next;
    struct cp__registers caller;
    enum cp__caller found;

    if (!place->is_interrupted && place->sp_is_least)
        return CP__STEP_LOST;
    found = cp__caller_from_handler(&place->regs, walk->stack->hi, cp__text_at_from_handler, &caller);
    walk->has_record = found == CP__CALLER_STORED;
    if (found == CP__CALLER_UNKNOWN || found == CP__CALLER_STORED)
        return CP__STEP_LOST;
    if (found == CP__CALLER_NONE)
        return CP__STEP_ENDS;
    next = (struct cp__walk_place){.regs = caller, .sp_is_least = found == CP__CALLER_FOUND_ABOVE};
    if (!may_have_called(walk, &next))
        return CP__STEP_LOST;
    *place = next;
    return CP__STEP_TAKEN;
}

/* Returns whether a rule that is right at calls only says that interrupted code has stored nothing yet,
 * although the code ahead does not lead to a return. The function has made its frame record then. */
static bool is_too_early(const struct walk *walk, const struct cp__rule *rule)
{
    return walk->place.is_interrupted && (rule->flags & CP__RULE_CALLS_ONLY) != 0 &&
           rule->return_how == CP__SAME;
}

/* Returns whether the rule says that the function has stored the frame pointer and the return address side by
 * side, as a frame record. */
static bool tells_of_record(const struct cp__rule *rule)
{
    return rule != NULL && rule->return_how == CP__AT && rule->fp_how == CP__AT &&
           rule->return_value == rule->fp_value + (int32_t)sizeof(uintptr_t);
}

/* Follows the kept registers through a step by rows, from the place `from`. */
static void follow_kept(struct walk *walk, const struct cp__walk_place *from)
{
    const struct cp__rows *rows = walk->range.rows->kept;
    uintptr_t at = from->regs.pc - (from->is_interrupted ? 0 : 1) - walk->range.origin;

    cp__kept_step_from_handler(walk->kept, from, rows == NULL ? NULL : cp__rows_find_from_handler(rows, at),
                               walk->place.regs.sp, walk->stack);
    walk->place.kept = walk->kept;
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

/* Chooses the stack that sp is on. Returns false if that is none that can be read. */
static bool choose_stack(struct walk *walk, uintptr_t sp)
{
    walk->stack = cp__stack_find_from_handler(walk->stacks, sp);
    if (walk->stack != NULL)
        return true;
    walk->stack = &walk->open;
    return cp__stack_open_from_handler(&walk->open, sp);
}

/* Goes on at sp, which code was interrupted with. A handler's stack may be part of the interrupted one,
 * and lie above sp. Returns false if the walk has done so too often, or the stack cannot be read. */
static bool go_to_stack(struct walk *walk, uintptr_t sp)
{
    if (cp__stack_holds(walk->stack, sp) && sp > walk->place.regs.sp)
        return true;
    return walk->changes++ < MOST_CHANGES && choose_stack(walk, sp);
}

static bool is_signal_return_at(uintptr_t pc)
{
    static const uint8_t code[] = CP__SIGNAL_RETURN;
    struct cp__text text = {.at_from_handler = cp__text_at_from_handler};

    return cp__text_has_from_handler(&text, pc, sizeof code) &&
           memcmp((const void *)pc, code, sizeof code) == 0;
}

/* Returns whether the place is in the kernel's call of a handler. The rows of a program's own switches of
 * stacks may have the same flag. */
static bool is_signal_return(const struct walk *walk, const struct cp__rule *rule)
{
    const uintptr_t pc = walk->place.regs.pc;

    return (rule->flags & CP__RULE_SIGNAL) != 0 &&
           (is_signal_return_at(pc) || is_signal_return_at(pc - CP__SIGNAL_RETURN_SECOND));
}

/* Goes from the kernel's call of a handler to the code that was interrupted, whose registers the kernel
 * has put onto the stack of the handler. Code on another stack may have been interrupted. */
static enum cp__step step_by_signal(struct walk *walk)
{
    const uintptr_t sp = walk->place.regs.sp, context = sp + CP__SIGNAL_CONTEXT;
    struct cp__registers regs;

    if (context % _Alignof(ucontext_t) != 0 || context >= walk->stack->hi ||
        walk->stack->hi - context < sizeof(ucontext_t))
        return CP__STEP_LEAVES;
    regs = cp__registers_from_handler((const void *)context);
    if (!go_to_stack(walk, regs.sp))
        return CP__STEP_LOST;
    walk->place = (struct cp__walk_place){.regs = regs, .is_interrupted = true, .kept = walk->kept};
    if (walk->kept != NULL)
        cp__kept_begin_from_handler(walk->kept, regs.machine);
    return CP__STEP_TAKEN;
}

/* Takes the step of a function that has called on another stack than its own: its frame, which the frame
 * pointer tells, lies on another one of those that are known. */
static enum cp__step step_across(struct walk *walk, const struct cp__rule *rule)
{
    const uintptr_t cfa = walk->place.regs.fp + (uintptr_t)(intptr_t)rule->cfa;
    struct cp__stack *other = cp__stack_find_from_handler(walk->stacks, cfa - 1);
    struct cp__walk_place place = walk->place;
    enum cp__step step;

    if (other == NULL || other == walk->stack || walk->changes == MOST_CHANGES)
        return CP__STEP_LOST;
    walk->changes++;
    place.regs.sp = other->lo; /* unknown, and not below */
    step = cp__step_by_rule_from_handler(&place, rule, walk->range.rows->expressions, other);
    if (step != CP__STEP_TAKEN)
        return CP__STEP_LOST;
    walk->place = place;
    walk->stack = other;
    return CP__STEP_TAKEN;
}

/* Returns whether the address that the walk has come to is the first one of a function: its rule says that
 * only the return address is on the stack. A call leaves more there. */
static bool is_at_beginning(const struct walk *walk)
{
    const struct cp__walk_place place = {.regs = {.pc = walk->place.regs.pc}, .is_interrupted = true};
    struct cp__code_range range = walk->range;
    const struct cp__rule *rule;

    if (!is_code(place.regs.pc, walk->stack, &range))
        return false;
    rule = find_rule(&range, &place);
    return rule != NULL && rule->cfa_from == CP__SP_NUMBER && rule->cfa == sizeof(uintptr_t);
}

/* Returns whether the caller that a step has told in the midst of a switch, at pc, may be none. */
static bool is_switch_doubtful(const struct walk *walk, uintptr_t pc, enum cp__step step)
{
    return !cp__switches_have_pushed_from_handler(pc) || step != CP__STEP_TAKEN || is_at_beginning(walk);
}

/* Takes the step that a rule tells, and notes the rule in the cache. */
static enum cp__step step_by_rule(struct walk *walk, const struct cp__rule *rule)
{
    const struct cp__walk_place from = walk->place;
    struct cp__stack *const stack = walk->stack;
    const uintptr_t pc = walk->place.regs.pc;
    const bool is_call = !walk->place.is_interrupted;
    enum cp__step step;

    if (is_signal_return(walk, rule))
        return step_by_signal(walk);
    walk->is_outdated |= walk->is_old && walk->range.may_go;
    if ((rule->flags & CP__RULE_LEAVES) != 0 && cp__leaves_stack_from_handler(pc, cp__text_at_from_handler))
        walk->is_doubtful = true;
    step = cp__step_by_rule_from_handler(&walk->place, rule, walk->range.rows->expressions, walk->stack);
    if (step != CP__STEP_TAKEN && rule->cfa_from == CP__FP_NUMBER &&
        step_across(walk, rule) == CP__STEP_TAKEN)
        step = CP__STEP_TAKEN;
    else if (step == CP__STEP_TAKEN && is_call && walk->cache != NULL)
        cp__cache_note_from_handler(walk->cache, pc, rule);
    else if (step == CP__STEP_ENDS && is_call && walk->cache != NULL && rule->flags == 0)
        cp__cache_note_end_from_handler(walk->cache, pc);
    if (!is_call && cp__switches_hold_from_handler(pc) && is_switch_doubtful(walk, pc, step)) {
        walk->place = from;
        walk->stack = stack;
        return CP__STEP_LOST;
    }
    if (step == CP__STEP_TAKEN && walk->kept != NULL)
        follow_kept(walk, &from);
    walk->wants_kept |= step == CP__STEP_LOST && is_call && rule->cfa_from != CP__SP_NUMBER &&
                        rule->cfa_from != CP__FP_NUMBER;
    return step;
}

/* Goes to the caller of code that has no rule, or a rule that is right at calls only. If the chain is
 * doubtful anyway, its code is not read behind calls. */
static enum cp__step step_without_rule(struct walk *walk)
{
    enum cp__step step;

    if (walk->is_doubtful && !walk->place.is_interrupted)
        return CP__STEP_LOST;
    step = step_by_code(walk);
    if (step != CP__STEP_LOST && walk->kept != NULL)
        cp__kept_forget_from_handler(walk->kept);
    return step;
}

/* If the code ahead did not tell the stack pointer, a rule that needs the stack pointer does not lead on, and
 * the frame record of the caller does. */
static enum cp__step take_slow_step(struct walk *walk)
{
    const struct cp__rule *rule;
    enum cp__step step = CP__STEP_LOST;

    cp__code_holds_from_handler(&walk->range, walk->place.regs.pc);
    rule = find_rule(&walk->range, &walk->place);
    if (rule == NULL || (walk->place.is_interrupted && (rule->flags & CP__RULE_CALLS_ONLY) != 0))
        step = step_without_rule(walk);
    if (step != CP__STEP_LOST)
        return step;
    if (rule != NULL && !is_too_early(walk, rule)) {
        step = step_by_rule(walk, rule);
        if (step != CP__STEP_LOST || !walk->place.sp_is_least)
            return step;
    }
    walk->is_doubtful |=
        !tells_of_record(rule) && !(rule != NULL && is_too_early(walk, rule) && walk->has_record);
    if (walk->kept != NULL)
        cp__kept_forget_from_handler(walk->kept);
    return cp__step_by_frame_from_handler(&walk->place, walk->stack);
}

/* Nobody has told how far an open stack goes, so the step may need more of the stack. */
static enum cp__step take_step(struct walk *walk)
{
    const bool was_doubtful = walk->is_doubtful;
    enum cp__step step = take_slow_step(walk);

    while (step == CP__STEP_LEAVES && cp__stack_extend_from_handler(walk->stack)) {
        walk->is_doubtful = was_doubtful;
        step = take_slow_step(walk);
    }
    return step;
}

/* Returns whether the place that the walk has come to is in code. An address that the cache has is. */
static bool is_place_code(struct walk *walk)
{
    const uintptr_t pc = walk->place.regs.pc;

    if (walk->cache != NULL && cp__cache_has(walk->cache, pc))
        return !cp__stack_holds(walk->stack, pc);
    return is_code(pc, walk->stack, &walk->range);
}

/* Returns what a chain lacks that cannot be followed beyond top. The last step that was tried has the
 * result `last`; if that is CP__STEP_TAKEN, the step has led to an address that is no code. A frame
 * pointer of 0 would not prove that the chain has reached the stack's first frame, because code that uses
 * the register for something else may store zeros too. */
static unsigned what_lacks(const struct walk *walk, enum cp__step last, uintptr_t top)
{
    const struct cp__stack *stack = walk->stack;

    if (stack->is_open && (walk->is_doubtful || last != CP__STEP_ENDS))
        return CP__CHAIN_FOREIGN;
    if (walk->is_outdated)
        return CP__CHAIN_INCOMPLETE | CP__CHAIN_NEW_CODE;
    if (walk->is_doubtful)
        return CP__CHAIN_INCOMPLETE;
    if (last == CP__STEP_ENDS || (last != CP__STEP_LOST && stack->hi - top <= stack->slack))
        return 0;
    return CP__CHAIN_INCOMPLETE | (last == CP__STEP_TAKEN ? CP__CHAIN_NEW_CODE : 0);
}

/* Goes on by the cache as far as it leads, as cp__cache_walk_from_handler() does. */
static bool walk_by_cache(struct walk *walk, struct cp__chain *chain)
{
    return walk->cache != NULL && !walk->place.is_interrupted &&
           cp__cache_walk_from_handler(walk->cache, &walk->place, walk->stack, chain);
}

/* Walks from the place to the callers, whose addresses become frames[1] and so on. Returns the number of
 * frames, and in *flags what the chain lacks. */
static unsigned walk_out(struct walk *walk, uintptr_t *frames, unsigned max, unsigned *flags)
{
    struct cp__chain chain = {.frames = frames, .n = 1, .max = max};
    enum cp__step taken = CP__STEP_TAKEN;
    bool is_ahead = walk_by_cache(walk, &chain);

    for (;;) {
        if (!is_ahead) {
            chain.top = walk->place.regs.sp;
            if (cp__has_left_first(walk->stack, chain.top))
                break;
            taken = chain.ends ? CP__STEP_ENDS : take_step(walk);
        }
        if (taken != CP__STEP_TAKEN || !is_place_code(walk))
            break;
        if (chain.n == max) {
            *flags = CP__CHAIN_TRUNCATED;
            return max;
        }
        frames[chain.n++] = walk->place.regs.pc;
        is_ahead = walk_by_cache(walk, &chain);
    }
    *flags = what_lacks(walk, taken, chain.top);
    return chain.n;
}

/* Walks from the walk's place to its callers. The stack of the walk is that of the place. */
static unsigned walk_from(struct walk *walk, const struct cp__registers *regs, uintptr_t *frames,
                          unsigned max, unsigned *flags)
{
    struct cp__kept kept;
    unsigned n = walk_out(walk, frames, max, flags);

    if (!walk->wants_kept || regs->machine == NULL)
        return n;
    cp__kept_begin_from_handler(&kept, regs->machine);
    *walk = (struct walk){.place = {.regs = *regs, .is_interrupted = true},
                          .stacks = walk->stacks,
                          .is_old = walk->is_old,
                          .range = walk->range,
                          .kept = &kept};
    if (choose_stack(walk, regs->sp))
        n = walk_out(walk, frames, max, flags);
    return n;
}

/* Begins to use the cache, if the table of code is not old: entries do not tell which object they are of. */
static void use_cache(struct walk *walk, struct cp__unwind_cache *cache)
{
    if (cache == NULL || walk->is_old)
        return;
    cp__cache_begin_from_handler(cache, cp__code_version_from_handler());
    walk->cache = cache;
}

static unsigned unwind(const struct cp__registers *regs, bool is_interrupted, struct cp__stack *stacks,
                       struct cp__unwind_cache *cache, uintptr_t *frames, unsigned max, unsigned *flags,
                       const struct cp__stack **reached)
{
    struct walk walk = {.place = {.regs = *regs, .is_interrupted = is_interrupted},
                        .stacks = stacks,
                        .is_old = cp__code_is_old_from_handler()};
    unsigned n = 1;

    frames[0] = regs->pc;
    use_cache(&walk, cache);
    if (!choose_stack(&walk, regs->sp))
        *flags = CP__CHAIN_FOREIGN;
    else if (!is_place_code(&walk))
        *flags = walk.stack->is_open ? CP__CHAIN_FOREIGN : CP__CHAIN_INCOMPLETE | CP__CHAIN_NEW_CODE;
    else
        n = walk_from(&walk, regs, frames, max, flags);
    if (reached != NULL)
        *reached = walk.stack == &walk.open ? NULL : walk.stack;
    return n;
}

unsigned cp__unwind_from_handler(const struct cp__registers *regs, struct cp__stack *stacks,
                                 struct cp__unwind_cache *cache, uintptr_t *frames, unsigned max,
                                 unsigned *flags, const struct cp__stack **reached)
{
    return unwind(regs, true, stacks, cache, frames, max, flags, reached);
}

unsigned cp__unwind_call(const struct cp__registers *regs, struct cp__stack *stacks,
                         struct cp__unwind_cache *cache, uintptr_t *frames, unsigned max, unsigned *flags)
{
    const unsigned n = unwind(regs, false, stacks, cache, frames, max, flags, NULL);

    frames[0]--;
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
