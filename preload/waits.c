/* See waits.h. */
#include "waits.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "heap.h"
#include "runtime/g_account.h"
#include "runtime/wait/hooks.h"

/* The linker's: the bounds of what it loads. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

/* Blocks the program's signals: a handler could jump out of the core, which has locks and memory in its
 * hands, or end the process, whose profile needs those. What an instruction raises ends a process that has it
 * blocked, and the core's own two are never the program's. */
static void hold_signals(sigset_t *before)
{
    static const int open[] = {SIGTRAP, SIGPROF, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};
    sigset_t held;

    sigfillset(&held);
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        sigdelset(&held, open[i]);
    pthread_sigmask(SIG_BLOCK, &held, before);
}

/* A handler that interrupts this does not call it: the library of waits sees to it. Most calls have waited
 * for too short a time to be told of, and need no system call for that. */
static void tell_end(uint64_t least_ns)
{
    sigset_t before;

    if (!cp__wait_stops(least_ns))
        return;
    hold_signals(&before);
    cp__heap_is_own = true;
    cp_fence_signal();
    cp__wait_tell();
    cp_fence_signal();
    cp__heap_is_own = false;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool has_m(void)
{
    return cp__m_current != NULL;
}

static uint64_t tell_now(void)
{
    return cp__account_now();
}

static __attribute__((noinline)) void tell_made_wait(enum cp_wait_reason reason, const void *object,
                                                     const uint64_t *lasted, unsigned n)
{
    const struct cp__registers caller = {.pc = (uintptr_t)__builtin_return_address(0),
                                         .sp = (uintptr_t)__builtin_dwarf_cfa(),
                                         .fp = *(const uintptr_t *)__builtin_frame_address(0)};
    const int saved_errno = errno;
    sigset_t before;

    hold_signals(&before);
    cp__heap_is_own = true;
    cp_fence_signal();
    for (unsigned i = 0; i < n; i++)
        cp__wait_made(reason, object, lasted[i], &caller);
    cp_fence_signal();
    cp__heap_is_own = false;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
}

const struct cp__wait_tellers cp__preload_wait_tellers = {
    .accounting = &cp_accounting,
    .begin = cp_wait_begin_accounted,
    .end = tell_end,
    .forget = cp__wait_abandon,
    .is_known = has_m,
    .now = tell_now,
    .lock_events = &cp__wait_running.events[CP__WAIT_EVENT_LOCK],
    .made_wait = tell_made_wait,
    .code = (uintptr_t)__ehdr_start,
    .code_end = (uintptr_t)etext,
};

void cp__waits_prepare_thread(void)
{
    cp_wait_begin_accounted(CP_WAIT_OTHER, NULL);
    cp__wait_end_if(UINT64_MAX);
}
