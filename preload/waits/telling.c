/* See telling.h. */
#include "telling.h"

#include <pthread.h>
#include <signal.h>

#include "waiters.h"

extern const struct cp__wait_tellers cp__preload_wait_tellers __attribute__((weak));

_Thread_local struct cp__teller cp__teller;
const struct cp__wait_tellers *cp__tellers;

static void end_telling(uint64_t least_ns)
{
    const int saved_errno = errno;

    cp__teller.state = CP__TELLING;
    cp_fence_signal();
    cp__waiter_end();
    cp__tellers->end(least_ns);
    cp_fence_signal();
    cp__teller.state = CP__TELLING_NONE;
    errno = saved_errno;
}

/* A jump may have ended the wait before. */
void cp__telling_end(struct cp__telling *telling)
{
    if (telling->is_told && cp__teller.state == CP__TELLING_WAITING)
        end_telling(telling->least_ns);
}

/* What a handler has interrupted before the wait has begun, or when it was over, is no wait. */
static void forget_telling(void)
{
    cp__waiter_end();
    cp__tellers->forget();
    cp_fence_signal();
    cp__teller.state = CP__TELLING_NONE;
}

void cp__telling_leave(void)
{
    if (cp__teller.state == CP__TELLING_WAITING)
        end_telling(CP__CALL_NS);
    else if (cp__teller.state == CP__TELLING)
        forget_telling();
}

static bool is_on_own_stack_for_signals(void)
{
    stack_t stack;

    return sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) != 0;
}

/* Stacks grow down: the frame of what waits is above that of a handler. */
bool cp__telling_goes_on(uintptr_t at)
{
    if (at < cp__teller.at || is_on_own_stack_for_signals())
        return true;
    forget_telling();
    return false;
}

__attribute__((constructor)) static void begin_to_tell(void)
{
    for (int i = 0; i < CP__NEXT_COUNT; i++)
        cp__next_find((enum cp__next_name)i);
    pthread_atfork(NULL, NULL, cp__waiters_forget);
    cp__tellers = &cp__preload_wait_tellers;
}
