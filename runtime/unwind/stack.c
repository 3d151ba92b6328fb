/*
 * Stacks that are not as somebody has told.
 *
 * The kernel lets the stack of the program's first thread grow, up to a limit that the program may raise
 * after the thread was attached. And a program may run code on a stack of its own that no cp_execute() was
 * told of. The handler reads no memory that may be missing. So it asks the kernel about each page that it
 * has not been told of: about the pages that a stack has grown by once, and about the pages of an unknown
 * stack in each walk, as far as the walk comes.
 */
#include "stack.h"

#include "runtime/base/sys_linux.h"

/* A page takes the kernel about 0.1 us. */
#define MOST_GROWTH ((uintptr_t)16 << 20)
#define MOST_OPEN ((uintptr_t)256 << 10)

static bool can_read_page(uintptr_t page)
{
    return cp__sys_can_read_from_handler(page, 1);
}

static uintptr_t page_of(uintptr_t address)
{
    return address & -CP__SYS_PAGE;
}

/* Moves lo down to the page of sp, if all pages in between can be read. If they are too many, the next
 * samples go on: what a thread has used of its stack stays. */
static bool has_grown_to(struct cp__stack *stack, uintptr_t sp)
{
    uintptr_t lo = page_of(stack->lo);
    const uintptr_t end = page_of(sp);
    const uintptr_t last = lo - end > MOST_GROWTH ? lo - MOST_GROWTH : end;

    if (sp >= stack->lo)
        return false;
    while (lo > last && can_read_page(lo - CP__SYS_PAGE))
        lo -= CP__SYS_PAGE;
    if (lo == last)
        stack->lo = lo;
    return lo == end;
}

struct cp__stack *cp__stack_find_from_handler(struct cp__stack *stacks, uintptr_t sp)
{
    struct cp__stack *stack = stacks;

    while (stack != NULL && !cp__stack_holds(stack, sp))
        stack = stack->next;
    if (stack != NULL)
        return stack;
    for (stack = stacks; stack != NULL; stack = stack->next)
        if (stack->may_grow && has_grown_to(stack, sp))
            break;
    return stack;
}

/* The first two pages have what the code ahead needs (arch/arch.h). */
bool cp__stack_open_from_handler(struct cp__stack *stack, uintptr_t sp)
{
    if (!can_read_page(sp))
        return false;
    *stack = (struct cp__stack){.lo = page_of(sp), .hi = page_of(sp) + CP__SYS_PAGE, .is_open = true};
    cp__stack_extend_from_handler(stack);
    return true;
}

bool cp__stack_extend_from_handler(struct cp__stack *stack)
{
    if (!stack->is_open || stack->hi - stack->lo >= MOST_OPEN || !can_read_page(stack->hi))
        return false;
    stack->hi += CP__SYS_PAGE;
    return true;
}
