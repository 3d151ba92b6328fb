#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "runtime/base/fail.h"
#include "runtime/base/sys_linux.h"

cp__set_thread_pmu_profiler_fn *cp__set_thread_pmu_profiler;
cp__sigprof_pmu_handler_fn *cp__sigprof_pmu_handler;

/* ---- Threads and clocks ---------------------------------------------------------------------- */

pid_t cp__os_tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

int cp__os_barrier(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
        return 0;
    /* Not registered yet in this process (EPERM); or not known. */
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) < 0)
        return -errno;
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) < 0 ? -errno : 0;
}

/* As pthread_getcpuclockid() makes them, from a thread id: see CPUCLOCK_PERTHREAD_MASK in the kernel's
 * posix-timers.h. */
clockid_t cp__os_thread_clock(pid_t tid)
{
    return (clockid_t)(~(unsigned)tid << 3 | 6);
}

uint64_t cp__os_clock_ns_from_handler(clockid_t clock)
{
    struct timespec ts = {0, 0};

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

bool cp__os_thread_is_runnable(pid_t tid)
{
    char path[48];
    char text[256];
    const char *end;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    fd = cp__sys_open_from_handler(path);
    if (fd < 0)
        return fd != -ENOENT;
    n = cp__sys_read_from_handler(fd, text, sizeof text - 1);
    cp__sys_close_from_handler(fd);
    text[n < 0 ? 0 : n] = '\0';
    end = strrchr(text, ')'); /* the name before it may hold anything */
    return end == NULL || strncmp(end, ") R", 3) == 0;
}

uint64_t cp__os_thread_switches(void)
{
    struct rusage usage = {.ru_nvcsw = 0};

    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

void cp__os_futex_wait(uint32_t *word, uint32_t value, int timeout_ms)
{
    struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L};

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &timeout, NULL, 0);
}

void cp__os_futex_wake_from_handler(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- Alternate signal stacks ----------------------------------------------------------------- */

/* The handler's own frames take under 8 KiB, the kernel's up to 4 KiB (AVX-512) and as much again for another
 * signal on top; a stack that the thread already has is good enough from ALTSTACK_ENOUGH on. */
#define ALTSTACK_ENOUGH ((size_t)32 << 10)
#define ALTSTACK_SIZE ((size_t)64 << 10)
/* The size of the guard below the alternate stack, a multiple of every page size. */
#define ALTSTACK_GUARD ((size_t)64 << 10)
/* How much of the alternate stack a signal takes: the kernel alone pushes up to 11 KiB (AMX). */
#define ALTSTACK_FIRST ((size_t)16 << 10)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* At the end of a stack of ours: what the thread had before. */
static stack_t *before_of(char *lo)
{
    return (stack_t *)(void *)(lo + ALTSTACK_SIZE) - 1;
}

int cp__os_altstack_make(void **mapped, struct cp_error *err)
{
    stack_t old;
    stack_t stack = {.ss_size = ALTSTACK_SIZE - sizeof old};
    char *memory;

    *mapped = NULL;
    if (sigaltstack(NULL, &old) == 0 && (old.ss_flags & SS_DISABLE) == 0 && old.ss_size >= ALTSTACK_ENOUGH)
        return 0;
    memory = mmap(NULL, ALTSTACK_GUARD + ALTSTACK_SIZE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return cp__error(err, -ENOMEM, "There is no memory for an alternate signal stack (%zu bytes).",
                         ALTSTACK_SIZE);
    mprotect(memory, ALTSTACK_GUARD, PROT_NONE);
    stack.ss_sp = memory + ALTSTACK_GUARD;
    *before_of(memory + ALTSTACK_GUARD) = old;
    if (sigaltstack(&stack, NULL) < 0) {
        int result = -errno;

        munmap(memory, ALTSTACK_GUARD + ALTSTACK_SIZE);
        return cp__error(
            err, result,
            "sigaltstack refused an alternate signal stack: %s. Attach the thread while it runs on none.",
            strerror(-result));
    }
    *mapped = memory;
    return 0;
}

/* Pages that are larger than the first part are populated whole. Kernels before 5.14 refuse both. */
void cp__os_altstack_populate_from_handler(void *mapped)
{
    char *lo;

    if (mapped == NULL)
        return;
    lo = (char *)mapped + ALTSTACK_GUARD;
    if (syscall(SYS_madvise, lo + ALTSTACK_SIZE - ALTSTACK_FIRST, ALTSTACK_FIRST, MADV_POPULATE_WRITE) < 0)
        syscall(SYS_madvise, lo, ALTSTACK_SIZE, MADV_POPULATE_WRITE);
}

void cp__os_altstack_free(void *mapped)
{
    stack_t current;

    if (mapped == NULL)
        return;
    if (sigaltstack(NULL, &current) == 0 && current.ss_sp == (char *)mapped + ALTSTACK_GUARD)
        sigaltstack(before_of(current.ss_sp), NULL);
    munmap(mapped, ALTSTACK_GUARD + ALTSTACK_SIZE);
}

/* ---- The M's own timer ----------------------------------------------------------------------- */

/* System calls of our own: glibc's timer_create() may allocate. */
static int timer_create_from_handler(int *timer, uint64_t value)
{
    struct sigevent event;

    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGPROF;
    event.sigev_value.sival_ptr = (void *)(uintptr_t)value;
    event._sigev_un._tid = cp__os_tid();
    return syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, timer) < 0 ? -errno : 0;
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

int cp__os_timer_start_from_handler(int *timer, uint64_t value, uint64_t first_ns, uint64_t period_ns)
{
    struct itimerspec when = {.it_value = to_timespec(first_ns), .it_interval = to_timespec(period_ns)};
    int result = timer_create_from_handler(timer, value);

    if (result == 0 && syscall(SYS_timer_settime, *timer, 0, &when, NULL) < 0) {
        result = -errno;
        syscall(SYS_timer_delete, *timer);
    }
    if (result < 0)
        *timer = -1;
    return result;
}

void cp__os_timer_stop_from_handler(int timer)
{
    syscall(SYS_timer_delete, timer);
}

int cp__os_timer_probe(struct cp_error *err)
{
    int timer;
    int result = timer_create_from_handler(&timer, 0);

    if (result < 0)
        return cp__error_because(
            err, result, "no POSIX timer left",
            "The event timer cannot run: timer_create says %s. Where that is EAGAIN, the user "
            "has used up the "
            "limit of pending signals: raise it with ulimit -i, or use taskClock.",
            strerror(-result));
    syscall(SYS_timer_delete, timer);
    return 0;
}

/* ---- SIGPROF --------------------------------------------------------------------------------- */

static struct sigaction previous; /* under the runtime lock; immutable while ours is installed */
static void (*installed)(int, siginfo_t *, void *);
static char kick_cookies[CP__OS_KICKS]; /* their addresses mark kicks */

int cp__os_signal_install(void (*handler)(int, siginfo_t *, void *), struct cp_error *err)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

    /* Every bit, so that the C library's own signals are blocked too. sigfillset() leaves those out, and one
     * of them ends a thread that another thread cancels. */
    memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
    installed = handler; /* first: a child of a fork must know our handler, if it finds that in place */
    if (sigaction(SIGPROF, NULL, &previous) < 0 || sigaction(SIGPROF, &action, NULL) < 0)
        return cp__error(err, -errno, "sigaction refused a handler for SIGPROF: %s.", strerror(errno));
    return 0;
}

bool cp__os_signal_is_ours(void)
{
    struct sigaction current;

    return sigaction(SIGPROF, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
           current.sa_sigaction == installed;
}

/* Where somebody has put a handler over ours it stays, and ours may still be called by it. */
void cp__os_signal_restore(void)
{
    if (cp__os_signal_is_ours())
        sigaction(SIGPROF, &previous, NULL);
}

/* A signal set as the kernel knows it: the first 64 bits of the C library's. */
static uint64_t kernel_set(const sigset_t *set)
{
    uint64_t bits;

    memcpy(&bits, set, sizeof bits);
    return bits;
}

/* Blocks what the kernel would have blocked if it had called the host's handler itself. */
static void take_mask_from_handler(int signal, const void *ucontext)
{
    uint64_t bits = kernel_set(&((const ucontext_t *)ucontext)->uc_sigmask) | kernel_set(&previous.sa_mask);

    if ((previous.sa_flags & SA_NODEFER) == 0)
        bits |= (uint64_t)1 << (signal - 1);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &bits, NULL, sizeof bits);
}

/*
 * A handler that was put over ours, and stayed when ours went, is the one before ours at the next start, and
 * hands the signal on to ours in its turn. Such a second call has the same siginfo and a deeper frame. That a
 * first call was begun is not enough to tell: a handler that leaves by siglongjmp() never comes back here.
 */
void cp__os_signal_chain_from_handler(int signal, siginfo_t *info, void *ucontext)
{
    static _Thread_local struct {
        const siginfo_t *info; /* what is being handed on; NULL: nothing */
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

static const uint64_t sigprof_mask = (uint64_t)1 << (SIGPROF - 1);

uint64_t cp__os_block_from_handler(void)
{
    uint64_t old = 0;

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &sigprof_mask, &old, sizeof old);
    cp_fence_signal();
    return old;
}

void cp__os_unblock_from_handler(uint64_t old)
{
    cp_fence_signal();
    if ((old & sigprof_mask) == 0)
        syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &sigprof_mask, NULL, sizeof old);
}

uint64_t cp__os_block_all_from_handler(void)
{
    const uint64_t all = UINT64_MAX;
    uint64_t old = 0;

    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof old);
    cp_fence_signal();
    return old;
}

void cp__os_unblock_all_from_handler(uint64_t old)
{
    cp_fence_signal();
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
}

bool cp__os_take_pending_from_handler(siginfo_t *info)
{
    const struct timespec now = {0, 0};

    return syscall(SYS_rt_sigtimedwait, &sigprof_mask, info, &now, sizeof sigprof_mask) == SIGPROF;
}

void cp__os_requeue_from_handler(siginfo_t *info)
{
    syscall(SYS_rt_tgsigqueueinfo, getpid(), cp__os_tid(), SIGPROF, info);
}

int cp__os_kick(pid_t tid, uint32_t number)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = &kick_cookies[number];
    return syscall(SYS_rt_tgsigqueueinfo, info.si_pid, tid, SIGPROF, &info) < 0 ? -errno : 0;
}

bool cp__os_is_kick_from_handler(const siginfo_t *info, uint32_t *number)
{
    uintptr_t cookie = (uintptr_t)info->si_value.sival_ptr - (uintptr_t)kick_cookies;

    *number = (uint32_t)cookie;
    return info->si_code == SI_QUEUE && cookie < CP__OS_KICKS;
}
