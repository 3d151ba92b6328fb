#include "signal_linux.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "atomic.h"
#include "runtime/base/fail.h"
#include "runtime/base/os.h"
#include "runtime/engine.h"

static struct sigaction previous; /* under the runtime lock; immutable while our handler is installed */
static void (*installed)(int, siginfo_t *, void *);
static char kick_cookies[CP__ENGINE_KICKS]; /* their addresses mark kicks */

int cp__signal_install(void (*handler)(int, siginfo_t *, void *), struct cp_error *err)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

    /* Every bit is set, so that the C library's own signals are blocked too. sigfillset() leaves those
     * out, and one of them ends a thread that another thread cancels. */
    memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
    installed = handler; /* before sigaction(): a child of a fork must know our handler, if it finds that
                          * handler in place */
    if (sigaction(SIGPROF, NULL, &previous) < 0 || sigaction(SIGPROF, &action, NULL) < 0)
        return cp__error(err, -errno, "sigaction refused a handler for SIGPROF: %s.", strerror(errno));
    return 0;
}

bool cp__signal_is_ours(void)
{
    struct sigaction current;

    return sigaction(SIGPROF, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
           current.sa_sigaction == installed;
}

/* If another handler has replaced the library's, that handler stays, and may still call the library's. */
void cp__signal_restore(void)
{
    if (cp__signal_is_ours())
        sigaction(SIGPROF, &previous, NULL);
}

/* Returns a signal set as the kernel knows it: the first 64 bits of the C library's. */
static uint64_t kernel_set(const sigset_t *set)
{
    uint64_t bits;

    memcpy(&bits, set, sizeof bits);
    return bits;
}

static const uint64_t sigprof_mask = (uint64_t)1 << (SIGPROF - 1);

/* Blocks the signals that the kernel would have blocked if it had called the host's handler itself. */
static void take_mask_from_handler(int signal, const void *ucontext)
{
    uint64_t bits = kernel_set(&((const ucontext_t *)ucontext)->uc_sigmask) | kernel_set(&previous.sa_mask);

    if ((previous.sa_flags & SA_NODEFER) == 0)
        bits |= (uint64_t)1 << (signal - 1);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &bits, NULL, sizeof bits);
}

/*
 * Another handler may have replaced the library's, and stayed when the library gave SIGPROF back. The next
 * start finds that handler as the previous one, and that handler hands signals on to the library's. Such a
 * second call has the same siginfo as the first call and a deeper frame. A flag alone would not do: if the
 * host's handler leaves by siglongjmp(), the first call never ends.
 */
void cp__signal_chain_from_handler(int signal, siginfo_t *info, void *ucontext)
{
    static _Thread_local struct {
        const siginfo_t *info; /* the signal that is being handed on; NULL: none */
        uintptr_t frame;
    } begun __attribute__((tls_model("initial-exec")));
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

    if (begun.info == info && frame < begun.frame)
        return;
    begun.info = info;
    begun.frame = frame;
    cp_fence_signal();
    take_mask_from_handler(signal, ucontext);
    if ((previous.sa_flags & SA_SIGINFO) != 0) {
        if (previous.sa_sigaction != installed)
            previous.sa_sigaction(signal, info, ucontext);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    }
    cp_fence_signal();
    begun.info = NULL;
}

/* The kernel does not let a thread queue a signal that looks like one of the kernel or of kill(). Such a
 * signal is sent anew by kill(). */
void cp__signal_give_back_from_handler(siginfo_t *info, void *ucontext)
{
    sigset_t *mask = &((ucontext_t *)ucontext)->uc_sigmask;
    uint64_t bits = kernel_set(mask) | sigprof_mask;

    memcpy(mask, &bits, sizeof bits);
    if (info->si_code >= 0 || syscall(SYS_rt_sigqueueinfo, getpid(), SIGPROF, info) < 0)
        syscall(SYS_kill, getpid(), SIGPROF);
}

bool cp__signal_take_pending_from_handler(siginfo_t *info)
{
    const struct timespec now = {0, 0};

    return syscall(SYS_rt_sigtimedwait, &sigprof_mask, info, &now, sizeof sigprof_mask) == SIGPROF;
}

void cp__signal_requeue_from_handler(siginfo_t *info)
{
    syscall(SYS_rt_tgsigqueueinfo, getpid(), cp__os_tid(), SIGPROF, info);
}

int cp__signal_kick(pid_t tid, uint32_t number)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = &kick_cookies[number];
    return syscall(SYS_rt_tgsigqueueinfo, info.si_pid, tid, SIGPROF, &info) < 0 ? -errno : 0;
}

bool cp__signal_is_kick_from_handler(const siginfo_t *info, uint32_t *number)
{
    uintptr_t cookie = (uintptr_t)info->si_value.sival_ptr - (uintptr_t)kick_cookies;

    *number = (uint32_t)cookie;
    return info->si_code == SI_QUEUE && cookie < CP__ENGINE_KICKS;
}
