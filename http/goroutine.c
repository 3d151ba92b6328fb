/*
 * Unwinds the stacks of Gs that do not run on a thread.
 *
 * libunwind is linked only here, because it brings a backtrace() of its own.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "goroutine.h"
#include "sched.h"

/* libunwind takes the first address for a return address, unless it comes from a signal's frame. That is
 * right, because a G that does not run goes on after the call that switched away. */
unsigned cp__http_unwind(const struct cp_g_info *g, uintptr_t *frames, unsigned max)
{
    ucontext_t context = *g->context;
    unw_cursor_t cursor;
    unw_word_t address;
    unsigned n = 0;

    if (unw_init_local(&cursor, (unw_context_t *)&context) < 0)
        return 0;
    do {
        if (unw_get_reg(&cursor, UNW_REG_IP, &address) < 0 || address == 0)
            break;
        frames[n++] = address;
    } while (n < max && unw_step(&cursor) > 0);
    return n;
}
