/* Steps from a function to its caller, by rules that the test makes up, and by the cache of rules. */
#include <dwarf.h>
#include <string.h>

#include "arch/arch.h"
#include "runtime/unwind/cache.h"
#include "runtime/unwind/step.h"
#include "tests/support/test.h"

/* ---- Rules that the test makes up ------------------------------------------------------------ */

enum { SP_AT = 20 }; /* the stack pointer points at this word of the stack */

static uintptr_t words[64];
static struct cp__walk_place place;

static enum cp__step step_by(const struct cp__rule *rule, const uint8_t *expressions)
{
    const struct cp__stack stack = {.lo = (uintptr_t)words, .hi = (uintptr_t)(words + 64)};

    for (uintptr_t i = 0; i < 64; i++)
        words[i] = 0x1000 + i;
    place = (struct cp__walk_place){.regs = {.pc = 0x2005, .sp = (uintptr_t)&words[SP_AT], .fp = 0x3000},
                                    .is_interrupted = true};
    return cp__step_by_rule_from_handler(&place, rule, expressions, &stack);
}

static const struct cp__rule usual = {.cfa_from = CP__SP_NUMBER,
                                      .cfa = 32,
                                      .return_how = CP__AT,
                                      .return_value = -8,
                                      .fp_how = CP__AT,
                                      .fp_value = -16};

CP_TEST(a_rule_tells_the_callers_registers)
{
    CHECK_EQ(step_by(&usual, NULL), CP__STEP_TAKEN);
    CHECK_EQ(place.regs.sp, (uintptr_t)&words[SP_AT + 4]);
    CHECK_EQ(place.regs.pc, 0x1000 + SP_AT + 3);
    CHECK_EQ(place.regs.fp, 0x1000 + SP_AT + 2);
    CHECK(!place.is_interrupted);
}

/* What lies below the stack pointer was taken from the stack again. */
CP_TEST(a_register_that_was_restored_has_its_value)
{
    struct cp__rule rule = usual;

    rule.cfa = 8;
    CHECK_EQ(step_by(&rule, NULL), CP__STEP_TAKEN);
    CHECK_EQ(place.regs.pc, 0x1000 + SP_AT);
    CHECK_EQ(place.regs.fp, 0x3000);
}

CP_TEST(a_rule_that_leads_out_of_the_stack_is_not_followed)
{
    struct cp__rule rule = usual;

    for (int32_t cfa = -1000; cfa < 1000; cfa++) {
        rule.cfa = cfa;
        if (cfa > (64 - SP_AT) * 8)
            CHECK_EQ(step_by(&rule, NULL), CP__STEP_LEAVES);
        else if (cfa % 8 != 0 || cfa <= 0)
            CHECK_EQ(step_by(&rule, NULL), CP__STEP_LOST);
        else
            CHECK_EQ(step_by(&rule, NULL), CP__STEP_TAKEN);
    }
    rule = usual;
    rule.cfa_from = CP__RETURN_NUMBER; /* is known of no place here */
    CHECK_EQ(step_by(&rule, NULL), CP__STEP_LOST);
}

/* Notes the rule, and takes the same step by the cache and by the rule. The cache may refuse a step that the
 * rule takes; else both come to the same place. Returns whether the cache has taken the step. */
static bool steps_alike(const struct cp__rule *rule)
{
    static struct cp__unwind_cache cache;
    const struct cp__stack stack = {.lo = (uintptr_t)words, .hi = (uintptr_t)(words + 64)};
    uintptr_t frames[2];
    struct cp__chain chain = {.frames = frames, .max = 1};
    struct cp__walk_place cached;
    enum cp__step step;

    memset(&cache, 0, sizeof cache);
    step_by(rule, NULL);
    place = (struct cp__walk_place){.regs = {.pc = 0x2005, .sp = (uintptr_t)&words[SP_AT], .fp = 0x3000}};
    cached = place;
    cp__cache_note_from_handler(&cache, 0x2005, rule);
    step = cp__step_by_rule_from_handler(&place, rule, NULL, &stack);
    if (!cp__cache_walk_from_handler(&cache, &cached, &stack, &chain))
        return false;
    CHECK_EQ(chain.n, 0); /* the cache does not know where it has come to */
    CHECK_EQ(chain.top, (uintptr_t)&words[SP_AT]);
    CHECK_EQ(step, CP__STEP_TAKEN);
    CHECK_EQ(cached.regs.pc, place.regs.pc);
    CHECK_EQ(cached.regs.sp, place.regs.sp);
    CHECK_EQ(cached.regs.fp, place.regs.fp);
    CHECK(!cached.is_interrupted && !cached.sp_is_least);
    return true;
}

CP_TEST(the_cache_goes_where_the_rule_goes)
{
    static const int32_t places[] = {-800, -160, -16, -12, -8, 0, 8, 160, 800};
    const size_t n = sizeof places / sizeof places[0];
    struct cp__rule rule = usual;
    int taken = 0;

    CHECK(steps_alike(&usual));
    for (rule.cfa = -1000; rule.cfa < 1000; rule.cfa += 4) {
        for (size_t i = 0; i < n * n; i++) {
            rule.return_value = places[i / n];
            rule.fp_value = places[i % n];
            taken += steps_alike(&rule);
        }
    }
    CHECK(taken > 0);
    rule = usual;
    rule.fp_how = CP__SAME;
    CHECK(steps_alike(&rule));
    rule.cfa_from = CP__FP_NUMBER; /* the frame pointer is in no stack */
    CHECK(!steps_alike(&rule));
    rule = usual;
    rule.flags = CP__RULE_SIGNAL;
    CHECK(!steps_alike(&rule));
}

/* Walks from 0x2005 by the cache over frames of two words, whose return addresses are 0x2005. The last one is
 * `last`. */
static unsigned walk_frames_to(uintptr_t last, unsigned max, uintptr_t lo, uintptr_t hi, bool *is_ahead)
{
    static struct cp__unwind_cache cache;
    struct cp__rule rule = usual;
    const struct cp__stack stack = {.lo = lo, .hi = hi};
    uintptr_t frames[64];
    struct cp__chain chain = {.frames = frames, .max = max};
    struct cp__walk_place from = {.regs = {.pc = 0x2005, .sp = (uintptr_t)words}};

    rule.cfa = 16;
    cp__cache_note_from_handler(&cache, 0x2005, &rule);
    for (int i = 0; i < 64; i++)
        words[i] = 0x2005;
    words[63] = last;
    *is_ahead = cp__cache_walk_from_handler(&cache, &from, &stack, &chain);
    for (unsigned i = 0; i < chain.n; i++)
        CHECK_EQ(frames[i], 0x2005);
    return chain.n;
}

static unsigned walk_frames(unsigned max, uintptr_t lo, uintptr_t hi, bool *is_ahead)
{
    return walk_frames_to(0x2005, max, lo, hi, is_ahead);
}

CP_TEST(the_cache_walks_as_far_as_stack_and_room_go)
{
    const uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + 64);
    bool is_ahead;

    CHECK_EQ(walk_frames(64, lo, hi, &is_ahead), 32);
    CHECK(!is_ahead);
    CHECK_EQ(walk_frames(64, lo, hi - 8, &is_ahead), 31);
    CHECK(!is_ahead);
    CHECK_EQ(walk_frames(5, lo, hi, &is_ahead), 5);
    CHECK(is_ahead); /* there are more frames */
    CHECK_EQ(walk_frames(64, 0x1000, hi, &is_ahead), 0);
    CHECK(is_ahead); /* an address of the stack is for the caller to judge */
    CHECK_EQ(walk_frames_to(0, 64, lo, hi, &is_ahead), 31);
    CHECK(is_ahead); /* 0 is no address of code, and empty entries have it */
    CHECK_EQ(walk_frames_to(0x2006, 64, lo, hi, &is_ahead), 31);
    CHECK(is_ahead);
    CHECK_EQ(walk_frames(64, lo, lo, &is_ahead), 0);
    CHECK(!is_ahead);
}

CP_TEST(the_cache_knows_where_chains_end)
{
    static struct cp__unwind_cache cache;
    const struct cp__stack stack = {.lo = (uintptr_t)words, .hi = (uintptr_t)(words + 64)};
    struct cp__rule rule = usual;
    uintptr_t frames[4];
    struct cp__chain chain = {.frames = frames, .max = 4};
    struct cp__walk_place from = {.regs = {.pc = 0x2005, .sp = (uintptr_t)words}};

    rule.cfa = 16;
    words[1] = 0x2006;
    cp__cache_note_from_handler(&cache, 0x2005, &rule);
    CHECK(cp__cache_walk_from_handler(&cache, &from, &stack, &chain));
    CHECK(!chain.ends);
    from = (struct cp__walk_place){.regs = {.pc = 0x2005, .sp = (uintptr_t)words}};
    cp__cache_note_end_from_handler(&cache, 0x2006);
    CHECK(!cp__cache_walk_from_handler(&cache, &from, &stack, &chain));
    CHECK(chain.ends);
    CHECK_EQ(chain.n, 1);
    CHECK_EQ(frames[0], 0x2006);
    CHECK_EQ(from.regs.sp, (uintptr_t)(words + 2));
}

/* Addresses of the same place: the two last ones are there. */
CP_TEST(the_cache_has_two_addresses_of_one_place)
{
    static struct cp__unwind_cache cache;
    static const uintptr_t pcs[] = {0x10000, 0x20000, 0x30000};

    for (int i = 0; i < 3; i++) {
        cp__cache_note_from_handler(&cache, pcs[i], &usual);
        cp__cache_note_from_handler(&cache, pcs[i], &usual);
    }
    CHECK(!cp__cache_has(&cache, pcs[0]));
    CHECK(cp__cache_has(&cache, pcs[1]) && cp__cache_has(&cache, pcs[2]));
}

CP_TEST(an_empty_cache_has_no_address)
{
    static struct cp__unwind_cache cache;

    for (uintptr_t pc = 0; pc < 1000; pc++)
        CHECK(!cp__cache_has(&cache, pc));
}

CP_TEST(another_table_of_code_empties_the_cache)
{
    static struct cp__unwind_cache cache;

    cp__cache_begin_from_handler(&cache, 1);
    cp__cache_note_from_handler(&cache, 0x2005, &usual);
    cp__cache_begin_from_handler(&cache, 1);
    CHECK(cp__cache_has(&cache, 0x2005));
    cp__cache_begin_from_handler(&cache, 2);
    CHECK(!cp__cache_has(&cache, 0x2005));
}

CP_TEST(a_function_without_return_address_is_the_first)
{
    struct cp__rule rule = usual;

    rule.return_how = CP__UNDEFINED;
    CHECK_EQ(step_by(&rule, NULL), CP__STEP_ENDS);
    rule.return_how = CP__UNKNOWN;
    CHECK_EQ(step_by(&rule, NULL), CP__STEP_LOST);
}

CP_TEST(the_caller_of_a_signals_return_was_interrupted)
{
    struct cp__rule rule = usual;

    rule.flags = CP__RULE_SIGNAL;
    CHECK_EQ(step_by(&rule, NULL), CP__STEP_TAKEN);
    CHECK(place.is_interrupted);
}

/* The CFA is the stack pointer plus 24, plus 8 more if the stack pointer's low bits are not 15: no stub of a
 * linker's, but its operations. */
CP_TEST(an_expression_is_computed)
{
    static const uint8_t bytes[] = {11,        DW_OP_breg0 + CP__SP_NUMBER,
                                    24,        DW_OP_breg0 + CP__SP_NUMBER,
                                    0,         DW_OP_lit15,
                                    DW_OP_and, DW_OP_lit15,
                                    DW_OP_ne,  DW_OP_lit3,
                                    DW_OP_shl, DW_OP_plus};
    struct cp__rule rule = usual;

    rule.cfa_from = CP__CFA_EXPRESSION;
    rule.cfa = 0;
    CHECK_EQ(step_by(&rule, bytes), CP__STEP_TAKEN);
    CHECK_EQ(place.regs.sp, (uintptr_t)&words[SP_AT + 4]);
}

CP_TEST(an_expression_subtracts_the_later_value)
{
    static const uint8_t bytes[] = {4, DW_OP_breg0 + CP__SP_NUMBER, 40, DW_OP_lit8, DW_OP_minus};
    struct cp__rule rule = usual;

    rule.cfa_from = CP__CFA_EXPRESSION;
    rule.cfa = 0;
    CHECK_EQ(step_by(&rule, bytes), CP__STEP_TAKEN);
    CHECK_EQ(place.regs.sp, (uintptr_t)&words[SP_AT + 4]);
}

CP_TEST(an_expression_may_read_the_red_zone)
{
    static const uint8_t bytes[] = {5,           DW_OP_breg0 + CP__SP_NUMBER, 0x78 /* -8 */,
                                    DW_OP_deref, DW_OP_plus_uconst,           8};
    const struct cp__stack stack = {.lo = (uintptr_t)words, .hi = (uintptr_t)(words + 64)};
    struct cp__rule rule = usual;

    rule.cfa_from = CP__CFA_EXPRESSION;
    rule.cfa = 0;
    step_by(&usual, NULL);
    place = (struct cp__walk_place){.regs = {.sp = (uintptr_t)&words[SP_AT]}, .is_interrupted = true};
    words[SP_AT - 1] = (uintptr_t)&words[SP_AT + 9];
    if (CP__RED_ZONE > 0) {
        CHECK_EQ(cp__step_by_rule_from_handler(&place, &rule, bytes, &stack), CP__STEP_TAKEN);
        CHECK_EQ(place.regs.sp, (uintptr_t)&words[SP_AT + 10]);
    }
    place = (struct cp__walk_place){.regs = {.sp = (uintptr_t)&words[SP_AT]}}; /* it made a call */
    CHECK_EQ(cp__step_by_rule_from_handler(&place, &rule, bytes, &stack), CP__STEP_LOST);
    place = (struct cp__walk_place){.regs = {.sp = (uintptr_t)words}, .is_interrupted = true};
    CHECK_EQ(cp__step_by_rule_from_handler(&place, &rule, bytes, &stack), CP__STEP_LOST);
}
