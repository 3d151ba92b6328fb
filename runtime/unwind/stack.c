/*
 * Stacks that are not as somebody has told.
 *
 * The kernel lets the stack of the program's first thread grow, up to a limit that the program may raise
 * after the thread was attached. And a program may run code on a stack of its own that no cp_execute() was
 * told of. The handler reads no memory that may be missing. So it asks the kernel: once, what is mapped
 * below a stack that may have grown, and in each walk, about the pages of an unknown stack, as far as the
 * walk comes.
 */
#include "stack.h"

#include "runtime/base/sys_linux.h"

/* A page takes the kernel about 0.1 us, and a part about 1 us. */
#define MOST_OPEN ((uintptr_t)256 << 10)
#define MOST_GROWTH ((uintptr_t)16 << 20)
#define PART CP__SYS_MOST_MAPPED

static bool can_read_page(uintptr_t page)
{
    return cp__sys_can_read_from_handler(page, 1);
}

static uintptr_t page_of(uintptr_t address)
{
    return address & -CP__SYS_PAGE;
}

/* Moves lo down to the page of sp, if everything in between is mapped. The memory is not read for that:
 * whoever reads below this stack makes it grow. If it is much, the next samples go on: what a thread has used
 * of its stack stays. */
static bool has_grown_to(struct cp__stack *stack, uintptr_t sp)
{
    const uintptr_t lo = page_of(stack->lo), end = page_of(sp);
    const uintptr_t last = lo - end > MOST_GROWTH ? lo - MOST_GROWTH : end;

    if (sp >= stack->lo)
        return false;
    while (stack->lo > last) {
        const uintptr_t rest = page_of(stack->lo) - last, size = rest < PART ? rest : PART;

        if (!cp__sys_is_mapped_from_handler(page_of(stack->lo) - size, size))
            return false;
        stack->lo = page_of(stack->lo) - size;
    }
    return last == end;
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
