/* What another thread does with the events of a thread: it opens, disables and closes them, and has to leave
 * some alone. */
#include "runtime/engine/perf_m_linux.h"
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "runtime/base/os.h"
#include "runtime/engine.h"
#include "runtime/engine/events_linux.h"
#include "runtime/m.h"
#include "runtime/outside.h"
#include "runtime/slot.h"
#include "tests/support/puppet.h"
#include "tests/support/stop_time.h"

static struct cp__m *m_of(const struct worker *worker)
{
    return (struct cp__m *)worker->m;
}

static void read_slot(int slot)
{
    struct profile_part part = {&(struct profile){.n = 0}, 0};

    cp_slots_read(slot, see, &part);
}

static int started(struct cp_slot_request request)
{
    struct cp_error err = {0};
    int slot;

    CHECKF(cp_slots_start(&request, 1, &slot, &err) == 0, "%s", err.message);
    return slot;
}

static void stop_slot(int slot)
{
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
}

/* Stops a slot that a thread holds until the stop gives up. */
static void stop_slot_in_vain(int slot)
{
    begin_stop();
    CHECK_EQ(cp_slots_stop(&slot, 1), -ETIMEDOUT);
    end_long_stop();
    cp_slots_release(&slot, 1);
}

/* ---- Threads that sleep ---------------------------------------------------------------------- */

struct sleeper {
    struct worker worker;
    int fd;
    int asked; /* asks the thread to wake up and work a little */
    int interrupted;
};

static void body_poll(struct worker *worker)
{
    struct sleeper *sleeper = worker->arg;
    struct pollfd wanted = {.fd = sleeper->fd, .events = POLLIN};
    uint64_t token;

    while (cp_load_acquire(&worker->stop) == 0) { /* pairs with the release in stop_worker() */
        if (poll(&wanted, 1, -1) < 0) {
            cp_fetch_add_relaxed(&sleeper->interrupted, 1); /* relaxed: read after the thread has ended */
            continue;
        }
        CHECK_EQ(read(sleeper->fd, &token, sizeof token), sizeof token);
        burn_a(100000);
        cp_store_release(&sleeper->asked, 0); /* pairs with the acquire in wake() */
    }
}

static void wait_asleep(const struct sleeper *sleeper)
{
    await_sleep(sleeper->worker.tid);
}

static void wake(struct sleeper *sleeper)
{
    uint64_t token = 1;

    cp_store_relaxed(&sleeper->asked, 1); /* relaxed: the write to the descriptor comes after it */
    CHECK_EQ(write(sleeper->fd, &token, sizeof token), sizeof token);
    while (cp_load_acquire(&sleeper->asked) != 0) /* pairs with the release in body_poll() */
        usleep(1000);
    wait_asleep(sleeper);
}

static void start_sleeper(struct sleeper *sleeper)
{
    *sleeper = (struct sleeper){.fd = eventfd(0, EFD_CLOEXEC)};
    start_worker(&sleeper->worker, body_poll, sleeper);
    wait_asleep(sleeper);
}

static void stop_sleeper(struct sleeper *sleeper)
{
    uint64_t token = 1;

    cp_store_release(&sleeper->worker.stop, 1);
    CHECK_EQ(write(sleeper->fd, &token, sizeof token), sizeof token);
    join_worker(&sleeper->worker);
    close(sleeper->fd);
}

/* A signal would interrupt the thread's poll(). */
SIM_TEST(a_thread_that_sleeps_is_not_interrupted)
{
    struct sleeper sleeper;

    start_sleeper(&sleeper);
    for (int i = 0; i < 20; i++) {
        int slot = started(request("timer", 10 * MS));

        read_slot(slot);
        wake(&sleeper);
        read_slot(slot);
        read_slot(slot);
        stop_slot(slot);
    }
    CHECK_EQ(sleeper.interrupted, 0);
    stop_sleeper(&sleeper);
}

/* ---- Handles that another thread opens ------------------------------------------------------- */

/* Sleeps, runs for 50 ms, and sleeps again. */
static void body_sleeps_and_runs(struct worker *worker)
{
    const int *fd = worker->arg;
    uint64_t token;

    CHECK_EQ(read(*fd, &token, sizeof token), sizeof token); /* not interrupted */
    burn_a(50 * MS);
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await() */
    await(&worker->stop, 1);
}

/* The thread sleeps when its event is opened, is not interrupted, and is sampled when it wakes. */
static void check_opened_for(struct cp_slot_request request, uint64_t samples)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    uint64_t token = 1;
    struct worker worker;
    struct cp__m *m;
    struct cp__count count;
    int slot;

    start_worker(&worker, body_sleeps_and_runs, &fd);
    m = m_of(&worker);
    await_sleep(worker.tid);
    slot = started(request);
    CHECK_EQ(m->armed, 1u << slot);
    CHECK_EQ(write(fd, &token, sizeof token), sizeof token);
    await(&worker.running, 2);
    CHECK_EQ(m->stats[slot].samples, samples);
    CHECK_EQ(m->stats[slot].signals, samples);
    if (m->handles[slot].engine->read != NULL) {
        CHECK(m->handles[slot].engine->read(m, slot, &count));
        CHECK_EQ(count.time_running, 50 * MS);
    }
    stop_worker(&worker);
    stop_slot(slot);
    CHECK_EQ(resources_now().perf_fds, 0);
    CHECK_EQ(resources_now().timers, 0);
    CHECK(sigprof_is(SIG_DFL));
    close(fd);
}

SIM_TEST(a_timer_that_another_thread_opens_ticks_on_the_ms_clock)
{
    check_opened_for(request("timer", 10 * MS), 5);
}

SIM_TEST(an_event_that_another_thread_opens_counts_and_signals_on_the_ms_thread)
{
    check_opened_for(signal_request("taskClock", MS), 50);
}

/* ---- Threads that run ------------------------------------------------------------------------ */

static struct {
    int ordered, done; /* atomic: the CPU time that the thread is to have, and has had, in units of 100 us */
} runs;
#define UNIT (MS / 10)

/* Spins, with SIGPROF blocked, and has CPU time if let_run() says so. */
static void body_blocks_sigprof(struct worker *worker)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    cp_store_release(&worker->running, 2);        /* pairs with the acquire in await() */
    while (cp_load_acquire(&worker->stop) == 0) { /* pairs with the release in stop_worker() */
        SPIN_HERE();
        for (; cp_load_acquire(&runs.ordered) > runs.done; cp_store_release(&runs.done, runs.done + 1))
            SIM_RUN(UNIT); /* the loop's atomics pair with let_run() and await() */
    }
    cp_m_detach(worker->m); /* the signal is blocked, so none of the host's may be lost */
    cp_m_attach(&worker->m, NULL);
}

/* Lets the thread run, and returns when it has run. */
static void let_run(uint64_t ns)
{
    int ordered = runs.ordered + (int)(ns / UNIT);

    cp_store_release(&runs.ordered, ordered); /* pairs with the acquire in body_blocks_sigprof() */
    await(&runs.done, ordered);
}

static void start_blocked(struct worker *worker)
{
    start_worker(worker, body_blocks_sigprof, NULL);
    await(&worker->running, 2);
    let_run(3 * MS);
}

static uint64_t count_of(const struct worker *worker, int slot)
{
    uint64_t values[4];

    CHECK(read(cp__perf_of(m_of(worker))->handles[slot].events[0].fd, values, sizeof values) > 0);
    return values[0];
}

/* The thread stands for one in a handler to which its samples leave no time. */
SIM_TEST(a_stop_disables_the_event_of_a_thread_that_is_in_its_handler)
{
    int slots[] = {started(signal_request("taskClock", MS)), started(signal_request("cpuClock", MS))};
    struct worker worker;
    struct cp__m *m;

    start_blocked(&worker);
    m = m_of(&worker);
    CHECK_EQ(m->armed, 1u << slots[0] | 1u << slots[1]);
    cp_store_relaxed(&m->runs, m->runs + 1); /* relaxed, both: the thread has its signal blocked */
    stop_slot_in_vain(slots[0]);
    CHECK_EQ(m->off, 1u << slots[0]);
    CHECK_EQ(m->claim, CP__CLAIM_NONE);
    let_run(2 * MS);
    CHECK_EQ(count_of(&worker, slots[0]), 3 * MS);
    CHECK_EQ(count_of(&worker, slots[1]), 5 * MS);
    cp_store_relaxed(&m->runs, m->runs + 1);
    stop_worker(&worker);
    stop_slot(slots[1]);
    CHECK_EQ(resources_now().perf_fds, 0);
    CHECK(sigprof_is(SIG_DFL));
}

/* The handler enables again what it paused, except what another thread disabled meanwhile. */
SIM_TEST(what_was_disabled_from_outside_stays_so_when_a_handler_ends)
{
    struct worker worker;
    struct cp__m *m;
    int slot = started(signal_request("taskClock", MS));

    start_blocked(&worker);
    m = m_of(&worker);
    cp__perf_of(m)->pausing = cp__perf_of(m)->paused =
        1u << slot; /* as the M's handler would set them; the thread blocks its signal */
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_OUTSIDE));
    cp__events_disable(m, slot);
    cp__m_unclaim_from_handler(m);
    cp__events_resume_from_handler(m);
    cp__perf_of(m)->pausing = cp__perf_of(m)->paused = 0;
    let_run(2 * MS);
    CHECK_EQ(count_of(&worker, slot), 3 * MS);
    stop_worker(&worker);
    stop_slot(slot);
}

/* If the handler paused an event that another thread has disabled, it would enable that event at its end for
 * a moment. If the event is one that leaves its thread no time, that moment is enough for its next sample. */
SIM_TEST(what_was_disabled_from_outside_is_not_paused)
{
    struct worker worker;
    struct cp__m *m;
    int slots[] = {started(signal_request("taskClock", MS)), started(signal_request("cpuClock", MS))};

    start_blocked(&worker);
    m = m_of(&worker);
    cp__perf_of(m)->pausing =
        1u << slots[0] | 1u << slots[1]; /* the thread blocks its signal, so no handler pauses */
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_OUTSIDE));
    cp__events_disable(m, slots[0]);
    cp__m_unclaim_from_handler(m);
    cp__events_pause_from_handler(m);
    CHECK_EQ(cp__perf_of(m)->paused, 1u << slots[1]);
    let_run(2 * MS);
    CHECK_EQ(count_of(&worker, slots[1]), 3 * MS);
    cp__events_resume_from_handler(m);
    cp__perf_of(m)->pausing = cp__perf_of(m)->paused = 0;
    let_run(2 * MS);
    CHECK_EQ(count_of(&worker, slots[0]), 3 * MS);
    CHECK_EQ(count_of(&worker, slots[1]), 5 * MS);
    stop_worker(&worker);
    stop_slot(slots[0]);
    stop_slot(slots[1]);
}

/* ---- The claim ------------------------------------------------------------------------------- */

/* An M that holds its claim may be about to arm a timer for a slot that it saw before the stop, so a signal
 * may still come. */
SIM_TEST(the_handler_stays_while_an_m_is_changing_its_handles)
{
    struct sleeper sleeper;
    int slot;

    start_sleeper(&sleeper);
    CHECK(cp__m_claim_from_handler(m_of(&sleeper.worker), CP__CLAIM_SELF));
    slot = started(request("timer", 10 * MS));
    CHECK_EQ(m_of(&sleeper.worker)->armed, 0);
    stop_slot_in_vain(slot);
    CHECK(!sigprof_is(SIG_DFL));
    cp__m_unclaim_from_handler(m_of(&sleeper.worker));
    stop_slot(started(request("timer", 10 * MS)));
    CHECK(sigprof_is(SIG_DFL));
    stop_sleeper(&sleeper);
}

static void body_execute_on_demand(struct worker *worker)
{
    for (int n = 1; n <= 2; n++) {
        cp_execute(worker->m, NULL);
        cp_store_release(&worker->running, 1 + n); /* pairs with the acquire in await() */
        await(&worker->stop, n);
    }
}

SIM_TEST(an_m_that_finds_the_claim_taken_looks_again)
{
    struct worker worker;
    int slot = started(request("timer", 10 * MS));
    int other;

    start_worker(&worker, body_execute_on_demand, NULL);
    await(&worker.running, 2);
    CHECK_EQ(m_of(&worker)->armed, 1u << slot);
    CHECK(cp__m_claim_from_handler(m_of(&worker), CP__CLAIM_OUTSIDE));
    other = started(request("timer", 20 * MS));
    cp_store_release(&worker.stop, 1); /* pairs with the acquire in await() */
    await(&worker.running, 3);
    CHECK_EQ(m_of(&worker)->armed, 1u << slot);
    CHECK(m_of(&worker)->head.generation != cp_generation);
    cp__m_unclaim_from_handler(m_of(&worker));
    cp_store_release(&worker.stop, 2);
    join_worker(&worker);
    stop_slot(slot);
    stop_slot(other);
}

SIM_TEST(a_detach_waits_for_the_claim)
{
    struct worker worker;
    int slot = started(request("timer", 10 * MS));
    pid_t tid;

    start_worker(&worker, body_execute_on_demand, NULL);
    await(&worker.running, 2);
    tid = worker.tid;
    cp__lock(&cp__runtime_lock);
    CHECK(cp__m_claim_from_handler(m_of(&worker), CP__CLAIM_OUTSIDE));
    cp_store_release(&worker.stop, 1);
    await(&worker.running, 3);
    cp_store_release(&worker.stop, 2);
    while (cp_load_relaxed(&m_of(&worker)->life) == CP__M_LIVE) /* relaxed: what follows waits, too */
        usleep(1000);
    await_sleep(tid); /* until the worker waits for the lock in cp_m_detach() */
    cp__m_unclaim_from_handler(m_of(&worker));
    cp__unlock(&cp__runtime_lock);
    join_worker(&worker);
    CHECK_EQ(resources_now().timers, 0);
    stop_slot(slot);
}

/* ---- The signal ------------------------------------------------------------------------------ */

static void on_sigprof(int signal)
{
    (void)signal;
}

SIM_TEST(a_handler_that_was_put_over_ours_stays)
{
    int slot = started(request("timer", 10 * MS));

    signal(SIGPROF, on_sigprof);
    stop_slot(slot);
    CHECK(sigprof_is(on_sigprof));
}
