/* One step of a walk: from a function to its caller, by rows (rows.h) or by a frame pointer. For the signal
 * handler. */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_STEP_H
#define COUNTERPOINT_RUNTIME_UNWIND_STEP_H

#include "rows.h"
#include "unwind.h"

enum cp__step {
    CP__STEP_TAKEN, /* the registers are the caller's */
    CP__STEP_ENDS,  /* the function has no caller */
    CP__STEP_LOST   /* the caller is unknown */
};

/* A place that a walk has come to. */
struct cp__walk_place {
    struct cp__registers regs;
    bool is_interrupted; /* code was interrupted at regs.pc; else regs.pc is a return address */
    bool sp_is_least;    /* regs.sp is not the stack pointer, which is not below it */
};

/* Goes to the caller by the rule that holds at the place. If the result is CP__STEP_LOST, the place is
 * unchanged. Reads the stack in [place->regs.sp, stack->hi) only, and for expressions of interrupted code, in
 * the red zone below. */
enum cp__step cp__step_by_rule_from_handler(struct cp__walk_place *place, const struct cp__rule *rule,
                                            const uint8_t *expressions, const struct cp__stack *stack);
/* Goes to the caller by the frame record that the frame pointer points at. */
enum cp__step cp__step_by_frame_from_handler(struct cp__walk_place *place, const struct cp__stack *stack);

#endif
