/* Tells the sanitizers about switches of stacks. In builds without a sanitizer, all of these calls are
 * empty. */
#ifndef COUNTERPOINT_RUNTIME_SCHED_FIBER_H
#define COUNTERPOINT_RUNTIME_SCHED_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/sanitizer.h"

#if CP__ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

struct cp__fiber {
    void *fake_stack; /* AddressSanitizer's copy of the stack while the fiber is suspended */
    const void *stack_lo;
    size_t stack_size;
};

/* Describes the calling thread as a fiber. Its stack becomes known when a fiber arrives that the thread has
 * started. */
static inline void cp__fiber_init_thread(struct cp__fiber *fiber)
{
    *fiber = (struct cp__fiber){.stack_lo = NULL};
}

static inline void cp__fiber_init(struct cp__fiber *fiber, void *stack_lo, size_t stack_size)
{
    *fiber = (struct cp__fiber){.stack_lo = stack_lo, .stack_size = stack_size};
}

/* Clears the marks that functions left on the stack because they never returned. */
static inline void cp__fiber_fini(struct cp__fiber *fiber)
{
    __asan_unpoison_memory_region(fiber->stack_lo, fiber->stack_size);
}

/* Announces a switch. ends: `from` will not run again. */
static inline __attribute__((always_inline)) void cp__fiber_leave(struct cp__fiber *from,
                                                                  struct cp__fiber *to, bool ends)
{
    __sanitizer_start_switch_fiber(ends ? NULL : &from->fake_stack, to->stack_lo, to->stack_size);
}

/* Reports, on self's stack, that the switch is complete. thread: the fiber that was left, if a thread's; else
 * NULL. */
static inline __attribute__((always_inline)) void cp__fiber_arrive(struct cp__fiber *self,
                                                                   struct cp__fiber *thread)
{
    __sanitizer_finish_switch_fiber(self->fake_stack, thread == NULL ? NULL : &thread->stack_lo,
                                    thread == NULL ? NULL : &thread->stack_size);
}

#elif CP__TSAN
#include <sanitizer/tsan_interface.h>

struct cp__fiber {
    void *fiber;
};

static inline void cp__fiber_init_thread(struct cp__fiber *fiber)
{
    fiber->fiber = __tsan_get_current_fiber();
}

static inline void cp__fiber_init(struct cp__fiber *fiber, void *stack_lo, size_t stack_size)
{
    (void)stack_lo;
    (void)stack_size;
    fiber->fiber = __tsan_create_fiber(0);
}

static inline void cp__fiber_fini(struct cp__fiber *fiber)
{
    __tsan_destroy_fiber(fiber->fiber);
}

static inline __attribute__((always_inline)) void cp__fiber_leave(struct cp__fiber *from,
                                                                  struct cp__fiber *to, bool ends)
{
    (void)from;
    (void)ends;
    __tsan_switch_to_fiber(to->fiber, 0);
}

static inline __attribute__((always_inline)) void cp__fiber_arrive(struct cp__fiber *self,
                                                                   struct cp__fiber *thread)
{
    (void)self;
    (void)thread;
}

#else

struct cp__fiber {
};

#define cp__fiber_init_thread(fiber) ((void)0)
#define cp__fiber_init(fiber, stack_lo, stack_size) ((void)0)
#define cp__fiber_fini(fiber) ((void)0)
#define cp__fiber_leave(from, to, ends) ((void)0)
#define cp__fiber_arrive(self, thread) ((void)0)

#endif
#endif
