#include "arch/arch.h"

/* Without knowledge of the instructions, nobody can tell whether the frame pointer still belongs to the
 * caller, or belongs to the caller again. */
enum cp__caller cp__caller_from_handler(const struct cp__registers *regs, uintptr_t hi,
                                        struct cp__registers *caller)
{
    (void)regs;
    (void)hi;
    (void)caller;
    return CP__CALLER_UNKNOWN;
}

bool cp__may_be_behind_call_from_handler(uintptr_t pc)
{
    (void)pc;
    return true;
}

/* Nobody can tell where such a function begins to leave, so it may be anywhere. */
bool cp__leaves_stack_from_handler(uintptr_t pc)
{
    (void)pc;
    return true;
}

struct cp__switch cp__find_switch(uintptr_t function)
{
    (void)function;
    return (struct cp__switch){.loaded = 0};
}
