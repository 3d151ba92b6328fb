#include "arch/arch.h"

/* Always returns false: without knowledge of the instructions, nobody can tell whether the frame pointer
 * still belongs to the caller, or belongs to the caller again. */
bool cp__caller_from_handler(const struct cp__registers *regs, uintptr_t hi, struct cp__registers *caller)
{
    (void)regs;
    (void)hi;
    (void)caller;
    return false;
}
