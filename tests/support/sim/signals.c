/* The signals that overflows and timers send to the calling thread. */
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>

/* What SIM_HAPPEN() hands to the kernel: see run.h. */
struct sim_raise {
    int pid, tid, sig, unused;
    siginfo_t info;
    uint64_t mask; /* to be set when the signal has been sent */
};
_Static_assert(offsetof(struct sim_raise, info) == SIM_RAISE_INFO &&
                   offsetof(struct sim_raise, mask) == SIM_RAISE_MASK,
               "the code in run.h has these offsets");

#define TRAP_PERF_CODE 6

/* A thread has one at a time: signals are blocked from when it is made until it has been sent. */
static _Thread_local struct sim_raise raised;

static struct sim_raise *raise_to(pid_t tid, int sig, int code, uint64_t mask)
{
    raised = (struct sim_raise){.pid = sim_pid(), .tid = tid, .sig = sig, .mask = mask};
    raised.info.si_signo = sig;
    raised.info.si_code = code;
    return &raised;
}

/* What stands behind the address in a trap's siginfo; older C libraries have no names for these. */
struct trap_data {
    uint64_t data;
    uint32_t type, flags;
};

static struct sim_raise *trap(const struct sim_event *event, uintptr_t address, uint64_t mask)
{
    bool is_blocked = (mask >> (SIGTRAP - 1) & 1) != 0;
    const struct trap_data data = {event->attr.sig_data, event->attr.type, is_blocked};
    struct sim_raise *raise = raise_to(sim_tid(), SIGTRAP, TRAP_PERF_CODE, mask);

    raise->info.si_addr = (void *)address;
    memcpy((char *)&raise->info.si_addr + sizeof(void *), &data, sizeof data);
    return raise;
}

struct sim_raise *sim_raise_for_event(const struct sim_event *event, int code, uintptr_t address,
                                      uint64_t mask)
{
    struct sim_raise *raise;

    if (event->attr.sigtrap)
        return trap(event, address, mask);
    if (!event->is_async || event->owner == 0 || event->pid != sim_pid())
        return NULL;
    if (event->owner != sim_tid()) /* the machine lets nobody send such a signal to another thread */
        sim_refuse("an event that signals another thread than its own", (uint64_t)event->owner);
    raise = raise_to(event->owner, event->sig != 0 ? event->sig : SIGIO, code, mask);
    raise->info.si_band = code == POLL_IN ? POLLIN | POLLRDNORM : POLLHUP;
    raise->info.si_fd = event->fd;
    return raise;
}

/* ---- Timers ---------------------------------------------------------------------------------- */

/* Takes the signal if it is pending. */
static bool take_pending(int sig, siginfo_t *info)
{
    const uint64_t set = (uint64_t)1 << (sig - 1);
    const struct timespec now = {0, 0};

    return sim_raw(SYS_rt_sigtimedwait, (long)&set, (long)info, (long)&now, sizeof set, 0, 0) == sig;
}

/* Another signal of the same number stays pending, and the timer waits: the kernel would queue the timer's
 * own one behind that. The timer's own pending signal tells of all expiries when the thread takes it. */
struct sim_raise *sim_raise_for_timer(struct sim_timer *timer, uint64_t mask)
{
    siginfo_t pending;
    int told = 0;

    if (take_pending(timer->sig, &pending)) {
        if (pending.si_code != SI_TIMER || (uintptr_t)pending.si_value.sival_ptr != timer->value) {
            sim_raw(SYS_rt_tgsigqueueinfo, sim_pid(), sim_tid(), timer->sig, (long)&pending, 0, 0);
            return NULL;
        }
        told = pending.si_overrun + 1;
    }
    raise_to(sim_tid(), timer->sig, SI_TIMER, mask);
    raised.info.si_timerid = timer->id;
    raised.info.si_overrun = told + (int)timer->expired - 1;
    raised.info.si_value.sival_ptr = (void *)timer->value;
    timer->expired = 0;
    return &raised;
}

/* As Linux does since 6.13. Only the calling thread's own signals can be taken back. */
void sim_drop_signal_of_timer(const struct sim_timer *timer)
{
    siginfo_t pending;

    if (timer->tid == sim_tid() && take_pending(timer->sig, &pending) &&
        (pending.si_code != SI_TIMER || (uintptr_t)pending.si_value.sival_ptr != timer->value))
        sim_raw(SYS_rt_tgsigqueueinfo, sim_pid(), sim_tid(), timer->sig, (long)&pending, 0, 0);
}

uint64_t sim_waiting_timers(void)
{
    uint64_t set = 0;

    for (int i = 0; i < sim_state->n_timers; i++) {
        const struct sim_timer *timer = &sim_state->timers[i];

        if (timer->is_used && timer->tid == sim_tid() && timer->expired != 0)
            set |= (uint64_t)1 << (timer->sig - 1);
    }
    return set;
}

bool sim_take_timer(uint64_t set, siginfo_t *info)
{
    for (int i = 0; i < sim_state->n_timers; i++) {
        struct sim_timer *timer = &sim_state->timers[i];
        bool waits = timer->is_used && timer->tid == sim_tid() && timer->expired != 0;

        if (!waits || (set >> (timer->sig - 1) & 1) == 0)
            continue;
        *info = sim_raise_for_timer(timer, 0)->info;
        return true;
    }
    return false;
}

/* ---- Sending --------------------------------------------------------------------------------- */

void sim_send(const struct sim_raise *raise)
{
    sim_raw(SYS_rt_tgsigqueueinfo, raise->pid, raise->tid, raise->sig, (long)&raise->info, 0, 0);
}

/* ThreadSanitizer calls a handler at the end of the next function that it replaces, with the registers
 * that the signal has found. */
void sim_let_signals_in(void)
{
    static size_t (*const volatile replaced)(const char *) = strlen;

    replaced("");
}
