/* See waits.h. */
#include "waits.h"

#include "heap.h"
#include "runtime/g_account.h"

/* The linker's: the bounds of what it loads. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

/* Not from a handler that interrupts this: the library of waits sees to it. */
static void tell_end(uint64_t least_ns)
{
    cp__heap_is_own = true;
    cp_fence_signal();
    cp__wait_end_if(least_ns);
    cp_fence_signal();
    cp__heap_is_own = false;
}

const struct cp__wait_tellers cp__preload_wait_tellers = {
    .accounting = &cp_accounting,
    .begin = cp_wait_begin_accounted,
    .end = tell_end,
    .code = (uintptr_t)__ehdr_start,
    .code_end = (uintptr_t)etext,
};

void cp__waits_prepare_thread(void)
{
    cp_wait_begin_accounted(CP_WAIT_OTHER, NULL);
    cp__wait_end_if(UINT64_MAX);
}
