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

/* Turns what the program wants into what stands for it. */
static const struct sigaction *stand_in(int number, const struct sigaction *action)
{
    return action != NULL && action->sa_handler == SIG_DFL && cp__deadly_takes(number) ? cp__deadly_action()
                                                                                       : action;
}

int cp__deadly_exchange(int number, const struct sigaction *action, struct sigaction *old)
{
    const struct sigaction *stands = stand_in(number, action);
    int result = is_of_core(number) ? cp__disposition_exchange(number, stands, old)
                                    : REAL(sigaction)(number, stands, old);

    if (result == 0 && old != NULL && cp__deadly_is(old))
        *old = (struct sigaction){.sa_handler = SIG_DFL};
    return result;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    struct sigaction wanted;

    if (!cp__process_has_handlers_from_handler())
        return REAL(sigaction)(number, action, old);
    if (action != NULL) /* old may be the same */
        wanted = *action;
    return cp__deadly_exchange(number, action != NULL ? &wanted : NULL, old);
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
