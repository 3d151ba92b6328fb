/*
 * The calls that the simulated kernel answers in the place of the machine's. The linker puts the functions
 * that begin with __wrap_ in the place of the C library's, for the objects of the test program and of this
 * library, but not for the C library and the sanitizers: see the Makefile.
 */
#include "kernel.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "atomic.h"
#include "runtime/base/sanitizer.h"
#include "runtime/base/sysctl_linux.h"
#include "runtime/engine/first_linux.h"

/* ---- Calls that fail ------------------------------------------------------------------------- */

void sim_fail(long number, int n, int error, bool stays)
{
    uint64_t mask = sim_lock();

    sim_state->fail_number = number;
    sim_state->fail_at = number != SIM_NONE ? n : 0;
    sim_state->fail_error = error;
    sim_state->fail_stays = stays;
    sim_state->failed = 0;
    sim_unlock(mask);
}

int sim_failed(void)
{
    uint64_t mask = sim_lock();
    int failed = sim_state->failed;

    sim_unlock(mask);
    return failed;
}

/* Returns the error that the call fails with; 0: it does not fail. */
static int failure(long number)
{
    uint64_t mask;
    int error = 0;

    /* relaxed: looked at again under the lock */
    if (cp_load_relaxed(&sim_state->fail_number) != number || cp_load_relaxed(&sim_state->fail_at) == 0)
        return 0;
    mask = sim_lock();
    if (sim_state->fail_at == 1 || --sim_state->fail_at == 0) {
        error = sim_state->fail_error;
        sim_state->failed++;
        sim_state->fail_at = sim_state->fail_stays ? 1 : 0;
    }
    sim_unlock(mask);
    return error;
}

/* ---- syscall(2) ------------------------------------------------------------------------------ */

static long pass_on(long number, const long a[6])
{
    return sim_raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* A count of the calling thread's own is read after the time that the call takes. */
static void let_call_take_time(int fd)
{
    const struct sim_event *event = sim->clock_ns != 0 ? sim_event(fd) : NULL;

    if (event != NULL && event->tid == sim_tid())
        sim_happen((struct sim_run){SIM_CALL, sim->clock_ns, 0});
}

/* Does a call for a descriptor's event; sets *is_done if there is one. */
static long do_for_event(long number, const long a[6], bool *is_done)
{
    struct sim_event *event = sim_event((int)a[0]);

    *is_done = event != NULL;
    if (event == NULL) {
        *is_done =
            number == SYS_ioctl && a[1] == PERF_EVENT_IOC_ID && sim_tell_id((int)a[0], (uint64_t *)a[2]);
        return 0;
    }
    switch (number) {
    case SYS_ioctl:
        return sim_control_event(event, (unsigned long)a[1], (unsigned long)a[2]);
    case SYS_fcntl:
        return sim_fcntl_event(event, (int)a[1], (unsigned long)a[2]);
    case SYS_read:
        return sim_read_event(event, (void *)a[1], (size_t)a[2]);
    default: /* the descriptor itself is the machine's */
        sim_close_event(event);
        *is_done = false;
        return 0;
    }
}

static long do_for_timer(long number, const long a[6], bool *is_done)
{
    struct sim_timer *timer = sim_timer((int)a[0]);

    *is_done = timer != NULL && number == SYS_timer_settime;
    if (*is_done && ((int)a[1] != 0 || a[3] != 0))
        sim_refuse("an absolute time, or what is left of a timer", (uint64_t)a[1]);
    if (timer != NULL)
        sim_drop_signal_of_timer(timer);
    if (*is_done)
        sim_set_timer(timer, (const struct itimerspec *)a[2]);
    else if (timer != NULL)
        timer->is_used = false;
    return 0;
}

/* The memory itself is the machine's. */
static long unmap(long number, const long a[6], bool *is_done)
{
    (void)number;
    sim_unmap_ring((const void *)a[0]);
    *is_done = false;
    return 0;
}

static long take_signal(const long a[6])
{
    long result = pass_on(SYS_rt_sigtimedwait, a);
    const uint64_t set = *(const uint64_t *)a[0];
    siginfo_t info;
    uint64_t mask;
    bool takes;

    if (result != -EAGAIN)
        return result;
    mask = sim_lock();
    takes = sim_take_timer(set, &info);
    sim_unlock(mask);
    if (!takes)
        return result;
    if (a[1] != 0)
        memcpy((void *)a[1], &info, sizeof info);
    return info.si_signo;
}

static uint64_t waiting_timers(void)
{
    uint64_t mask = sim_lock();
    uint64_t waiting = sim_waiting_timers();

    sim_unlock(mask);
    return waiting;
}

/* What waits behind another signal is pending, too. */
static long see_pending(const long a[6])
{
    long result = pass_on(SYS_rt_sigpending, a);

    if (result == 0)
        *(uint64_t *)a[0] |= waiting_timers();
    return result;
}

/* A timer's signal that waits behind another one is in the thread's queue, so the kernel drops the signal. */
static long queue_signal(const long a[6])
{
    bool is_dropped = a[1] == sim_tid() && a[2] < SIGRTMIN && (waiting_timers() >> (a[2] - 1) & 1) != 0;

    return is_dropped ? 0 : pass_on(SYS_rt_tgsigqueueinfo, a);
}

static long do_prctl(const long a[6])
{
    uint64_t mask;

    if (a[0] != PR_TASK_PERF_EVENTS_DISABLE && a[0] != PR_TASK_PERF_EVENTS_ENABLE)
        return pass_on(SYS_prctl, a);
    mask = sim_lock();
    sim_switch_events(a[0] == PR_TASK_PERF_EVENTS_ENABLE);
    sim_unlock(mask);
    return 0;
}

/* The descriptors themselves are the machine's. */
static long close_range_of(const long a[6])
{
    uint64_t mask;

    if (a[2] != 0)
        sim_refuse("how close_range(2) is asked to close", (uint64_t)a[2]);
    mask = sim_lock();
    sim_close_events((unsigned)a[0], (unsigned)a[1]);
    sim_unlock(mask);
    return pass_on(SYS_close_range, a);
}

static long do_locked(long number, const long a[6], long (*does)(long number, const long a[6], bool *is_done))
{
    uint64_t mask = sim_lock();
    bool is_done;
    long result = does(number, a, &is_done);

    sim_unlock(mask);
    return is_done ? result : pass_on(number, a);
}

/* ---- Files of threads ------------------------------------------------------------------------ */

/* /proc/self/task/TID/schedstat has the CPU time, the time of waiting for a CPU, and how often the thread got
 * one. The other files are the machine's. */
static long open_file(const long a[6])
{
    char text[64];
    int tid, length, end = 0;
    long fd;

    if (sscanf((const char *)a[1], "/proc/self/task/%d/schedstat%n", &tid, &end) < 1 || end == 0)
        return pass_on(SYS_openat, a);
    fd = pass_on(SYS_memfd_create, (const long[6]){(long)"schedstat", MFD_CLOEXEC});
    if (fd < 0)
        return fd;
    length = snprintf(text, sizeof text, "%llu 0 %llu\n", (unsigned long long)sim_thread_ns(tid),
                      (unsigned long long)sim_thread_switches(tid));
    CHECK(pwrite((int)fd, text, (size_t)length, 0) == length);
    return fd;
}

static long simulate(long number, const long a[6])
{
    bool can_fail = number != SYS_mmap && (number != SYS_ioctl || a[1] != PERF_EVENT_IOC_ID);
    int error = can_fail ? failure(number) : 0;

    sim_be_born();
    if (error != 0)
        return -error;
    switch (number) {
    case SYS_perf_event_open:
        return a[0] != 0 ? sim_open_event(a) : -EFAULT;
    case SYS_timer_create:
        return sim_create_timer(a);
    case SYS_rt_sigtimedwait:
        return take_signal(a);
    case SYS_openat:
        return open_file(a);
    case SYS_rt_sigpending:
        return see_pending(a);
    case SYS_rt_tgsigqueueinfo:
        return queue_signal(a);
    case SYS_read:
        let_call_take_time((int)a[0]);
        return do_locked(number, a, do_for_event);
    case SYS_munmap:
        return do_locked(number, a, unmap);
    case SYS_ioctl:
    case SYS_fcntl:
    case SYS_close:
        return do_locked(number, a, do_for_event);
    case SYS_prctl:
        return do_prctl(a);
    case SYS_close_range:
        return close_range_of(a);
    case SYS_timer_settime:
    case SYS_timer_delete:
        return do_locked(number, a, do_for_timer);
    default:
        return pass_on(number, a);
    }
}

long sim_hand_on(long number, const long a[6])
{
    return sim_or_errno(sim_is_on() ? simulate(number, a) : pass_on(number, a));
}

static long (*hooked)(long number, const long a[6]) = sim_hand_on; /* set before there are threads */

void sim_hook(long (*hook)(long number, const long arguments[6]))
{
    hooked = hook;
}

/* Few calls have six arguments. For the others, the rest is read from beside the caller's arguments. */
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long arguments[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    return hooked(number, arguments);
}

/* ---- Functions of the C library -------------------------------------------------------------- */

static void (*deferred)(void); /* set while there is one thread */

void sim_defer(void (*fn)(void))
{
    deferred = fn;
}

static void let_deferred_come(void)
{
    if (deferred != NULL)
        deferred();
}

void __real_cp__let_deferred_come_from_handler(void);
void __wrap_cp__let_deferred_come_from_handler(void);
void __wrap_cp__let_deferred_come_from_handler(void)
{
    __real_cp__let_deferred_come_from_handler();
    let_deferred_come();
}

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    uint64_t ns;

    if (!sim_is_on() || !sim_clock(clock, &ns))
        return __real_clock_gettime(clock, t);
    *t = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    let_deferred_come();
    return 0;
}

int __real_getrusage(__rusage_who_t who, struct rusage *usage);
int __wrap_getrusage(__rusage_who_t who, struct rusage *usage);
int __wrap_getrusage(__rusage_who_t who, struct rusage *usage)
{
    uint64_t mask;

    if (!sim_is_on() || who != RUSAGE_THREAD)
        return __real_getrusage(who, usage);
    mask = sim_lock();
    *usage = (struct rusage){.ru_nvcsw = (long)sim_self()->switches, .ru_minflt = (long)sim_self()->faults};
    sim_unlock(mask);
    return 0;
}

int __real_uname(struct utsname *name);
int __wrap_uname(struct utsname *name);
int __wrap_uname(struct utsname *name)
{
    int result = __real_uname(name);

    if (result == 0 && sim_is_on())
        strcpy(name->release, sim->release);
    return result;
}

/* ---- Settings -------------------------------------------------------------------------------- */

bool __real_cp__has_thread_sanitizer(void);
bool __wrap_cp__has_thread_sanitizer(void);
/* The simulated kernel's signals come while ThreadSanitizer's runtime is at rest. */
bool __wrap_cp__has_thread_sanitizer(void)
{
    return !sim_is_on() && __real_cp__has_thread_sanitizer();
}

int64_t __real_cp__sysctl(const char *name);
int64_t __wrap_cp__sysctl(const char *name);
int64_t __wrap_cp__sysctl(const char *name)
{
    if (sim_is_on() && strcmp(cp__sysctl_root, "/proc/sys") == 0 &&
        strcmp(name, "kernel/perf_event_max_sample_rate") == 0)
        return (int64_t)sim->max_rate;
    return __real_cp__sysctl(name);
}

/* ---- What is drawn --------------------------------------------------------------------------- */

/* A first period of a thread that is drawn makes a sample more or less: most tests want to know how many
 * there are. */
uint64_t __real_cp__first_draw_from_handler(struct cp__m *m, const struct cp__slot_config *config);
uint64_t __wrap_cp__first_draw_from_handler(struct cp__m *m, const struct cp__slot_config *config);
uint64_t __wrap_cp__first_draw_from_handler(struct cp__m *m, const struct cp__slot_config *config)
{
    return sim_is_on() && !sim->draws ? config->config.period : __real_cp__first_draw_from_handler(m, config);
}

/* For the same reason, a first period begins when its event is armed. */
uint64_t __real_cp__first_head_from_handler(const struct cp__m *m, int slot, uint64_t period);
uint64_t __wrap_cp__first_head_from_handler(const struct cp__m *m, int slot, uint64_t period);
uint64_t __wrap_cp__first_head_from_handler(const struct cp__m *m, int slot, uint64_t period)
{
    return sim_is_on() && !sim->draws ? 0 : __real_cp__first_head_from_handler(m, slot, period);
}

/* ---- Descriptors and memory ------------------------------------------------------------------ */

static bool is_event(int fd)
{
    uint64_t mask;
    bool is;

    if (!sim_is_on())
        return false;
    mask = sim_lock();
    is = sim_event(fd) != NULL;
    sim_unlock(mask);
    return is;
}

void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    void *made;
    uint64_t mask;
    int error;

    if (!sim_is_on() || (fd >= 0 && !is_event(fd)))
        return __real_mmap(at, size, protection, flags, fd, offset);
    error = failure(fd < 0 ? SIM_MEMORY : SYS_mmap);
    if (error != 0) {
        errno = error;
        return MAP_FAILED;
    }
    if (fd < 0)
        return __real_mmap(at, size, protection, flags, fd, offset);
    mask = sim_lock();
    made = sim_map_ring(sim_event(fd), size);
    sim_unlock(mask);
    let_deferred_come();
    return made;
}

int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size)
{
    uint64_t mask;
    int result;

    if (sim_is_on()) {
        mask = sim_lock();
        sim_unmap_ring(at);
        sim_unlock(mask);
    }
    result = __real_munmap(at, size);
    let_deferred_come();
    return result;
}

/* Tests read and close events themselves. The C library's functions are points at which a thread may be
 * cancelled. */

ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size)
{
    if (!is_event(fd))
        return __real_read(fd, to, size);
    pthread_testcancel();
    return sim_hand_on(SYS_read, (const long[6]){fd, (long)to, (long)size});
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    if (!is_event(fd))
        return __real_close(fd);
    pthread_testcancel();
    return (int)sim_hand_on(SYS_close, (const long[6]){fd});
}
