#include "arch/arch.h"

/* Without knowledge of the instructions, nobody can tell whether the frame pointer still belongs to the
 * caller, or belongs to the caller again. */
enum cp__caller cp__caller_from_handler(const struct cp__registers *regs, uintptr_t hi, cp__text_fn *text_at,
                                        struct cp__registers *caller)
{
    (void)regs;
    (void)hi;
    (void)text_at;
    (void)caller;
    return CP__CALLER_UNKNOWN;
}

bool cp__may_be_behind_call_from_handler(uintptr_t pc, cp__text_fn *text_at)
{
    (void)pc;
    (void)text_at;
    return true;
}

/* Nobody can tell where such a function begins to leave, so it may be anywhere. */
bool cp__leaves_stack_from_handler(uintptr_t pc, cp__text_fn *text_at)
{
    (void)pc;
    (void)text_at;
    return true;
}

struct cp__switch cp__find_switch(uintptr_t function, cp__text_fn *text_at)
{
    (void)function;
    (void)text_at;
    return (struct cp__switch){.loaded = 0};
}
