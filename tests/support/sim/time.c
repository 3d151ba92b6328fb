/* What happens on a thread, and which events and timers overflow meanwhile. */
#include "kernel.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>

#include "atomic.h"

/* ---- Passing --------------------------------------------------------------------------------- */

static void count_on_thread(struct sim_thread *thread, enum sim_what what, uint64_t n)
{
    if (what == SIM_TIME) {
        thread->ns += n;
        cp_add_single_writer(&sim_state->passed, n); /* under the lock */
    } else if (what == SIM_SWITCHES) {
        thread->switches += n;
    } else if (what == SIM_FAULTS) {
        thread->faults += n;
    }
}

/* The kernel's clocks count all the time, and take samples in the modes that are asked for. */
static bool is_clock(const struct sim_event *event)
{
    return event->attr.type == PERF_TYPE_SOFTWARE && event->what == SIM_TIME;
}

/* Whether the event takes no samples in the mode that the thread is in. */
static bool is_excluded(const struct sim_event *event, const struct sim_thread *thread)
{
    if (thread->mode == SIM_CALL)
        return event->attr.exclude_kernel && event->attr.exclude_user;
    return thread->mode == SIM_KERNEL_TIME ? event->attr.exclude_kernel : event->attr.exclude_user;
}

static bool counts(const struct sim_event *event, const struct sim_thread *thread, enum sim_what what)
{
    return sim_counts_on(event, thread) && event->what == what && !event->is_throttled &&
           (is_clock(event) || !is_excluded(event, thread));
}

static void pass(struct sim_thread *thread, enum sim_what what, uint64_t n)
{
    const struct sim_thread before = *thread;

    count_on_thread(thread, what, n);
    for (int i = 0; i < sim_state->n_events; i++) {
        struct sim_event *event = &sim_state->events[i];

        if (!sim_counts_on(event, thread))
            continue;
        event->time_enabled += what == SIM_TIME ? n : 0;
        if (!sim_has_counter(event, &before))
            continue;
        event->time_running += what == SIM_TIME ? n : 0;
        if (!counts(event, thread, what))
            continue;
        event->count += n;
        event->to_go -= (int64_t)n;
    }
}

/* ---- What comes next ------------------------------------------------------------------------- */

static bool overflows(const struct sim_event *event, const struct sim_thread *thread, enum sim_what what)
{
    return counts(event, thread, what) && event->period != 0 && !event->is_silent &&
           (event->to_go <= 0 || sim_has_counter(event, thread));
}

/* Returns the event that overflows first, within *n; *n receives when. NULL: none does. */
static struct sim_event *next_event(const struct sim_thread *thread, enum sim_what what, uint64_t *n)
{
    struct sim_event *next = NULL;

    for (int i = 0; i < sim_state->n_events; i++) {
        struct sim_event *event = &sim_state->events[i];
        uint64_t to_go = event->to_go > 0 ? (uint64_t)event->to_go : 0;

        if (!overflows(event, thread, what) || to_go > *n || (next != NULL && to_go == *n))
            continue;
        *n = to_go;
        next = event;
    }
    return next;
}

/* Returns whether an event of the thread does not count before the next tick. */
static bool has_waiting(const struct sim_thread *thread)
{
    for (int i = 0; i < sim_state->n_events; i++) {
        const struct sim_event *event = &sim_state->events[i];

        if (sim_counts_on(event, thread) && (event->is_throttled || !sim_has_counter(event, thread)))
            return true;
    }
    return false;
}

/* At a tick, throttled events go on. */
static void unthrottle(const struct sim_thread *thread)
{
    for (int i = 0; i < sim_state->n_events; i++) {
        struct sim_event *event = &sim_state->events[i];

        if (!sim_counts_on(event, thread) || !event->is_throttled)
            continue;
        event->is_throttled = false;
        sim_write_throttle(event, false);
    }
}

/* ---- Overflows ------------------------------------------------------------------------------- */

/* The kernel lets a clock or a PMU's event have so many overflows in a tick, and then stops it until the
 * next. */
static void throttle(struct sim_event *event, uint64_t tick)
{
    const uint64_t most = (sim->max_rate * sim->tick_ns + 999999999) / 1000000000;

    event->interrupts = event->tick == tick ? event->interrupts + 1 : 1;
    event->tick = tick;
    if (event->what != SIM_TIME || event->interrupts <= most)
        return;
    event->is_throttled = true;
    sim_write_throttle(event, true);
}

/* If several periods have passed at once, the rest of the last one counts. */
static struct sim_raise *overflow(const struct sim_thread *thread, struct sim_event *event,
                                  const struct sim_place *place, uintptr_t address, uint64_t mask)
{
    const int64_t period = (int64_t)event->period;
    int code = POLL_IN;

    event->to_go = period - -event->to_go % period;
    if (is_excluded(event, thread))
        return NULL;
    throttle(event, thread->ns / sim->tick_ns);
    if (event->limit != 0 && --event->limit == 0) {
        code = POLL_HUP;
        event->is_enabled = false;
    }
    sim_write_sample(event, place, address);
    return sim_raise_for_event(event, code, address, mask);
}

/* An overflow takes its time, in which the CPU takes no other interrupt. */
static struct sim_raise *overflow_in_time(struct sim_thread *thread, struct sim_event *event,
                                          const struct sim_place *place, uint64_t mask)
{
    struct sim_raise *raise = overflow(thread, event, place, 0, mask);

    pass(thread, SIM_TIME, sim->cost_ns);
    return raise;
}

/* ---- One step -------------------------------------------------------------------------------- */

/* Lets time pass until something is due. */
static struct sim_raise *step_time(struct sim_thread *thread, struct sim_run *run,
                                   const struct sim_place *place, uint64_t mask, bool *is_over)
{
    uint64_t ns = run->left;
    uint64_t to_tick = sim->tick_ns - thread->ns % sim->tick_ns;
    struct sim_event *event = next_event(thread, SIM_TIME, &ns);
    struct sim_timer *timer = NULL;
    struct sim_raise *raise = NULL;
    bool is_tick = has_waiting(thread) && to_tick <= ns;

    if (is_tick)
        ns = to_tick;
    timer = sim_next_timer(thread, &ns);
    pass(thread, SIM_TIME, ns);
    run->left -= ns;
    if (is_tick && thread->ns % sim->tick_ns == 0)
        unthrottle(thread);
    else if (timer != NULL)
        sim_expire(timer, thread->ns);
    else if (event != NULL && event->to_go <= 0)
        raise = overflow_in_time(thread, event, place, mask);
    else
        *is_over = run->left == 0;
    return raise;
}

/* Lets all the time pass, before what is due by then happens. */
static void stall(struct sim_thread *thread, struct sim_run *run)
{
    pass(thread, SIM_TIME, run->left);
    *run = (struct sim_run){SIM_TIME, 0, 0};
}

/* Lets something else happen, until an event overflows. */
static struct sim_raise *step_other(struct sim_thread *thread, struct sim_run *run,
                                    const struct sim_place *place, uint64_t mask, bool *is_over)
{
    uint64_t n = run->left;
    struct sim_event *event = next_event(thread, run->what, &n);

    pass(thread, run->what, n);
    run->left -= n;
    if (event != NULL)
        return overflow(thread, event, place, run->address, mask);
    *is_over = true;
    return NULL;
}

/* A timer's signal that could not be sent waits for the next step. */
static struct sim_raise *late_timer(const struct sim_thread *thread, uint64_t mask)
{
    struct sim_raise *raise = NULL;

    for (int i = 0; i < sim_state->n_timers && raise == NULL; i++) {
        struct sim_timer *timer = &sim_state->timers[i];

        if (timer->is_used && timer->tid == thread->tid && timer->expired != 0)
            raise = sim_raise_for_timer(timer, mask);
    }
    return raise;
}

static bool is_time(enum sim_what what)
{
    return what == SIM_TIME || what == SIM_KERNEL_TIME || what == SIM_CALL;
}

/* A thread whose overflows raise no signal may take long to come forward. */
static void let_others(void)
{
    sim_unlock_masked();
    sim_lock(); /* the signals are blocked already */
}

static struct sim_raise *step(struct sim_run *run, const struct sim_place *place, uint64_t mask)
{
    struct sim_thread *thread = sim_self();
    struct sim_raise *raise = NULL;
    bool is_over = false;

    thread->mode = run->what;
    while (!is_over && raise == NULL) {
        if (run->what == SIM_STALL)
            stall(thread, run);
        raise = late_timer(thread, mask);
        if (raise == NULL)
            raise = is_time(run->what) ? step_time(thread, run, place, mask, &is_over)
                                       : step_other(thread, run, place, mask, &is_over);
        if (sim->cost_ns != 0 && !is_over && raise == NULL)
            let_others();
    }
    return raise;
}

/* Waits while the thread is stopped; signals reach it. Returns the mask, with the lock taken. */
static uint64_t lock_running(void)
{
    uint64_t mask = sim_lock();

    while (sim_self()->is_stopped) {
        sim_unlock(mask);
        sim_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
        sim_let_signals_in();
        mask = sim_lock();
    }
    return mask;
}

struct sim_raise *sim_step(struct sim_run *run, uintptr_t pc, uintptr_t sp, uintptr_t fp)
{
    const struct sim_place place = {pc, sp, fp, run->what == SIM_KERNEL_TIME};
    int saved_errno = errno;
    struct sim_raise *raise;
    uint64_t mask;

    mask = lock_running();
    sim_wall_stands(false);
    raise = step(run, &place, mask);
    sim_wall_stands(raise != NULL);
    if (raise != NULL)
        sim_unlock_masked();
    else
        sim_unlock(mask);
    errno = saved_errno;
    return raise;
}

void sim_happen(struct sim_run run)
{
    const struct sim_raise *raise;

    do {
        const struct sim_place place = {(uintptr_t)__builtin_return_address(0),
                                        (uintptr_t)__builtin_frame_address(0) + 2 * sizeof(void *),
                                        (uintptr_t)__builtin_frame_address(0), run.what == SIM_KERNEL_TIME};
        uint64_t mask = lock_running();

        raise = step(&run, &place, mask);
        if (raise != NULL)
            sim_send(raise);
        sim_unlock(mask);
        sim_let_signals_in();
    } while (raise != NULL);
}
