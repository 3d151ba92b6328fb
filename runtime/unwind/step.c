#include "step.h"

#include <dwarf.h> /* the names of DWARF's codes; no library is needed */
#include <string.h>

#include "runtime/base/sys_linux.h"

/* The stack holds frames of other functions, and a sanitizer may have fenced parts of these frames. */
#define READS_STACKS __attribute__((no_sanitize("address", "thread", "undefined")))

#define WORD sizeof(uintptr_t)

/* Reads a word of the stack. Returns false if the word is not completely in [lo, stack->hi). */
READS_STACKS static bool load_from(uintptr_t lo, const struct cp__stack *stack, uintptr_t address,
                                   uintptr_t *value)
{
    if (address < lo || address % WORD != 0 || address >= stack->hi || stack->hi - address < WORD)
        return false;
    *value = *(const uintptr_t *)address;
    return true;
}

static bool load_word(const struct cp__walk_place *place, const struct cp__stack *stack, uintptr_t address,
                      uintptr_t *value)
{
    return load_from(place->regs.sp, stack, address, value);
}

/* Reads a word for an expression. Interrupted code may have stored the word a little below the stack pointer,
 * as OpenSSL's SHA-256 does with its CFA. */
static bool load_for_expression(const struct cp__walk_place *place, const struct cp__stack *stack,
                                uintptr_t address, uintptr_t *value)
{
    uintptr_t lo = place->regs.sp;

    if (place->is_interrupted)
        lo = lo - stack->lo > CP__RED_ZONE ? lo - CP__RED_ZONE : stack->lo;
    return load_from(lo, stack, address, value);
}

static bool find_kept(const struct cp__kept *kept, uint64_t number, uintptr_t *value)
{
    unsigned i = cp__kept_index_from_handler(number);

    if (i == CP__KEPT_MOST)
        return kept->machine != NULL && number < 256 &&
               cp__register_from_handler(kept->machine, (unsigned)number, value);
    *value = kept->values[i];
    return (kept->known >> i & 1) != 0;
}

/* Finds the value that a register has at the place. */
static bool value_of(const struct cp__walk_place *place, uint64_t number, uintptr_t *value)
{
    if (number == CP__SP_NUMBER) {
        *value = place->regs.sp;
        return !place->sp_is_least;
    }
    if (number == CP__FP_NUMBER) {
        *value = place->regs.fp;
        return true;
    }
    if (place->regs.machine == NULL)
        return place->kept != NULL && find_kept(place->kept, number, value);
    return number < 256 && cp__register_from_handler(place->regs.machine, (unsigned)number, value);
}

/* ---- Expressions ----------------------------------------------------------------------------- */

#define MAX_VALUES 8

/* An expression of DWARF while it is computed. */
struct expression {
    const uint8_t *at;
    const uint8_t *end;
    const struct cp__walk_place *place;
    const struct cp__stack *stack;
    unsigned n;
    uintptr_t values[MAX_VALUES];
};

static bool push_value(struct expression *expression, uintptr_t value)
{
    if (expression->n == MAX_VALUES)
        return false;
    expression->values[expression->n++] = value;
    return true;
}

/* Reads a number of `size` bytes. */
static bool push_constant(struct expression *expression, size_t size, bool is_signed)
{
    uint64_t value = 0;
    unsigned unused = 64 - 8 * (unsigned)size;

    if ((size_t)(expression->end - expression->at) < size)
        return false;
    memcpy(&value, expression->at, size);
    expression->at += size;
    value <<= unused;
    return push_value(expression, is_signed ? (uintptr_t)((int64_t)value >> unused) : value >> unused);
}

static bool read_number(struct expression *expression, bool is_signed, uint64_t *value)
{
    unsigned shift = 0, byte;

    *value = 0;
    do {
        if (expression->at == expression->end || shift >= 64)
            return false;
        byte = *expression->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) != 0);
    if (is_signed && (byte & 0x40) != 0 && shift < 64)
        *value |= ~(uint64_t)0 << shift;
    return true;
}

static bool push_register(struct expression *expression, uint64_t number)
{
    uint64_t offset;
    uintptr_t value;

    return read_number(expression, true, &offset) && value_of(expression->place, number, &value) &&
           push_value(expression, value + offset);
}

/* Replaces the topmost two values by what an operation makes of them. */
static bool combine(struct expression *expression, unsigned operation)
{
    uintptr_t right, *left;

    if (expression->n < 2)
        return false;
    right = expression->values[--expression->n];
    left = &expression->values[expression->n - 1];
    switch (operation) {
    case DW_OP_and:
        *left &= right;
        return true;
    case DW_OP_minus:
        *left -= right;
        return true;
    case DW_OP_mul:
        *left *= right;
        return true;
    case DW_OP_or:
        *left |= right;
        return true;
    case DW_OP_plus:
        *left += right;
        return true;
    case DW_OP_shl:
        *left = right < 64 ? *left << right : 0;
        return true;
    case DW_OP_shr:
        *left = right < 64 ? *left >> right : 0;
        return true;
    case DW_OP_eq:
        *left = *left == right;
        return true;
    case DW_OP_ge:
        *left = (intptr_t)*left >= (intptr_t)right;
        return true;
    case DW_OP_gt:
        *left = (intptr_t)*left > (intptr_t)right;
        return true;
    case DW_OP_le:
        *left = (intptr_t)*left <= (intptr_t)right;
        return true;
    case DW_OP_lt:
        *left = (intptr_t)*left < (intptr_t)right;
        return true;
    case DW_OP_ne:
        *left = *left != right;
        return true;
    default:
        return false;
    }
}

/* Runs one operation. */
static bool run_operation(struct expression *expression, unsigned operation)
{
    uintptr_t *top = expression->n > 0 ? &expression->values[expression->n - 1] : NULL;
    uint64_t number;

    switch (operation) {
    case DW_OP_deref:
        return top != NULL && load_for_expression(expression->place, expression->stack, *top, top);
    case DW_OP_const1u ... DW_OP_const8s: /* of 1, 2, 4 and 8 bytes; the odd ones are signed */
        return push_constant(expression, (size_t)1 << ((operation - DW_OP_const1u) / 2), operation % 2 == 1);
    case DW_OP_constu:
    case DW_OP_consts:
        return read_number(expression, operation == DW_OP_consts, &number) && push_value(expression, number);
    case DW_OP_dup:
        return top != NULL && push_value(expression, *top);
    case DW_OP_plus_uconst:
        if (top == NULL || !read_number(expression, false, &number))
            return false;
        *top += number;
        return true;
    case DW_OP_lit0 ... DW_OP_lit31:
        return push_value(expression, operation - DW_OP_lit0);
    case DW_OP_breg0 ... DW_OP_breg31:
        return push_register(expression, operation - DW_OP_breg0);
    default:
        return combine(expression, operation);
    }
}

/* Computes the expression whose length is in its first byte. A first value may be given. */
static bool compute_expression(const struct cp__walk_place *place, const struct cp__stack *stack,
                               const uint8_t *bytes, const uintptr_t *first, uintptr_t *value)
{
    struct expression expression = {
        .at = bytes + 1, .end = bytes + 1 + bytes[0], .place = place, .stack = stack, .n = 0};

    if (first != NULL)
        push_value(&expression, *first);
    while (expression.at < expression.end) {
        if (!run_operation(&expression, *expression.at++))
            return false;
    }
    if (expression.n == 0)
        return false;
    *value = expression.values[expression.n - 1];
    return true;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

/* The parts of a rule's application that do not change. */
struct application {
    const struct cp__walk_place *place;
    const struct cp__rule *rule;
    const struct cp__stack *stack;
    const uint8_t *expressions;
    uintptr_t cfa;
};

static bool find_cfa(struct application *application)
{
    const struct cp__walk_place *place = application->place;
    const struct cp__rule *rule = application->rule;

    if (rule->cfa_from == CP__CFA_EXPRESSION) {
        if (!compute_expression(place, application->stack, application->expressions + rule->cfa, NULL,
                                &application->cfa))
            return false;
    } else {
        if (!value_of(place, rule->cfa_from, &application->cfa))
            return false;
        application->cfa += (uintptr_t)(intptr_t)rule->cfa;
    }
    return true;
}

/* Returns whether interrupted code has restored the register already that it is said to have saved at
 * address: the address lies outside the function's own frame. Rules say so of what was popped; and gcc's
 * functions that align their stack find the place by the frame pointer, which is the caller's behind
 * `leave`. */
static bool is_restored(const struct application *application, unsigned how, uintptr_t address)
{
    return address < application->place->regs.sp ||
           (how == CP__AT_ADDRESS && application->place->is_interrupted &&
            (application->rule->flags & CP__RULE_SIGNAL) == 0 && address >= application->cfa);
}

/* Finds what a register of the caller is, of which `own` is the present value. */
static bool find_value(const struct application *application, unsigned how, int32_t value, uintptr_t own,
                       uintptr_t *found)
{
    uintptr_t address = application->cfa + (uintptr_t)(intptr_t)value;

    switch (how) {
    case CP__SAME:
        *found = own;
        return true;
    case CP__AT_ADDRESS:
        if (!compute_expression(application->place, application->stack, application->expressions + value,
                                &application->cfa, &address))
            return false;
        break;
    case CP__IN:
        return value_of(application->place, (uint64_t)value, found);
    case CP__AT:
        break;
    default:
        return false;
    }
    if (is_restored(application, how, address)) {
        *found = own;
        return own != 0;
    }
    return load_word(application->place, application->stack, address, found);
}

enum cp__step cp__step_by_rule_from_handler(struct cp__walk_place *place, const struct cp__rule *rule,
                                            const uint8_t *expressions, const struct cp__stack *stack)
{
    struct application application = {
        .place = place, .rule = rule, .stack = stack, .expressions = expressions};
    uintptr_t pc, fp;

    if (rule->return_how == CP__UNDEFINED)
        return CP__STEP_ENDS;
    if (!find_cfa(&application) || application.cfa < place->regs.sp)
        return CP__STEP_LOST;
    if (application.cfa > stack->hi)
        return CP__STEP_LEAVES;
    if (!find_value(&application, rule->return_how, rule->return_value, place->regs.lr, &pc))
        return CP__STEP_LOST;
    /* Only a function that has stored nothing may have the caller's stack pointer. */
    if (application.cfa == place->regs.sp && rule->return_how != CP__SAME)
        return CP__STEP_LOST;
    if (!find_value(&application, rule->fp_how, rule->fp_value, place->regs.fp, &fp))
        fp = 0; /* rows may know the callers without it */
    *place = (struct cp__walk_place){
        .regs = {.pc = cp__code_address_from_handler(pc), .sp = application.cfa, .fp = fp},
        .is_interrupted = (rule->flags & CP__RULE_SIGNAL) != 0};
    return CP__STEP_TAKEN;
}

/* ---- Kept registers -------------------------------------------------------------------------- */

void cp__kept_begin_from_handler(struct cp__kept *kept, const mcontext_t *machine)
{
    kept->known = 0;
    kept->machine = machine;
    for (unsigned i = 0; machine != NULL && i < CP__KEPT_MOST; i++) {
        if (cp__register_from_handler(machine, cp__kept_number(i), &kept->values[i]))
            kept->known |= 1u << i;
    }
}

void cp__kept_forget_from_handler(struct cp__kept *kept)
{
    kept->known = 0;
    kept->machine = NULL;
}

/* Goes on by the place that a row tells for one register. Returns whether the value is known. */
static bool keep_one(const struct cp__walk_place *from, int8_t place, uintptr_t cfa,
                     const struct cp__stack *stack, bool is_known, uintptr_t *value)
{
    uintptr_t address = cfa + (uintptr_t)(place * (intptr_t)WORD);

    if (place == CP__KEPT_SAME || (from->is_interrupted && address < from->regs.sp))
        return is_known; /* the register was not saved, or is restored already */
    return place != CP__KEPT_UNKNOWN && load_word(from, stack, address, value);
}

void cp__kept_step_from_handler(struct cp__kept *kept, const struct cp__walk_place *from,
                                const struct cp__rule *rule, uintptr_t cfa, const struct cp__stack *stack)
{
    bool is_told = rule != NULL && rule->cfa_from != CP__CFA_UNKNOWN;
    uint32_t known = 0;

    for (unsigned i = 0; i < CP__KEPT_MOST && is_told; i++) {
        if (keep_one(from, rule->kept[i], cfa, stack, (kept->known >> i & 1) != 0, &kept->values[i]))
            known |= 1u << i;
    }
    kept->known = known;
    if (!from->is_interrupted)
        kept->machine = NULL;
}

/* ---- Frame pointers -------------------------------------------------------------------------- */

/* Reads the record at an address. Nothing proves that there is one, so on a stack that nobody told of, the
 * memory may be anybody's, and be unmapped meanwhile: the kernel copies it. */
READS_STACKS static bool load_record(const struct cp__walk_place *place, const struct cp__stack *stack,
                                     uintptr_t address, uintptr_t record[2])
{
    if (address < place->regs.sp || address % WORD != 0 || address >= stack->hi ||
        stack->hi - address < 2 * WORD)
        return false;
    if (stack->is_open)
        return cp__sys_copy_from_handler(record, address, 2 * WORD);
    record[0] = ((const uintptr_t *)address)[0];
    record[1] = ((const uintptr_t *)address)[1];
    return true;
}

enum cp__step cp__step_by_frame_from_handler(struct cp__walk_place *place, const struct cp__stack *stack)
{
    const uintptr_t address = place->regs.fp;
    uintptr_t record[2];

    if (!load_record(place, stack, address, record))
        return CP__STEP_LOST;
    *place = (struct cp__walk_place){.regs = {.pc = cp__code_address_from_handler(record[1]),
                                              .sp = address + sizeof record,
                                              .fp = record[0]},
                                     .sp_is_least = !CP__RECORD_ENDS_FRAME};
    return CP__STEP_TAKEN;
}
