/*
 * The program's calls that set handlers. Behind the library's handler of SIGTRAP or SIGPROF is the program's,
 * which the core keeps (runtime/disposition.h): whatever the program installs goes there. If the program
 * wants the default action of a signal that ends it, the handler of deadly.c stands for that. What the
 * program asks for is what it would see without the library.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "atomic.h"
#include "deadly.h"
#include "process.h"
#include "real.h"
#include "runtime/disposition.h"

static bool is_of_core(int number)
{
    return number == SIGTRAP || number == SIGPROF;
}

/* ---- Handlers for one signal ------------------------------------------------------------------ */

/* The program's handlers with SA_RESETHAND, behind one of this library's: the kernel would set the default
 * action, and nobody would notice the next signal. */
static struct once {
    uintptr_t handler; /* 0: it has been called, or there is none. Atomic */
    uint32_t has_info; /* whether it is one with SA_SIGINFO. Atomic */
} once[NSIG];

static struct once look_at_once_from_handler(int number)
{
    struct once found = {.handler = 0};

    if (number > 0 && number < NSIG) {
        found.handler = cp_load_relaxed(&once[number].handler); /* relaxed, both: see take_once() */
        found.has_info = cp_load_relaxed(&once[number].has_info);
    }
    return found;
}

/* A child of vfork() has its parent's memory, and leaves the handler there. */
static void call_once_from_handler(int number, siginfo_t *info, void *ucontext)
{
    const struct sigaction *next = cp__deadly_action();
    struct once known = look_at_once_from_handler(number);

    if (cp__process_has_handlers_from_handler())
        known.handler = cp_exchange_acq_rel(&once[number].handler, 0); /* pairs with itself */
    if (known.handler == 0) {
        next->sa_sigaction(number, info, ucontext);
        return;
    }
    REAL(sigaction)(number, next, NULL);
    if (known.has_info != 0)
        ((void (*)(int, siginfo_t *, void *))known.handler)(number, info, ucontext);
    else
        ((sighandler_t)known.handler)(number);
}

/* Turns a handler for one signal into what stands for it. */
static void take_once(int number, struct sigaction *action)
{
    /* relaxed, both: the kernel calls what the thread has installed after that */
    cp_store_relaxed(&once[number].has_info, (action->sa_flags & SA_SIGINFO) != 0);
    cp_store_relaxed(&once[number].handler, (uintptr_t)action->sa_handler);
    action->sa_flags = (action->sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
    action->sa_sigaction = call_once_from_handler;
}

/* ---- sigaction() ------------------------------------------------------------------------------ */

/* Turns what the program wants into what stands for it. */
static struct sigaction stand_in(int number, const struct sigaction *action)
{
    struct sigaction stands = *action;

    if (action->sa_handler == SIG_DFL && cp__deadly_takes(number))
        stands = *cp__deadly_action();
    else if ((action->sa_flags & (int)SA_RESETHAND) != 0 && action->sa_handler != SIG_IGN &&
             cp__deadly_takes(number) && !is_of_core(number))
        take_once(number, &stands);
    return stands;
}

/* The reverse. known: the handler for one signal that was there. */
static void show_wanted(struct sigaction *action, struct once known)
{
    if (cp__deadly_is(action)) {
        *action = (struct sigaction){.sa_handler = SIG_DFL};
    } else if ((action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == call_once_from_handler) {
        action->sa_handler = (sighandler_t)known.handler;
        action->sa_flags |= (int)SA_RESETHAND;
        action->sa_flags &= known.has_info != 0 ? ~0 : ~SA_SIGINFO;
    }
}

int cp__deadly_exchange(int number, const struct sigaction *action, struct sigaction *old)
{
    const struct once known = look_at_once_from_handler(number);
    struct sigaction stands;
    int result;

    if (action != NULL) /* *old may be the same */
        stands = stand_in(number, action);
    result = is_of_core(number) ? cp__disposition_exchange(number, action != NULL ? &stands : NULL, old)
                                : REAL(sigaction)(number, action != NULL ? &stands : NULL, old);
    if (result == 0 && old != NULL)
        show_wanted(old, known);
    return result;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (!cp__process_has_handlers_from_handler())
        return REAL(sigaction)(number, action, old);
    return cp__deadly_exchange(number, action, old);
}

/* ---- What the C library makes of sigaction() ------------------------------------------------- */

/* Whether siginterrupt() wants calls to be interrupted by a handler that signal() installs later. Atomic */
static uint32_t interrupts[NSIG];

static int restart_flag(int number)
{
    /* relaxed: a flag by itself */
    return number > 0 && number < NSIG && cp_load_relaxed(&interrupts[number]) != 0 ? 0 : SA_RESTART;
}

static sighandler_t set_handler(int number, sighandler_t handler, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;

    if (handler == SIG_ERR) {
        errno = EINVAL;
        return SIG_ERR;
    }
    if ((flags & SA_NODEFER) == 0)
        sigaddset(&action.sa_mask, number);
    return sigaction(number, &action, &old) < 0 ? SIG_ERR : old.sa_handler;
}

sighandler_t signal(int number, sighandler_t handler)
{
    return set_handler(number, handler, restart_flag(number));
}

sighandler_t bsd_signal(int number, sighandler_t handler) __THROW __attribute__((alias("signal")));
sighandler_t ssignal(int number, sighandler_t handler) __THROW __attribute__((alias("signal")));

sighandler_t sysv_signal(int number, sighandler_t handler) __THROW __attribute__((alias("__sysv_signal")));

sighandler_t __sysv_signal(int number, sighandler_t handler)
{
    return set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER));
}

/* Sets the handler and unblocks the signal, or blocks the signal alone. */
sighandler_t sigset(int number, sighandler_t handler)
{
    const bool holds = handler == SIG_HOLD;
    struct sigaction action = {.sa_handler = handler}, old;
    sigset_t one, before;

    sigemptyset(&one);
    if (sigaddset(&one, number) < 0 || sigaction(number, holds ? NULL : &action, &old) < 0 ||
        sigprocmask(holds ? SIG_BLOCK : SIG_UNBLOCK, &one, &before) < 0)
        return SIG_ERR;
    return sigismember(&before, number) == 1 ? SIG_HOLD : old.sa_handler;
}

int sigignore(int number)
{
    struct sigaction action = {.sa_handler = SIG_IGN};

    return sigaction(number, &action, NULL);
}

int siginterrupt(int number, int interrupts_calls)
{
    struct sigaction action;

    if (sigaction(number, NULL, &action) < 0)
        return -1;
    cp_store_relaxed(&interrupts[number], interrupts_calls != 0); /* relaxed: the same */
    action.sa_flags = interrupts_calls != 0 ? action.sa_flags & ~SA_RESTART : action.sa_flags | SA_RESTART;
    return sigaction(number, &action, NULL);
}
