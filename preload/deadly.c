/* See deadly.h. The handler has the profile written, and lets the signal do what it would have done. */
#include "deadly.h"

#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "process.h"
#include "runtime/base/signals.h"

/* Those whose default action ends the process, less SIGKILL, which nobody can catch, SIGPROF, which may be
 * the core's and come late, and the real-time signals, which all end the process. */
static const int numbers[] = {SIGHUP,    SIGINT,  SIGQUIT, SIGILL,    SIGTRAP, SIGABRT, SIGBUS,
                              SIGFPE,    SIGUSR1, SIGSEGV, SIGUSR2,   SIGPIPE, SIGALRM, SIGTERM,
                              SIGSTKFLT, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGIO,   SIGPWR,  SIGSYS};
#define N_NUMBERS (sizeof numbers / sizeof numbers[0])

/* How long a thread that got a signal from elsewhere waits. It may hold what the scribe needs: then it goes
 * on for a moment, and the scribe ends the process. */
#define A_MOMENT_MS 3000

/* The first process of a container, for which the kernel ignores such signals, has no handler of ours. */
bool cp__deadly_takes(int number)
{
    bool takes = number >= SIGRTMIN && number <= SIGRTMAX;

    for (size_t i = 0; i < N_NUMBERS; i++)
        takes |= numbers[i] == number;
    return takes && getpid() != 1;
}

/* The signal is blocked until the handler returns, and a core file then shows the place that it interrupted.
 * An instruction that has raised a signal cannot go on. Of several signals the first one ends the process,
 * even if the program has it blocked here, as another thread did not. */
static void on_deadly_from_handler(int number, siginfo_t *info, void *ucontext)
{
    const bool is_raised_here = info->si_code > 0 && info->si_code != SI_KERNEL;
    const int first = cp__scribe_first_signal_from_handler(number);

    if (!cp__scribe_finish_from_handler(is_raised_here ? CP__SCRIBE_WAIT_MS : A_MOMENT_MS) && !is_raised_here)
        return;
    sigdelset(&((ucontext_t *)ucontext)->uc_sigmask, first);
    cp__signal_take_default_from_handler(first);
}

const struct sigaction *cp__deadly_action(void)
{
    static struct sigaction action; /* each call stores the same */

    action.sa_sigaction = on_deadly_from_handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
    return &action;
}

bool cp__deadly_is(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == on_deadly_from_handler;
}

void cp__deadly_install(void)
{
    struct sigaction found;

    for (int number = 1; number < NSIG; number++) {
        if (cp__deadly_takes(number) && cp__deadly_exchange(number, NULL, &found) == 0 &&
            (found.sa_flags & SA_SIGINFO) == 0 && found.sa_handler == SIG_DFL)
            cp__deadly_exchange(number, &found, NULL);
    }
}
