#include "signals.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "atomic.h"
#include "fail.h"
#include "os.h"

/* A signal that the library has a handler for. */
struct owned {
    int signal;
    uint32_t was_installed; /* 1: and not given back since; atomic, written under the runtime lock */
    uint32_t installs;      /* atomic, written under the runtime lock */
    /* What was there before the last two installs, the last one at its number modulo 2. Written under the
     * runtime lock. A handler may still read the older one if a thread replaces the library's handler, and
     * another thread installs it again. */
    struct sigaction previous[2];
};

static struct owned owned[] = {{.signal = SIGPROF}, {.signal = SIGTRAP}};
#define OWNED (sizeof owned / sizeof owned[0])

static void (*ours)(int, siginfo_t *, void *); /* immutable from the first use on */

static unsigned index_of_from_handler(int signal)
{
    return signal == SIGTRAP;
}

/* ---- Whose handler is in place --------------------------------------------------------------- */

void cp__signals_use(void (*handler)(int, siginfo_t *, void *))
{
    ours = handler;
}

static const struct sigaction *previous_of_from_handler(const struct owned *own)
{
    return &own->previous[cp_load_acquire(&own->installs) % 2]; /* pairs with the release in
                                                                 * cp__signal_install() */
}

static int refused(int signal, struct cp_error *err)
{
    return cp__error(err, -errno, "sigaction refused a handler for %s: %s.",
                     signal == SIGTRAP ? "SIGTRAP" : "SIGPROF", strerror(errno));
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == ours;
}

/* Another profiler may have put back the library's handler, which it had found. What was there before that
 * one is still the program's. */
int cp__signal_install(int signal, struct cp_error *err)
{
    struct sigaction action = {.sa_sigaction = ours, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    struct owned *own = &owned[index_of_from_handler(signal)];
    uint32_t installs = cp_load_relaxed(&own->installs) + 1; /* relaxed: written under the same lock */

    /* Every bit is set, so that the C library's own signals are blocked too. sigfillset() leaves those
     * out, and one of them ends a thread that another thread cancels. */
    memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
    if (sigaction(signal, NULL, &own->previous[installs % 2]) < 0)
        return refused(signal, err);
    if (!is_ours(&own->previous[installs % 2]))
        cp_store_release(&own->installs, installs); /* pairs with the acquire in previous_of_from_handler() */
    if (sigaction(signal, &action, NULL) < 0)
        return refused(signal, err);
    /* relaxed: no signal of ours can come before the first event is armed, which is published later */
    cp_store_relaxed(&own->was_installed, 1u);
    return 0;
}

bool cp__signal_was_installed_from_handler(int signal)
{
    return cp_load_relaxed(&owned[index_of_from_handler(signal)].was_installed) != 0; /* relaxed: see above */
}

bool cp__signal_is_ours(int signal)
{
    struct sigaction current;

    return sigaction(signal, NULL, &current) == 0 && is_ours(&current);
}

bool cp__signal_is_of_program(int signal)
{
    struct sigaction current;

    return sigaction(signal, NULL, &current) == 0 && !is_ours(&current) && current.sa_handler != SIG_DFL &&
           current.sa_handler != SIG_IGN;
}

/* If another handler has replaced the library's, that handler stays, and may still call the library's. */
void cp__signal_restore(int signal)
{
    struct owned *own = &owned[index_of_from_handler(signal)];

    if (!cp__signal_is_ours(signal))
        return;
    sigaction(signal, previous_of_from_handler(own), NULL);
    cp_store_relaxed(&own->was_installed, 0u); /* relaxed: no signal of ours can come any more */
}

bool cp__signal_mend(int signal)
{
    return cp__signal_was_installed_from_handler(signal) && !cp__signal_is_ours(signal) &&
           !cp__signal_is_of_program(signal) && cp__signal_install(signal, NULL) == 0;
}

int cp__signal_exchange(int signal, const struct sigaction *action, struct sigaction *old)
{
    struct owned *own = &owned[index_of_from_handler(signal)];
    const struct sigaction before = *previous_of_from_handler(own);
    uint32_t installs = cp_load_relaxed(&own->installs) + 1; /* relaxed: written under the same lock */

    if (!cp__signal_is_ours(signal))
        return sigaction(signal, action, old);
    if (action != NULL) {
        own->previous[installs % 2] = *action;
        cp_store_release(&own->installs, installs); /* pairs with the acquire in previous_of_from_handler() */
    }
    if (old != NULL)
        *old = before;
    return 0;
}

/* ---- Handing on ------------------------------------------------------------------------------ */

/* Returns a signal set as the kernel knows it: the first 64 bits of the C library's. */
static uint64_t kernel_set(const sigset_t *set)
{
    uint64_t bits;

    memcpy(&bits, set, sizeof bits);
    return bits;
}

static uint64_t mask_of(int signal)
{
    return (uint64_t)1 << (signal - 1);
}

/* Blocks the signals that the kernel would have blocked if it had called the host's handler itself. */
static void take_mask_from_handler(int signal, const struct sigaction *previous, const void *ucontext)
{
    uint64_t bits = kernel_set(&((const ucontext_t *)ucontext)->uc_sigmask) | kernel_set(&previous->sa_mask);

    if ((previous->sa_flags & SA_NODEFER) == 0)
        bits |= mask_of(signal);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &bits, NULL, sizeof bits);
}

/* The kernel does not let a program ignore what an instruction of its own has raised. */
bool cp__signal_is_deadly_from_handler(const siginfo_t *info)
{
    const struct sigaction *previous =
        previous_of_from_handler(&owned[index_of_from_handler(info->si_signo)]);

    if (info->si_signo != SIGTRAP)
        return false; /* SIGPROF may be one that the library has raised, and that came late */
    return previous->sa_handler == SIG_DFL ||
           (previous->sa_handler == SIG_IGN && info->si_code > 0 && info->si_code != CP__TRAP_PERF);
}

void cp__signal_take_default_from_handler(int signal)
{
    /* Larger than the kernel's struct sigaction. Its zeroes stand for SIG_DFL, no flags and an empty mask. */
    static const uint64_t defaults[8];

    syscall(SYS_rt_sigaction, signal, defaults, NULL, sizeof(uint64_t));
    syscall(SYS_tgkill, getpid(), cp__os_tid(), signal);
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
    } begun[OWNED] __attribute__((tls_model("initial-exec")));
    unsigned i = index_of_from_handler(signal);
    const struct sigaction *previous = previous_of_from_handler(&owned[i]);
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

    if (begun[i].info == info && frame < begun[i].frame)
        return;
    begun[i].info = info;
    begun[i].frame = frame;
    cp_fence_signal();
    take_mask_from_handler(signal, previous, ucontext);
    if (previous->sa_handler == SIG_DFL || previous->sa_handler == SIG_IGN) {
        if (cp__signal_is_deadly_from_handler(info))
            cp__signal_take_default_from_handler(signal);
    } else if ((previous->sa_flags & SA_SIGINFO) == 0) {
        previous->sa_handler(signal);
    } else if (previous->sa_sigaction != ours) {
        previous->sa_sigaction(signal, info, ucontext);
    }
    cp_fence_signal();
    begun[i].info = NULL;
}

/* The kernel does not let a thread queue a signal that looks like one of the kernel or of kill(). Such a
 * signal is sent anew by kill(). */
void cp__signal_give_back_from_handler(siginfo_t *info, void *ucontext, bool is_for_thread)
{
    sigset_t *mask = &((ucontext_t *)ucontext)->uc_sigmask;
    uint64_t bits = kernel_set(mask) | mask_of(info->si_signo);

    memcpy(mask, &bits, sizeof bits);
    if (is_for_thread)
        cp__signal_requeue_from_handler(info);
    else if (info->si_code >= 0 || syscall(SYS_rt_sigqueueinfo, getpid(), info->si_signo, info) < 0)
        syscall(SYS_kill, getpid(), info->si_signo);
}

/* ---- What is pending ------------------------------------------------------------------------- */

static bool is_pending_from_handler(int signal)
{
    uint64_t pending = 0;

    return syscall(SYS_rt_sigpending, &pending, sizeof pending) == 0 && (pending & mask_of(signal)) != 0;
}

static const char marker; /* its address marks what send_marker_from_handler() sends */

/* Sends the calling thread, which has the signal blocked, a signal that is known again. The kernel drops it
 * if such a signal is pending for this thread already. With this si_code the signal keeps its value even if
 * the user has used up the limit of pending signals. */
static void send_marker_from_handler(int signal)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_code = SI_KERNEL;
    info.si_value.sival_ptr = (void *)(uintptr_t)&marker;
    syscall(SYS_rt_tgsigqueueinfo, getpid(), cp__os_tid(), signal, &info);
}

/*
 * The kernel keeps two queues: of this thread's own signals, and of the process's. It takes from the first
 * one first, and does not tell from which one it took. What is pending for the process is the program's, and
 * may be what another of its threads waits for. So a signal is sent along, into this thread's queue: if it
 * comes back, no other one was in that queue.
 */
bool cp__signal_take_pending_from_handler(int signal, siginfo_t *info)
{
    const struct timespec now = {0, 0};
    const uint64_t mask = mask_of(signal);

    if (!is_pending_from_handler(signal))
        return false;
    send_marker_from_handler(signal);
    return syscall(SYS_rt_sigtimedwait, &mask, info, &now, sizeof mask) == signal &&
           (info->si_code != SI_KERNEL || info->si_value.sival_ptr != &marker);
}

void cp__signal_requeue_from_handler(siginfo_t *info)
{
    syscall(SYS_rt_tgsigqueueinfo, getpid(), cp__os_tid(), info->si_signo, info);
}

/* ---- Signals of events ------------------------------------------------------------------------ */

bool cp__signal_is_poll_from_handler(const siginfo_t *info)
{
    return info->si_signo == SIGPROF && info->si_code >= POLL_IN && info->si_code <= POLL_HUP;
}

/* The C library's siginfo_t does not name the member that follows the address. */
bool cp__signal_is_trap_from_handler(const siginfo_t *info, uint64_t *data)
{
    const size_t at = offsetof(siginfo_t, si_addr) + sizeof info->si_addr;
    unsigned long value;

    if (info->si_signo != SIGTRAP || info->si_code != CP__TRAP_PERF)
        return false;
    memcpy(&value, (const char *)info + at, sizeof value);
    *data = value;
    return true;
}

bool cp__signal_is_tick_from_handler(const siginfo_t *info, uint64_t *data)
{
    *data = (uintptr_t)info->si_value.sival_ptr;
    return info->si_code == SI_TIMER;
}
