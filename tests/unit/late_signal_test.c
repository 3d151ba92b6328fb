/* Signals and traps of events that another thread has closed, and that come or stay pending afterwards. */
#include "runtime/engine/perf_m_linux.h"
#include "tests/support/puppet.h"
#include "tests/support/resources.h"

#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "runtime/base/os.h"
#include "runtime/handler.h"
#include "tests/support/stop_time.h"

static struct cp_slot_request clock_of(enum cp_engine engine)
{
    struct cp_slot_request clock = request("taskClock", MS);

    clock.config.engine = engine;
    return clock;
}

static struct cp__m *m_of(const struct puppet *puppet)
{
    return (struct cp__m *)puppet->worker.m;
}

static int started(const struct cp_slot_request *clock)
{
    struct cp_error err = {0};
    int slot, result = cp_slots_start(clock, 1, &slot, &err);

    CHECKF(result == 0, "%s", err.message);
    return slot;
}

/* ---- What the puppet does -------------------------------------------------------------------- */

static bool is_pending(int signal)
{
    sigset_t pending;

    CHECK_EQ(sigpending(&pending), 0);
    return sigismember(&pending, signal) != 0;
}

static int host_signals;

static void on_host_signal(int signal)
{
    (void)signal;
    host_signals++;
}

/* What the handler is called with, if an event of that descriptor has raised a signal that the kernel has
 * taken off the queue before. */
static void begin_handler_late(void)
{
    siginfo_t info = {.si_signo = SIGPROF, .si_code = POLL_IN};
    ucontext_t context;

    info.si_fd = 999;
    CHECK_EQ(getcontext(&context), 0);
    cp__on_signal_from_handler(SIGPROF, &info, &context);
}

static void begin_late(uint64_t ns)
{
    (void)ns;
    begin_handler_late();
}

static void reach_scheduling_point(uint64_t ns)
{
    (void)ns;
    cp_execute(cp_m_self(), NULL);
}

/* ---- SIGPROF --------------------------------------------------------------------------------- */

/* Another thread closes the event, whose signal is pending, because the thread blocks SIGPROF. The stop does
 * not wait for the signal, and does not give SIGPROF back. */
static void leave_pending(struct puppet *puppet)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL);
    int slot;

    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    start_puppet(puppet);
    slot = started(&clock);
    run_puppet(puppet, block_samples, 3 * MS);
    run_puppet(puppet, burn_a, 2 * MS); /* the thread does not block the signal for a moment only */
    begin_stop();
    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    end_short_stop();
    cp_slots_release(&slot, 1);
    CHECK_EQ(m_of(puppet)->armed, 0);
    CHECK_EQ(m_of(puppet)->late, CP__LATE_PENDING);
    CHECK(!sigprof_is(on_host_signal));
}

/* Returns after a stop, with which SIGPROF can be given back. */
static void start_and_stop_another(void)
{
    const struct cp_slot_request timer = request("timer", 1000 * MS);
    int slot = started(&timer);

    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    cp_slots_release(&slot, 1);
}

SIM_TEST(a_signal_that_is_pending_when_its_event_is_closed_is_not_the_programs)
{
    struct puppet puppet;

    leave_pending(&puppet);
    run_puppet(&puppet, unblock_samples, 0);
    CHECK_EQ(host_signals, 0);
    CHECK_EQ(m_of(&puppet)->late, CP__LATE_PENDING); /* two such signals may come */
    run_puppet(&puppet, begin_late, 0);
    CHECK_EQ(host_signals, 0);
    start_and_stop_another();
    CHECK_EQ(m_of(&puppet)->late, CP__LATE_BEGINNING);
    CHECK(sigprof_is(on_host_signal));
    end_puppet(&puppet);
}

static long hide_proc(long number, const long arguments[6])
{
    if (number == SYS_openat && strncmp((const char *)arguments[1], "/proc/", 6) == 0) {
        errno = ENOENT;
        return -1;
    }
    return sim_hand_on(number, arguments);
}

/* After a chroot(), no file says what is pending: SIGPROF is kept until the M has looked itself. */
SIM_TEST(sigprof_is_not_given_back_if_there_is_no_proc)
{
    struct puppet puppet;

    sim_hook(hide_proc);
    leave_pending(&puppet);
    start_and_stop_another();
    CHECK(!sigprof_is(on_host_signal));
    run_puppet(&puppet, unblock_samples, 0);
    CHECK_EQ(host_signals, 0);
    run_puppet(&puppet, reach_scheduling_point, 0);
    CHECK(sigprof_is(on_host_signal));
    end_puppet(&puppet);
}

/* Puts many groups into a thread's status. */
static long join_groups(long number, const long arguments[6])
{
    const char *path = (const char *)arguments[1];
    char text[4096];
    const char *at;
    int fd, made;
    long n;

    if (number != SYS_openat || strncmp(path, "/proc/self/task/", 16) != 0 || strstr(path, "/status") == NULL)
        return sim_hand_on(number, arguments);
    fd = (int)sim_hand_on(number, arguments);
    n = read(fd, text, sizeof text - 1);
    CHECK(n > 0);
    text[n] = '\0';
    close(fd);
    at = strstr(text, "\nGroups:\t");
    CHECK(at != NULL);
    at += strlen("\nGroups:\t");
    made = memfd_create("status", MFD_CLOEXEC);
    CHECK_EQ(write(made, text, (size_t)(at - text)), at - text);
    for (int i = 0; i < 1000; i++)
        dprintf(made, "%d ", 1234500000 + i);
    CHECK_EQ(write(made, at, strlen(at)), strlen(at));
    CHECK_EQ(lseek(made, 0, SEEK_SET), 0);
    return made;
}

/* The groups of the user are named before the signals. */
SIM_TEST(sigprof_is_not_given_back_too_early_to_a_user_of_many_groups)
{
    struct puppet puppet;

    sim_hook(join_groups);
    leave_pending(&puppet);
    start_and_stop_another();
    CHECK(!sigprof_is(on_host_signal));
    CHECK(cp__os_has_own_signal(cp__os_blocked_of(puppet.worker.tid)));
    run_puppet(&puppet, unblock_samples, 0);
    CHECK_EQ(host_signals, 0);
    run_puppet(&puppet, reach_scheduling_point, 0);
    CHECK(sigprof_is(on_host_signal));
    end_puppet(&puppet);
}

/* The signal of an event that was closed names the descriptor of the next one. The thread runs for a
 * millisecond. */
static void check_not_of_next(const char *event, uint64_t period, bool has_rings, uint64_t samples)
{
    struct cp_slot_request next = request(event, period);
    struct profile profile = {.n = 0};
    struct puppet puppet;

    next.config.engine = CP_ENGINE_SIGNAL;
    leave_pending(&puppet);
    start_unread(&profile, &next, 1);
    sim->ring_memory = has_rings ? 0 : 1;
    run_puppet(&puppet, unblock_samples, 0);
    run_puppet(&puppet, burn_a, MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, samples);
    CHECK_EQ(profile.stats[0].lost, 0);
    end_puppet(&puppet);
}

SIM_TEST(a_signal_of_a_closed_event_is_no_sample_of_the_next_clock)
{
    check_not_of_next("taskClock", 4 * MS, true, 0);
}

SIM_TEST(a_signal_of_a_closed_event_is_no_sample_of_the_next_event)
{
    check_not_of_next("pageFaults", 1000000, true, 0);
}

/* The next event's own signals have samples. */
SIM_TEST(a_signal_of_a_closed_event_is_no_sample_of_the_next_one_without_a_ring)
{
    check_not_of_next("taskClock", MS / 2, false, 2);
}

/* The kernel takes the signal off the queue just before the event is closed: no look at the queue finds it,
 * and the handler begins afterwards, once. */
SIM_TEST(a_handler_that_begins_after_its_event_was_closed_is_not_the_programs)
{
    struct puppet puppet;

    leave_pending(&puppet);
    run_puppet(&puppet, unblock_samples, 0);
    start_and_stop_another();
    CHECK_EQ(m_of(&puppet)->late, CP__LATE_BEGINNING);
    run_puppet(&puppet, begin_late, 0);
    CHECK_EQ(host_signals, 0);
    CHECK_EQ(m_of(&puppet)->late, CP__LATE_NO);
    run_puppet(&puppet, begin_late, 0); /* such a signal is somebody else's from now on */
    CHECK_EQ(host_signals, 1);
    end_puppet(&puppet);
}

/* A thread that has a signal pending looks at its next scheduling point, takes the signal, and gives SIGPROF
 * back. */
SIM_TEST(a_scheduling_point_takes_the_signal_of_a_closed_event)
{
    struct puppet puppet;

    leave_pending(&puppet);
    CHECK_EQ(m_of(&puppet)->head.generation, 0);
    run_puppet(&puppet, reach_scheduling_point, 0);
    CHECK_EQ(m_of(&puppet)->late, CP__LATE_NO);
    CHECK(sigprof_is(on_host_signal));
    run_puppet(&puppet, unblock_samples, 0);
    CHECK_EQ(host_signals, 0);
    end_puppet(&puppet);
}

/* An event that has counted nothing has raised no signal, so SIGPROF is given back without a look. */
static void check_nothing_comes(struct cp_slot_request event, uint64_t run_ns)
{
    struct puppet puppet;
    int slot;

    event.config.engine = CP_ENGINE_SIGNAL;
    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    start_puppet(&puppet);
    slot = started(&event);
    CHECK_EQ(m_of(&puppet)->armed, 1u << slot);
    run_puppet(&puppet, burn_a, run_ns);
    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    CHECK_EQ(m_of(&puppet)->late, CP__LATE_NO);
    CHECK(sigprof_is(on_host_signal));
    cp_slots_release(&slot, 1);
    end_puppet(&puppet);
}

SIM_TEST(an_event_of_a_thread_that_has_slept_leaves_no_signal)
{
    check_nothing_comes(request("taskClock", MS), 0);
}

SIM_TEST(an_event_that_has_counted_nothing_leaves_no_signal)
{
    check_nothing_comes(request("pageFaults", 1), MS);
}

/* ---- Threads that sleep ---------------------------------------------------------------------- */

static struct puppet sleeper;
static int asked, closed;

static bool is_its_event(long fd)
{
    return m_of(&sleeper)->handles[0].is_open && cp__perf_of(m_of(&sleeper))->handles[0].events[0].fd == fd;
}

/* Counts what the event of `sleeper` is asked for, beside its id. */
static long count_asked(long number, const long arguments[6])
{
    if (is_its_event(arguments[0])) {
        asked += number == SYS_read || (number == SYS_ioctl && arguments[1] == PERF_EVENT_IOC_DISABLE);
        closed += number == SYS_close;
    }
    return sim_hand_on(number, arguments);
}

/* The event is only closed, unless its thread has run. */
SIM_TEST(an_event_of_a_thread_that_has_slept_is_only_closed)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_TRAP);

    start_puppet(&sleeper);
    sim_hook(count_asked);
    for (int slot, has_run = 0; has_run < 2; has_run++) {
        slot = started(&clock);
        asked = closed = 0;
        if (has_run)
            run_puppet(&sleeper, burn_a, MS / 2);
        CHECK_EQ(cp_slots_stop(&slot, 1), 0);
        cp_slots_release(&slot, 1);
        CHECK_EQ(asked, 2 * has_run);
        CHECK_EQ(closed, 1);
    }
    sim_hook(sim_hand_on);
    end_puppet(&sleeper);
}

static long wake_at_close(long number, const long arguments[6])
{
    if (number == SYS_close && is_its_event(arguments[0]) && !closed) {
        closed = 1;
        run_puppet(&sleeper, block_samples, 3 * MS);
    }
    return sim_hand_on(number, arguments);
}

/* The thread has slept when it is looked at, and blocks its signal and runs before the event is closed. */
SIM_TEST(a_thread_that_wakes_when_its_event_is_closed_may_have_a_signal)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL);
    int slot;

    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    start_puppet(&sleeper);
    slot = started(&clock);
    sim_hook(wake_at_close);
    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    cp_slots_release(&slot, 1);
    CHECK_EQ(m_of(&sleeper)->late, CP__LATE_PENDING);
    run_puppet(&sleeper, unblock_samples, 0);
    CHECK_EQ(host_signals, 0);
    sim_hook(sim_hand_on);
    end_puppet(&sleeper);
}

/* A tick of a timer names its config. */
SIM_TEST(a_tick_that_is_pending_when_its_timer_is_deleted_is_not_the_programs)
{
    const struct cp_slot_request timer = request("timer", MS);
    struct puppet puppet;
    struct profile profile = {.n = 0};

    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    start_puppet(&puppet);
    start_unread(&profile, &timer, 1);
    run_puppet(&puppet, block_samples, 3 * MS);
    run_puppet(&puppet, burn_a, 2 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 5); /* the tick that is pending stands for those that followed it */
    CHECK_EQ(profile.stats[0].late, 5);
    CHECK_EQ(m_of(&puppet)->late, CP__LATE_PENDING);
    CHECK(!sigprof_is(on_host_signal));
    run_puppet(&puppet, unblock_samples, 0);
    CHECK_EQ(host_signals, 0);
    run_puppet(&puppet, reach_scheduling_point, 0);
    CHECK(sigprof_is(on_host_signal));
    end_puppet(&puppet);
}

static struct puppet taker;

/* The thread takes its pending tick just before the timer is deleted. */
static long let_tick_come(long number, const long arguments[6])
{
    if (number == SYS_timer_delete)
        run_puppet(&taker, unblock_samples, 0);
    return sim_hand_on(number, arguments);
}

/* The timer's tick was seen to be pending, and then the handler has kept it. */
SIM_TEST(a_tick_that_comes_while_its_timer_is_deleted_counts_once)
{
    const struct cp_slot_request timer = request("timer", MS);
    struct profile profile = {.n = 0};

    start_puppet(&taker);
    start_unread(&profile, &timer, 1);
    run_puppet(&taker, block_samples, 3 * MS);
    run_puppet(&taker, burn_a, 2 * MS);
    sim_hook(let_tick_come);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 5);
    end_puppet(&taker);
}

/* The handler has kept a tick before, and another one is pending. */
SIM_TEST(a_tick_that_is_pending_does_not_stand_for_one_that_was_kept)
{
    const struct cp_slot_request timer = request("timer", MS);
    struct profile profile = {.n = 0};

    start_puppet(&taker);
    start_unread(&profile, &timer, 1);
    CHECK(cp__m_claim_from_handler(m_of(&taker), CP__CLAIM_CHANGING));
    run_puppet(&taker, burn_a, 3 * MS);
    cp__m_unclaim_from_handler(m_of(&taker));
    run_puppet(&taker, block_samples, 2 * MS);
    run_puppet(&taker, burn_a, 2 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 7);
    end_puppet(&taker);
}

/* ---- A signal that is blocked for a moment --------------------------------------------------- */

/* Blocks SIGPROF until its event is closed, and for a moment longer: so does a thread that is in its handler
 * then. The signal that is pending comes at once afterwards. */
static void body_blocks_for_a_moment(struct worker *worker)
{
    const struct cp__m *m = (struct cp__m *)worker->m;

    mask_samples(SIG_BLOCK);
    burn_a(MS);
    CHECK(is_pending(SIGPROF));
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await(), burn.h */
    /* relaxed, both: stored by the thread that closes the event */
    while (cp_load_relaxed(&m->armed) != 0)
        SPIN_HERE();
    for (int looks = 0; looks < 20 && cp_load_relaxed(&m->late) == CP__LATE_PENDING; looks++)
        SPIN_HERE();
    burn_a(MS / 10);
    mask_samples(SIG_UNBLOCK);
    burn_c(&worker->stop);
}

/* SIGPROF can be given back when the stop ends. */
SIM_TEST(a_stop_waits_for_a_signal_that_is_blocked_for_a_moment)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL);
    struct worker worker;
    int slot;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer keeps signals back, and the system does not know of them");
    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    slot = started(&clock);
    start_worker(&worker, body_blocks_for_a_moment, NULL);
    await(&worker.running, 2);
    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    CHECK(sigprof_is(on_host_signal));
    CHECK_EQ(host_signals, 0);
    cp_slots_release(&slot, 1);
    stop_worker(&worker);
}

/* ---- Who closes is sampled, too --------------------------------------------------------------- */

static int calls, unblocked;

static void take_nothing(void *context, const struct cp_sample *sample)
{
    (void)context;
    (void)sample;
}

static long look_at_mask(long number, const long arguments[6])
{
    sigset_t now;

    if (number == SYS_ioctl || number == SYS_membarrier) {
        pthread_sigmask(SIG_SETMASK, NULL, &now);
        calls++;
        unblocked += sigismember(&now, SIGPROF) == 0;
    }
    return sim_hand_on(number, arguments);
}

/* The first write to a ring's page is a page fault that the kernel does not end while a signal is pending. */
SIM_TEST(who_changes_handles_of_others_takes_no_signal)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL);
    struct puppet puppet;
    int slot;

    start_puppet(&puppet);
    slot = started(&clock);
    run_puppet(&puppet, block_samples, 3 * MS);
    sim_hook(look_at_mask);
    cp_slots_read(slot, take_nothing, NULL);
    CHECK(calls > 0);
    calls = 0;
    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    CHECK(calls > 0);
    CHECK_EQ(unblocked, 0);
    cp_slots_release(&slot, 1);
    end_puppet(&puppet);
}

/* ---- Traps ----------------------------------------------------------------------------------- */

static bool was_trapped;

/* Blocks its signals, so that a trap waits. */
static void block_trap(uint64_t ns)
{
    block_samples(ns);
    was_trapped = is_pending(SIGTRAP);
}

/* A pending trap would end another program. */
static void execute_nothing(uint64_t ns)
{
    (void)ns;
    was_trapped = is_pending(SIGTRAP);
    cp_before_exec();
    CHECK(!is_pending(SIGTRAP));
    cp_after_exec();
}

SIM_TEST(no_trap_of_a_closed_event_waits_for_another_program)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_TRAP);
    struct puppet puppet;
    int slot;

    start_puppet(&puppet);
    slot = started(&clock);
    run_puppet(&puppet, block_trap, 3 * MS);
    CHECK(was_trapped);
    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    cp_slots_release(&slot, 1);
    CHECK_EQ(m_of(&puppet)->armed, 0);
    run_puppet(&puppet, execute_nothing, 0);
    CHECK(was_trapped);
    run_puppet(&puppet, unblock_samples, 0);
    end_puppet(&puppet);
}

/* The handler of SIGTRAP is never given back. */
SIM_TEST(a_trap_that_comes_when_its_event_is_closed_is_the_librarys)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_TRAP);
    struct puppet puppet;
    int slot;

    start_puppet(&puppet);
    CHECK(signal(SIGTRAP, on_host_signal) != SIG_ERR);
    slot = started(&clock);
    run_puppet(&puppet, block_trap, 3 * MS);
    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    cp_slots_release(&slot, 1);
    CHECK_EQ(m_of(&puppet)->late, CP__LATE_NO);
    run_puppet(&puppet, unblock_samples, 0);
    CHECK_EQ(host_signals, 0);
    end_puppet(&puppet);
}
