/* Timers on threads' CPU clocks, and these clocks. */
#include "kernel.h"

#include <errno.h>
#include <sys/syscall.h>

#include "atomic.h"

#define SECOND 1000000000u

/* ---- Clocks ---------------------------------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *t);

static uint64_t to_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * SECOND + (uint64_t)t->tv_nsec;
}

/* While the thread is in the handler of a simulated signal, its time stands still: what the machine takes
 * for the handler is no figure of the test's. 0: the time goes on. */
static _Thread_local uint64_t stands_at;

/* As the library's handler does. A handler may be left by siglongjmp(3). */
static bool blocks_all_signals(void)
{
    const uint64_t all = UINT64_MAX & ~((uint64_t)1 << (SIGKILL - 1) | (uint64_t)1 << (SIGSTOP - 1));
    uint64_t mask = 0;

    sim_raw(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&mask, sizeof mask, 0, 0);
    return (mask & all) == all;
}

void sim_wall_stands(bool stands)
{
    stands_at = 0;
    stands_at = stands ? sim_wall_ns() : 0;
}

/* The machine's time, and all that the threads have run since, as if they ran one after the other: so no
 * thread has run for longer than the time that has passed. */
uint64_t sim_wall_ns(void)
{
    struct timespec now;

    if (stands_at != 0 && blocks_all_signals())
        return stands_at += sim->clock_ns;
    __real_clock_gettime(CLOCK_MONOTONIC, &now);
    return to_ns(&now) + cp_load_relaxed(&sim_state->passed); /* relaxed: a number of its own */
}

/* Returns the thread whose CPU clock this is; 0: it is no such clock. The kernel's posix-timers.h says how
 * numbers of clocks are made. */
static pid_t tid_of_clock(clockid_t clock)
{
    if (clock == CLOCK_THREAD_CPUTIME_ID)
        return sim_tid();
    if (clock >= 0 || (clock & 7) != 6)
        return 0;
    return (pid_t) ~(clock >> 3) != 0 ? (pid_t) ~(clock >> 3) : sim_tid();
}

/* The sum of the process's threads, and of those that have ended. */
static uint64_t process_ns(void)
{
    uint64_t mask = sim_lock();
    const pid_t pid = sim_pid();
    uint64_t ns = 0;

    for (int i = 0; i < SIM_THREADS; i++) {
        const struct sim_thread *thread = &sim_state->threads[i];

        ns += thread->pid == pid ? thread->ns + thread->ended_ns : 0;
    }
    sim_unlock(mask);
    return ns;
}

/* A thread that reads the clock until something happens makes it happen. */
static uint64_t read_wall(void)
{
    if (sim->reading_ns != 0 && !blocks_all_signals())
        sim_happen((struct sim_run){SIM_TIME, sim->reading_ns, 0});
    return sim_wall_ns();
}

static uint64_t thread_ns(pid_t tid)
{
    if (tid == sim_tid() && sim->clock_ns != 0)
        sim_happen((struct sim_run){SIM_CALL, sim->clock_ns, 0});
    return sim_thread_ns(tid);
}

/* A thread's clock ends with the thread. */
static bool is_alive(pid_t tid)
{
    return tid == sim_tid() || sim_raw(SYS_tkill, tid, 0, 0, 0, 0, 0) == 0;
}

bool sim_clock(clockid_t clock, uint64_t *ns)
{
    const pid_t tid = tid_of_clock(clock);

    if (tid != 0 && !is_alive(tid))
        return false;
    if (tid != 0)
        *ns = thread_ns(tid);
    else if (clock == CLOCK_PROCESS_CPUTIME_ID)
        *ns = process_ns();
    else if (clock == CLOCK_MONOTONIC)
        *ns = read_wall();
    else
        return false;
    return true;
}

/* ---- Timers ---------------------------------------------------------------------------------- */

struct sim_timer *sim_timer(int id)
{
    for (int i = 0; i < sim_state->n_timers; i++) {
        struct sim_timer *timer = &sim_state->timers[i];

        if (timer->is_used && timer->id == id && timer->pid == sim_pid())
            return timer;
    }
    return NULL;
}

static struct sim_timer *free_timer(void)
{
    for (int i = 0; i < SIM_TIMERS; i++) {
        if (sim_state->timers[i].is_used)
            continue;
        if (i >= sim_state->n_timers)
            sim_state->n_timers = i + 1;
        return &sim_state->timers[i];
    }
    sim_refuse("a timer too many", SIM_TIMERS);
}

/* The machine's kernel makes a timer, too, so that its limits hold. */
long sim_create_timer(const long a[6])
{
    const struct sigevent *event = (const struct sigevent *)a[1];
    const pid_t tid = tid_of_clock((clockid_t)a[0]);
    long result;
    uint64_t mask;

    if (tid == 0)
        sim_refuse("a timer on another clock than a thread's", (uint64_t)a[0]);
    result = sim_raw(SYS_timer_create, a[0], a[1], a[2], 0, 0, 0);
    if (result < 0)
        return result;
    if (event == NULL || event->sigev_notify != SIGEV_THREAD_ID || event->_sigev_un._tid != tid)
        sim_refuse("a timer that does not signal its own thread", (uint64_t)a[0]);
    mask = sim_lock();
    *free_timer() = (struct sim_timer){.is_used = true,
                                       .pid = sim_pid(),
                                       .tid = tid,
                                       .id = *(const int *)a[2],
                                       .sig = event->sigev_signo,
                                       .value = (uintptr_t)event->sigev_value.sival_ptr};
    sim_unlock(mask);
    return result;
}

void sim_set_timer(struct sim_timer *timer, const struct itimerspec *when)
{
    timer->interval = to_ns(&when->it_interval);
    timer->at = to_ns(&when->it_value);
    timer->is_armed = timer->at != 0;
    timer->at += sim_thread(timer->tid)->ns;
    timer->expired = 0;
}

/* Returns when the kernel looks at the timer. */
static uint64_t looked_at(const struct sim_timer *timer)
{
    const uint64_t tick = sim->tick_ns;

    return sim->timers_tick ? (timer->at + tick - 1) / tick * tick : timer->at;
}

struct sim_timer *sim_next_timer(const struct sim_thread *thread, uint64_t *ns)
{
    struct sim_timer *next = NULL;

    for (int i = 0; i < sim_state->n_timers; i++) {
        struct sim_timer *timer = &sim_state->timers[i];
        uint64_t at;

        if (!timer->is_used || !timer->is_armed || timer->tid != thread->tid)
            continue;
        at = looked_at(timer);
        at = at > thread->ns ? at - thread->ns : 0;
        if (at > *ns || (next != NULL && at == *ns))
            continue;
        *ns = at;
        next = timer;
    }
    return next;
}

void sim_expire(struct sim_timer *timer, uint64_t now)
{
    uint64_t n = timer->interval != 0 ? 1 + (now - timer->at) / timer->interval : 1;

    timer->expired += n;
    timer->at += n * timer->interval;
    timer->is_armed = timer->interval != 0;
}
