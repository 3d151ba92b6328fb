#include "os.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomic.h"
#include "clock.h"
#include "sanitizer.h"
#include "sys_linux.h"

/* ---- Threads and clocks ---------------------------------------------------------------------- */

pid_t cp__os_tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

bool cp__os_has_thread(pid_t tid)
{
    return syscall(SYS_tgkill, getpid(), tid, 0) == 0 || errno != ESRCH;
}

int cp__os_barrier(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
        return 0;
    /* The process is not registered yet (EPERM), or the kernel does not know the call. */
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) < 0)
        return -errno;
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) < 0 ? -errno : 0;
}

bool cp__os_has_barrier;

void cp__os_barrier_prepare(void)
{
    cp__os_has_barrier = cp__os_barrier() == 0;
}

bool cp__os_heavy_barrier(void)
{
    cp_fence_seq_cst(); /* pairs with the one in cp__os_light_barrier_from_handler() */
    return !cp__os_has_barrier || cp__os_barrier() == 0;
}

/* Computes the clock's number from the thread id, as pthread_getcpuclockid() does: see
 * CPUCLOCK_PERTHREAD_MASK in the kernel's posix-timers.h. */
clockid_t cp__os_thread_clock(pid_t tid)
{
    return (clockid_t)(~(unsigned)tid << 3 | 6);
}

uint64_t cp__os_clock_ns_from_handler(clockid_t clock)
{
    return (uint64_t)cp__clock_ns(clock);
}

static int open_of_thread(pid_t tid, const char *file)
{
    char path[48];

    snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)tid, file);
    return cp__sys_open_from_handler(path);
}

/* Reads the beginning of a thread's file. Returns 0, or a negative errno value with an empty text. */
static int read_of_thread(pid_t tid, const char *file, char *text, size_t size)
{
    int fd = open_of_thread(tid, file);
    ssize_t n;

    text[0] = '\0';
    if (fd < 0)
        return fd;
    n = cp__sys_read_from_handler(fd, text, size - 1);
    cp__sys_close_from_handler(fd);
    text[n < 0 ? 0 : n] = '\0';
    return n < 0 ? (int)n : 0;
}

/* What a thread's status has. */
struct status {
    uint64_t pending, blocked; /* signals, a bit each */
    bool runs, is_traced;
    unsigned lines; /* how many of the lines that tell this were found */
};
#define STATUS_LINES 4

static void take_line(struct status *status, const char *line)
{
    if (strncmp(line, "SigPnd:", 7) == 0)
        status->pending = strtoull(line + 7, NULL, 16);
    else if (strncmp(line, "SigBlk:", 7) == 0)
        status->blocked = strtoull(line + 7, NULL, 16);
    else if (strncmp(line, "State:\t", 7) == 0)
        status->runs = line[7] == 'R';
    else if (strncmp(line, "TracerPid:\t", 11) == 0)
        status->is_traced = line[11] != '0';
    else
        return;
    status->lines++;
}

/* Reads a thread's status. A user may be in thousands of groups, which are named before the signals: of each
 * line, only the beginning is kept. Returns false if the system does not tell. */
static bool read_status(pid_t tid, struct status *status)
{
    int fd = open_of_thread(tid, "status");
    char text[4096], line[32];
    size_t length = 0;
    long n;

    *status = (struct status){.lines = 0};
    while (fd >= 0 && status->lines < STATUS_LINES &&
           (n = cp__sys_read_from_handler(fd, text, sizeof text)) > 0) {
        for (long i = 0; i < n; i++) {
            if (text[i] != '\n' && length < sizeof line - 1)
                line[length++] = text[i];
            if (text[i] != '\n')
                continue;
            line[length] = '\0';
            take_line(status, line);
            length = 0;
        }
    }
    if (fd >= 0)
        cp__sys_close_from_handler(fd);
    return status->lines == STATUS_LINES;
}

/* A missing entry does not say that the thread is gone: there may be no /proc. */
struct cp__os_pending cp__os_thread_pending(pid_t tid, int signal)
{
    const uint64_t bit = (uint64_t)1 << (signal - 1);
    struct status status;
    bool is_there;

    if (!read_status(tid, &status)) {
        is_there = cp__os_has_thread(tid);
        return (struct cp__os_pending){.is_pending = is_there, .is_blocked = is_there};
    }
    return (struct cp__os_pending){.is_pending = (status.pending & bit) != 0,
                                   .is_blocked = (status.blocked & bit) != 0,
                                   .runs = status.runs,
                                   .is_traced = status.is_traced};
}

uint64_t cp__os_tick_ns(void)
{
    struct timespec tick;

    return clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0 ? (uint64_t)tick.tv_nsec : 0;
}

uint64_t cp__os_switches(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) < 0)
        return 0;
    return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

/* schedstat has the CPU time, the time spent in waiting for a CPU, and how often the thread got one. */
bool cp__os_switches_of(pid_t tid, uint64_t *switches, uint64_t *cpu_ns)
{
    char text[64], *end;

    if (read_of_thread(tid, "schedstat", text, sizeof text) < 0 || strchr(text, '\n') == NULL)
        return false;
    *cpu_ns = strtoull(text, &end, 10);
    strtoull(end, &end, 10);
    *switches = strtoull(end, NULL, 10);
    return true;
}

uint64_t cp__os_blocked_of(pid_t tid)
{
    struct status status;

    return read_status(tid, &status) ? status.blocked : 0;
}

/* An entry of a directory, as getdents64(2) writes it. */
struct entry {
    uint64_t ino;
    int64_t off;
    uint16_t size;
    uint8_t type;
    char name[];
};

void cp__os_each_thread(void (*fn)(void *context, pid_t tid), void *context)
{
    uint64_t buffer[256];
    int fd = cp__sys_open_from_handler("/proc/self/task");
    long n;

    while (fd >= 0 && (n = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        const struct entry *entry;

        for (long at = 0; at < n; at += entry->size) {
            entry = (const struct entry *)(const void *)((const char *)buffer + at);
            if (entry->name[0] != '.')
                fn(context, (pid_t)strtol(entry->name, NULL, 10));
        }
    }
    if (fd >= 0)
        cp__sys_close_from_handler(fd);
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

/* ---- Signals --------------------------------------------------------------------------------- */

#define BIT(signal) ((uint64_t)1 << ((signal)-1))

static const uint64_t sigtrap_mask = BIT(SIGTRAP);
static const uint64_t raised_by_instructions =
    BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGFPE) | BIT(SIGSYS) | BIT(SIGTRAP);
static uint64_t own_mask = BIT(SIGPROF); /* shared, atomic */

/* A thread that blocks its signals at this very moment may leave SIGTRAP unblocked. No trap of the library's
 * can come to that thread yet. */
void cp__os_use_traps(void)
{
    cp_store_relaxed(&own_mask, own_mask | sigtrap_mask); /* relaxed: a number of its own */
}

bool cp__os_has_own_signal(uint64_t signals)
{
    return (signals & cp_load_relaxed(&own_mask)) != 0; /* relaxed: see cp__os_use_traps() */
}

static uint64_t block_from_handler(uint64_t mask)
{
    uint64_t old = 0;

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, &old, sizeof old);
    cp__let_deferred_come_from_handler();
    cp_fence_signal();
    return old;
}

uint64_t cp__os_block_from_handler(void)
{
    /* relaxed: see cp__os_use_traps() */
    return block_from_handler(~raised_by_instructions | cp_load_relaxed(&own_mask));
}

uint64_t cp__os_block_all_from_handler(void)
{
    return block_from_handler(UINT64_MAX);
}

void cp__os_unblock_from_handler(uint64_t old)
{
    cp_fence_signal();
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
}

uint64_t cp__os_hold_samples(void)
{
    return block_from_handler(cp_load_relaxed(&own_mask)); /* relaxed: see cp__os_use_traps() */
}

void cp__os_open_samples(uint64_t old)
{
    const uint64_t opened = cp_load_relaxed(&own_mask) & ~old; /* relaxed: see cp__os_use_traps() */

    cp_fence_signal();
    if (opened != 0)
        syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &opened, NULL, sizeof opened);
}

uint64_t cp__os_blocked_with_traps(void)
{
    uint64_t blocked = 0;

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, sizeof blocked);
    return (blocked & sigtrap_mask) != 0 ? blocked : 0;
}

/* Some programs that block all signals leave out those that instructions raise, or profilers use. The signals
 * of real time do not matter, and SIGKILL and SIGSTOP cannot be blocked. */
bool cp__os_would_block_traps_from_handler(uint64_t before, uint64_t now)
{
    const uint64_t all =
        (BIT(32) - 1) & ~(raised_by_instructions | BIT(SIGPROF) | BIT(SIGKILL) | BIT(SIGSTOP));

    if ((before & all) != all)
        return before != 0;
    return (before & ~sigtrap_mask & now) != 0;
}

uint64_t cp__os_mask_of_program(uint64_t before, uint64_t now)
{
    return cp__os_would_block_traps_from_handler(before, now) ? now | sigtrap_mask : now;
}

static uint32_t has_opened_traps; /* atomic */

bool cp__os_has_opened_traps_from_handler(void)
{
    return cp_load_relaxed(&has_opened_traps) != 0; /* relaxed: a flag of its own */
}

void cp__os_open_traps(void)
{
    cp_store_relaxed(&has_opened_traps, 1u); /* relaxed: the same */
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &sigtrap_mask, NULL, sizeof sigtrap_mask);
}

void cp__os_close_traps(void)
{
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &sigtrap_mask, NULL, sizeof sigtrap_mask);
}
