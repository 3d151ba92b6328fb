#include "timer_linux.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engines.h"
#include "first_linux.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/base/signals.h"
#include "runtime/disposition.h"
#include "runtime/receive.h"

/* Makes a timer on a CPU clock, which is that of the thread tid. Makes the system call itself, because
 * glibc's timer_create() may allocate. */
static int timer_create_from_handler(int *timer, clockid_t clock, pid_t tid, uint64_t value)
{
    struct sigevent event;

    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGPROF;
    event.sigev_value.sival_ptr = (void *)(uintptr_t)value;
    event._sigev_un._tid = tid;
    return syscall(SYS_timer_create, clock, &event, timer) < 0 ? -errno : 0;
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

int cp__timer_start_from_handler(const struct cp__m *m, int *timer, uint64_t value, uint64_t first_ns,
                                 uint64_t period_ns)
{
    struct itimerspec when = {.it_value = to_timespec(first_ns), .it_interval = to_timespec(period_ns)};
    int result = timer_create_from_handler(timer, m->cpu_clock, m->tid, value);

    if (result == 0 && syscall(SYS_timer_settime, *timer, 0, &when, NULL) < 0) {
        result = -errno;
        syscall(SYS_timer_delete, *timer);
    }
    if (result < 0)
        *timer = -1;
    return result;
}

static struct cp__timer *timer_of(const struct cp__m *m, int slot)
{
    struct cp__timer_m *own = m->own[CP__ENGINE_TIMER].memory;

    return &own->timers[slot];
}

/* The first expiry is uniform in (0, period], so that threads shorter than a period are sampled in
 * proportion. */
int cp__timer_open_from_handler(struct cp__m *m, int slot, const struct cp__slot_config *config)
{
    const uint64_t period = 1000000000u / config->config.hz;
    const uint64_t drawn = 1 + cp__m_random_from_handler(m) % period;
    const uint64_t first =
        cp__first_left_from_handler(m, slot, period, drawn, cp__first_head_from_handler(m, slot, period));
    struct cp__m_stats *stats = &m->stats[slot];
    struct cp__timer *timer = timer_of(m, slot);
    uint64_t now;
    int result;

    cp_store_relaxed(&stats->period, period); /* relaxed, all: numbers of their own */
    cp_store_relaxed(&stats->by_ticks, 1);
    now = cp__os_clock_ns_from_handler(m->cpu_clock);
    cp_store_relaxed(&stats->armed_at, now);
    timer->due = now + first;
    cp_store_relaxed(&timer->kept, 0); /* relaxed: of an earlier timer in the slot */
    result = cp__timer_start_from_handler(m, &timer->id, config->seq, first, period);
    m->handles[slot].is_open = result == 0;
    return result;
}

/* A filter of system calls (seccomp) that was installed since the start may refuse to delete the timer, and
 * to disarm it. Such a timer's ticks find no handle, so they are no samples; but there must be a handler. */
void cp__timer_end_from_handler(int timer)
{
    static const struct itimerspec never;

    if (syscall(SYS_timer_delete, timer) < 0 && syscall(SYS_timer_settime, timer, 0, &never, NULL) < 0)
        cp__disposition_keep_from_handler();
}

/* Returns the ticks that came while another thread changed the handles. */
static uint64_t take_kept_from_handler(const struct cp__m *m, int slot)
{
    return cp_exchange_acq_rel(&timer_of(m, slot)->kept, 0u); /* acq_rel: no partner; a counter */
}

static void count_ticks_from_handler(struct cp__m *m, int slot, uint64_t ticks, struct cp__moment *moment)
{
    timer_of(m, slot)->due += ticks * m->stats[slot].period;
    if (ticks == 0)
        return;
    cp__moment_add_from_handler(moment, slot, ticks);
    cp_add_single_writer(&m->stats[slot].overruns, ticks - 1);
}

/* A timer's count is the CPU time for which it has run. If the thread has ended, the last tick tells. */
static void note_count_from_handler(struct cp__m *m, int slot, uint64_t now)
{
    struct cp__m_stats *stats = &m->stats[slot];

    if (now < stats->armed_at)
        now = timer_of(m, slot)->due - stats->period;
    /* relaxed: a number of its own */
    cp_store_relaxed(&stats->counts[0].value, now > stats->armed_at ? now - stats->armed_at : 0);
}

/* A pending tick would go with the timer, from Linux 6.13 on. */
void cp__timer_close_from_handler(struct cp__m *m, int slot, struct cp__moment *moment)
{
    uint64_t now;

    cp__take_pending_from_handler(m, moment);
    now = cp__os_clock_ns_from_handler(m->cpu_clock);
    cp__timer_end_from_handler(timer_of(m, slot)->id);
    count_ticks_from_handler(m, slot, take_kept_from_handler(m, slot), moment);
    note_count_from_handler(m, slot, now);
}

/* Returns for how many ticks a signal of the timer stands that is pending for m's thread: for the tick that
 * was due first, and those that followed it. While another thread forks, no file tells. */
static uint64_t pending_ticks(const struct cp__m *m, int slot, uint64_t now)
{
    const uint64_t due = timer_of(m, slot)->due;
    bool is_pending;

    if (due > now || !cp__fork_delay_from_handler())
        return 0;
    is_pending = cp__os_thread_pending(m->tid, SIGPROF).is_pending;
    cp__fork_allow_from_handler();
    return is_pending ? 1 + (now - due) / m->stats[slot].period : 0;
}

/* The handler will find no handle for a signal that is pending. If it has come since that look, the handler
 * has kept its ticks. */
bool cp__timer_close_from_outside(struct cp__m *m, int slot, bool has_slept, struct cp__moment *moment)
{
    uint64_t now, pending, kept;

    count_ticks_from_handler(m, slot, take_kept_from_handler(m, slot), moment);
    now = has_slept ? m->stats[slot].armed_at : cp__os_clock_ns_from_handler(m->cpu_clock);
    pending = pending_ticks(m, slot, now);
    cp__timer_end_from_handler(timer_of(m, slot)->id);
    kept = take_kept_from_handler(m, slot);
    count_ticks_from_handler(m, slot, kept != 0 ? kept : pending, moment);
    note_count_from_handler(m, slot, now);
    return !has_slept || !cp__m_has_slept_from_handler(m, slot);
}

/* If no handle has the config that the tick names, the timer has been deleted since. */
bool cp__timer_on_signal_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment)
{
    uint64_t seq;

    if (!cp__signal_is_tick_from_handler(info, &seq))
        return false;
    /* relaxed: stored by this thread */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1) {
        int slot = __builtin_ctz(armed);
        const struct cp__handle *handle = &m->handles[slot];

        if (handle->seq == seq && handle->engine == &cp__engine_timer) {
            count_ticks_from_handler(
                m, slot, 1 + (uint64_t)(unsigned)info->si_overrun + take_kept_from_handler(m, slot), moment);
            return true;
        }
    }
    return false;
}

/* The figures name the slot, because the handles may not be looked at. */
bool cp__timer_keep_from_handler(struct cp__m *m, const siginfo_t *info)
{
    const uint64_t ticks = 1 + (uint64_t)(unsigned)info->si_overrun;
    uint64_t seq;

    if (!cp__signal_is_tick_from_handler(info, &seq))
        return false;
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (cp_load_relaxed(&m->stats[slot].seq) != seq) /* relaxed: only the number is used */
            continue;
        cp_fetch_add_relaxed(&timer_of(m, slot)->kept, ticks); /* relaxed: a counter */
        return true;
    }
    return false;
}

int cp__timer_probe(struct cp_error *err)
{
    int timer;
    int result = timer_create_from_handler(&timer, CLOCK_THREAD_CPUTIME_ID, cp__os_tid(), 0);

    if (result < 0)
        return cp__error_because(
            err, result, "no POSIX timer left",
            "The event timer cannot run: timer_create says %s. If that is EAGAIN, the user has used up the "
            "limit of pending signals: raise it with ulimit -i, or use taskClock.",
            strerror(-result));
    syscall(SYS_timer_delete, timer);
    return 0;
}
