/* Stacks that are not as somebody has told: one that has grown, and one that nobody has told of. For the
 * signal handler. */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_STACK_H
#define COUNTERPOINT_RUNTIME_UNWIND_STACK_H

#include "unwind.h"

/* Makes *stack the pages at sp, as far as a walk needs them at first. Returns false if the kernel cannot read
 * the page of sp. */
bool cp__stack_open_from_handler(struct cp__stack *stack, uintptr_t sp);
/* Makes an open stack larger by a page. Returns false if the kernel cannot read the page, or if the stack
 * is as large as a walk may make it. */
bool cp__stack_extend_from_handler(struct cp__stack *stack);

#endif
