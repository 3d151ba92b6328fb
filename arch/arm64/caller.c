#include "arch/arch.h"

/* Whether the frame pointer still, or again, belongs to the caller cannot be told without knowing the
 * instructions. */
bool cp__caller_from_handler(const struct cp__registers *regs, uintptr_t hi, struct cp__registers *caller)
{
    (void)regs;
    (void)hi;
    (void)caller;
    return false;
}
