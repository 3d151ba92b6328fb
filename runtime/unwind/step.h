/* One step of a walk: from a function to its caller, by rows (rows.h) or by a frame pointer. For the signal
 * handler. */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_STEP_H
#define COUNTERPOINT_RUNTIME_UNWIND_STEP_H

#include "rows.h"
#include "unwind.h"

enum cp__step {
    CP__STEP_TAKEN,  /* the registers are the caller's */
    CP__STEP_ENDS,   /* the function has no caller */
    CP__STEP_LEAVES, /* by its rule, the function's frame ends above the stack */
    CP__STEP_LOST    /* the caller is unknown */
};

/*
 * The registers of callers that a walk does not follow as a rule: those that functions keep for their callers
 * (rbx, r12 to r15; x19 to x28).
 *
 * A few rules compute the CFA from such a register: those of the dynamic linker's code for a first call. If a
 * walk meets one of them in a caller, it begins again, and follows the registers by the rows of where
 * functions save them (cp__rows.kept). Behind code that has no such rows, the registers are unknown.
 */
struct cp__kept {
    uint32_t known; /* a bit for each value */
    uintptr_t values[CP__KEPT_MOST];
    /* In the caller of the interrupted function: all registers at the interruption. A function that calls
     * another one and relies on a register that nobody keeps knows that the other one leaves it alone.
     * NULL elsewhere. */
    const mcontext_t *machine;
};

/* A place that a walk has come to. */
struct cp__walk_place {
    struct cp__registers regs;
    bool is_interrupted;         /* code was interrupted at regs.pc; else regs.pc is a return address */
    bool sp_is_least;            /* regs.sp is not the stack pointer, which is not below it */
    const struct cp__kept *kept; /* more registers of a caller; NULL: they are not followed */
};

/* Goes to the caller by the rule that holds at the place. If the result is another than CP__STEP_TAKEN,
 * the place is unchanged. Reads the stack in [place->regs.sp, stack->hi) only, and for expressions of
 * interrupted code, in the red zone below. */
enum cp__step cp__step_by_rule_from_handler(struct cp__walk_place *place, const struct cp__rule *rule,
                                            const uint8_t *expressions, const struct cp__stack *stack);
/* The kept registers of interrupted code. */
void cp__kept_begin_from_handler(struct cp__kept *kept, const mcontext_t *machine);
/* Goes on to the caller of the function at `from`. `rule` is of kept registers there (NULL: unknown), and
 * the CFA is the caller's stack pointer. */
void cp__kept_step_from_handler(struct cp__kept *kept, const struct cp__walk_place *from,
                                const struct cp__rule *rule, uintptr_t cfa, const struct cp__stack *stack);
/* Forgets everything: the step was told by no row. */
void cp__kept_forget_from_handler(struct cp__kept *kept);
/* Goes to the caller by the frame record that the frame pointer points at. */
enum cp__step cp__step_by_frame_from_handler(struct cp__walk_place *place, const struct cp__stack *stack);

#endif
