/* Green threads of a test's own, by the C library's contexts. */
#ifndef COUNTERPOINT_TESTS_GREEN_H
#define COUNTERPOINT_TESTS_GREEN_H

#include <sys/mman.h>
#include <ucontext.h>

#include "runtime.h"
#include "test.h"

#define STACK_SIZE ((size_t)256 << 10)

static inline char *map_stack(void)
{
    void *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(stack != MAP_FAILED);
    return stack;
}

/* A green thread with a stack of its own. */
struct green {
    struct cp_g g;
    char *stack;
    ucontext_t context;
    ucontext_t back;
};

/* Makes one that runs a function and switches back. With a parent, it is a G. */
static inline void make_green(struct green *green, const struct cp_g *parent, void (*enter)(void))
{
    green->stack = map_stack();
    if (parent != NULL)
        cp_g_init(&green->g, green->stack, green->stack + STACK_SIZE, parent);
    getcontext(&green->context);
    green->context.uc_stack.ss_sp = green->stack;
    green->context.uc_stack.ss_size = STACK_SIZE;
    green->context.uc_link = &green->back;
    makecontext(&green->context, enter, 0);
}

#endif
