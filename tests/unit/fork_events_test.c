/*
 * A fork waits while another thread opens or closes events: the child could not find the events' descriptors,
 * and they would stay open in the child. Each call below is repeated several times. In each repetition a fork
 * comes at another moment, when the call has just opened, or is about to close, an event.
 */
#include "tests/support/burn.h"

#include <linux/futex.h>
#include <linux/perf_event.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "counter.h"
#include "runtime/base/fork_gate.h"
#include "runtime/cost.h"
#include "runtime/engine/engines.h"
#include "runtime/engine/perf_m_linux.h"
#include "runtime/m.h"
#include "runtime/pass.h"
#include "runtime/switch_cost.h"
#include "tests/support/puppet.h"
#include "tests/support/stub_syscall.h"

static struct {
    bool has_files; /* opening a file of a thread is such a moment, too */
    int moments;    /* atomic: the number of events that were opened or closed */
    int chosen;     /* the moment of the fork; -1: none */
    pid_t thread;   /* whose moments count; 0: any but the forking thread's */
    sem_t has_come;
    int outcome; /* atomic: 0, or one of these outcomes, whichever comes first */
} play = {.chosen = -1};
enum { WAITS = 1, FORKED };

static _Thread_local bool is_forker;
static int longest_wait_ms; /* atomic: of any thread but the forking one */

static void tell(int outcome)
{
    int none = 0;

    cp_compare_exchange(&play.outcome, &none, outcome);
}

/* If this is the moment, lets the other thread fork, and waits until that thread has forked or waits for this
 * one. */
static void note_moment(void)
{
    if (is_forker || (play.thread != 0 && gettid() != play.thread))
        return;
    if (cp_fetch_add_relaxed(&play.moments, 1) != play.chosen) /* relaxed: a number of its own */
        return;
    sem_post(&play.has_come);
    await(&play.outcome, WAITS);
}

/* The simulated kernel has no watchpoints: a clock stands for the one that is probed here. */
static long open_event(const long a[6])
{
    struct perf_event_attr attr = *(const struct perf_event_attr *)a[0];

    if (attr.type == PERF_TYPE_BREAKPOINT) {
        attr.type = PERF_TYPE_SOFTWARE;
        attr.config = PERF_COUNT_SW_TASK_CLOCK;
    }
    return hand_on(SYS_perf_event_open, (long[]){(long)&attr, a[1], a[2], a[3], a[4], a[5]});
}

static bool is_event(int fd)
{
    uint64_t id;

    return hand_on(SYS_ioctl, (long[6]){fd, PERF_EVENT_IOC_ID, (long)&id}) == 0;
}

static void note_wait(const struct timespec *timeout)
{
    int ms = (int)(timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000);

    if (is_forker)
        tell(WAITS);
    else if (ms > cp_load_relaxed(&longest_wait_ms)) /* relaxed: only one thread waits for a fork */
        cp_store_release(&longest_wait_ms, ms);      /* pairs with the acquire in await() */
}

static long stub_syscall(long number, const long a[6])
{
    long result;

    if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
        note_wait((const struct timespec *)a[3]);
    if (number == SYS_close && is_event((int)a[0]))
        note_moment();
    result = number == SYS_perf_event_open ? open_event(a) : hand_on(number, a);
    if (number == SYS_perf_event_open && result >= 0)
        note_moment();
    if (number == SYS_openat && play.has_files && strncmp((const char *)a[1], "/proc/self/task", 15) == 0)
        note_moment();
    return result;
}

static void *fork_at_moment(void *arg)
{
    pid_t child;

    is_forker = true;
    sem_wait(&play.has_come);
    child = fork();
    if (child == 0)
        _exit(0);
    tell(FORKED);
    waitpid(child, NULL, 0);
    return arg;
}

/* Returns false if the call ended before the moment came. */
static bool play_with_fork(void (*call)(void), int moment)
{
    pthread_t forker;
    bool has_come;

    play.moments = play.outcome = 0;
    play.chosen = moment;
    sem_init(&play.has_come, 0, 0);
    CHECK_EQ(pthread_create(&forker, NULL, fork_at_moment, NULL), 0);
    call();
    has_come = cp_load_relaxed(&play.moments) > moment; /* relaxed: its threads have ended */
    if (!has_come)
        sem_post(&play.has_come);
    pthread_join(forker, NULL);
    play.chosen = -1;
    return has_come;
}

/* Checks that a fork waits at each moment of a call, and that there are so many moments. */
static void check_delays(void (*call)(void), int moments)
{
    for (int i = 0; i < moments; i++) {
        CHECKF(play_with_fork(call, i), "only %d moments, not %d", i, moments);
        CHECKF(play.outcome == WAITS, "a fork did not wait at moment %d", i);
    }
    CHECKF(!play_with_fork(call, moments), "more than %d moments", moments);
}

/* Whether an event may count in the kernel is found out by an event that is opened and closed. Whoever tries
 * an event opens two, one of which has the ring, and closes both. An M that is armed from outside has its
 * ring after its first signal. */
#define ASKED 2
#define TRIED 4
#define ARMED 2

/* ---- What opens and closes events ------------------------------------------------------------ */

static struct cp_event_spec spec_of(const char *event)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err = {0};

    CHECKF(cp_event_parse(event, &spec, &err) == 0, "%s", err.message);
    return spec;
}

static void call_probe(void)
{
    static uint64_t watched;
    char watchpoint[40];
    struct cp_event_spec clock = spec_of("taskClock"), watch;

    snprintf(watchpoint, sizeof watchpoint, "mem:%p/8:w", (void *)&watched);
    watch = spec_of(watchpoint);
    CHECK_EQ(cp_event_probe(&clock, NULL), 0);
    CHECK_EQ(cp_event_probe(&watch, NULL), 0);
}

SIM_TEST(a_probe_delays_forks)
{
    cp__engines_prepare();
    check_delays(call_probe, 2 * (ASKED + TRIED));
}

static void call_config(void)
{
    request("taskClock", MS);
}

SIM_TEST(asking_for_the_kernels_mode_delays_forks)
{
    cp__engines_prepare();
    check_delays(call_config, ASKED);
}

static void call_counter(void)
{
    struct cp_event_spec spec = spec_of("taskClock");
    struct cp_counter *counter;

    CHECK_EQ(cp_counter_open(&counter, &spec, NULL), 0);
    cp_counter_close(counter);
}

SIM_TEST(a_counter_delays_forks)
{
    cp__engines_prepare();
    check_delays(call_counter, ASKED + 2);
}

/* The measurement has one round, if the thread that measures reads the clock until it has its samples. */
static void call_cost(void)
{
    sim->reading_ns = 1000;
    sim->cost_ns = 150000;
    cp__cost_set(0);
    cp_sample_cost_ns(NULL);
}

SIM_TEST(measuring_the_cost_delays_forks)
{
    cp__engines_prepare();
    check_delays(call_cost, TRIED);
}

static void call_switch_cost(void)
{
    cp_switch_cost_ns(CP_EVENT_CLOCK, 1);
}

SIM_TEST(measuring_a_switch_delays_forks)
{
    cp__engines_prepare();
    CHECK(play_with_fork(call_switch_cost, 0)); /* there is only one measurement in a process */
    CHECK_EQ(play.outcome, WAITS);
}

/* These events are opened once in a process, the first of them at the first moment. */
SIM_TEST(the_first_call_delays_forks)
{
    CHECK(play_with_fork(cp__engines_prepare, 0));
    CHECK_EQ(play.outcome, WAITS);
}

static void call_choice(void)
{
    enum cp_engine engine;
    const char *why;

    CHECK_EQ(cp_engine_choose(&engine, &why, NULL), 0);
    CHECK_EQ(engine, CP_ENGINE_TRAP);
}

/* An event that traps is opened and closed. */
SIM_TEST(asking_for_traps_delays_forks)
{
    need_traps(request("taskClock", 1000 * MS));
    unsetenv("CP_ENGINE");
    check_delays(call_choice, 2);
}

/* The start opens the event for a try, and then the M opens it and its ring for itself. */
static void call_start(void)
{
    struct cp_slot_request clock = signal_request("taskClock", MS);
    struct worker worker = {.body = NULL};
    int slot;

    attach(&worker);
    CHECK_EQ(cp_slots_start(&clock, 1, &slot, NULL), 0);
    cp_execute(worker.m, NULL);
    cp_slots_stop(&slot, 1);
    cp_execute(worker.m, NULL);
    cp_slots_release(&slot, 1);
    cp_m_detach(worker.m);
}

SIM_TEST(a_start_and_a_scheduling_point_delay_forks)
{
    cp__engines_prepare();
    check_delays(call_start, ASKED + TRIED + TRIED);
}

/* ---- A fork that takes long ------------------------------------------------------------------ */

static void *delay_forks(void *arg)
{
    cp__fork_delay();
    cp__fork_allow();
    return arg;
}

/* Returns for how long a thread wants to wait for a fork that has begun, in milliseconds. The time from the
 * thread's call to its wait is not in it. */
static int wait_for_fork(void)
{
    pthread_t thread;

    longest_wait_ms = 0;
    cp__fork_begins();
    CHECK_EQ(pthread_create(&thread, NULL, delay_forks, NULL), 0);
    await(&longest_wait_ms, 1);
    cp__fork_ended();
    pthread_join(thread, NULL);
    return longest_wait_ms;
}

/* A large process is forked for hundreds of milliseconds. */
CP_TEST(a_thread_waits_longer_for_a_fork_than_a_fork_for_a_thread)
{
    int tries = 0;

    cp__engines_prepare();
    while (wait_for_fork() <= 2 * CP__FORK_WAIT_MS) /* this thread may have been without a CPU for long */
        CHECK(tries++ < 20);
}

static void *delay_forks_twice(void *arg)
{
    delay_forks(arg);
    longest_wait_ms = 0;
    return delay_forks(arg);
}

CP_TEST(a_thread_waits_for_a_fork_in_vain_only_once)
{
    pthread_t thread;

    cp__engines_prepare();
    cp__fork_begins();
    CHECK_EQ(pthread_create(&thread, NULL, delay_forks_twice, NULL), 0);
    pthread_join(thread, NULL);
    cp__fork_ended();
    CHECK_EQ(longest_wait_ms, 0);
}

/* ---- Signal handlers ------------------------------------------------------------------------- */

static int events_of(const struct worker *worker)
{
    /* relaxed: it may be late */
    return __builtin_popcount(cp_load_relaxed(&((const struct cp__m *)worker->m)->armed));
}

static struct cp_slot_request clock_request;

static void call_start_beside_puppet(void)
{
    struct puppet puppet;
    int slot;

    start_puppet(&puppet);
    CHECK_EQ(cp_slots_start(&clock_request, 1, &slot, NULL), 0);
    CHECK_EQ(events_of(&puppet.worker), 1);
    cp_slots_stop(&slot, 1);
    CHECK_EQ(events_of(&puppet.worker), 0);
    cp_slots_release(&slot, 1);
    end_puppet(&puppet);
}

SIM_TEST(who_opens_another_threads_events_delays_forks)
{
    cp__engines_prepare();
    clock_request = signal_request("taskClock", MS);
    check_delays(call_start_beside_puppet, TRIED + ARMED);
}

/* The ring belongs to an event of its own. */
static void call_first_signal(void)
{
    struct puppet puppet;
    int slot;

    start_puppet(&puppet);
    CHECK_EQ(cp_slots_start(&clock_request, 1, &slot, NULL), 0);
    play.thread = puppet.worker.tid;
    run_puppet(&puppet, burn_a, 3 * MS);
    play.thread = 1;
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
    end_puppet(&puppet);
}

SIM_TEST(a_handler_that_opens_an_event_delays_forks)
{
    cp__engines_prepare();
    clock_request = signal_request("taskClock", MS);
    play.thread = 1; /* not a thread of this process: call_first_signal() names one */
    check_delays(call_first_signal, 1);
    play.thread = 0;
}

static void *pass_elsewhere(void *arg)
{
    cp__lock(&cp__runtime_lock);
    cp__pass();
    cp__unlock(&cp__runtime_lock);
    return arg;
}

static void pass(void)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, pass_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
}

/* The claim of the puppet's M is taken at the start. Another thread makes the pass, because this one does not
 * wait for its own fork. */
SIM_TEST(a_pass_opens_no_event_during_a_fork)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct puppet puppet;
    struct cp__m *m;
    int slot;

    cp__engines_prepare();
    start_puppet(&puppet);
    m = (struct cp__m *)puppet.worker.m;
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_SELF));
    CHECK_EQ(cp_slots_start(&clock, 1, &slot, NULL), 0);
    cp__m_unclaim_from_handler(m);
    cp__fork_begins();
    pass();
    CHECK_EQ(events_of(&puppet.worker), 0);
    cp__fork_ended();
    pass();
    CHECK_EQ(events_of(&puppet.worker), 1);
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
    end_puppet(&puppet);
}

static bool has_ring(const struct puppet *puppet)
{
    return cp__perf_of((struct cp__m *)puppet->worker.m)->ring.page != NULL;
}

SIM_TEST(a_handler_opens_no_event_during_a_fork)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct puppet puppet;
    int slot;

    cp__engines_prepare();
    start_puppet(&puppet);
    CHECK_EQ(cp_slots_start(&clock, 1, &slot, NULL), 0);
    cp__fork_begins();
    run_puppet(&puppet, burn_a, 3 * MS);
    CHECK(!has_ring(&puppet));
    cp__fork_ended();
    run_puppet(&puppet, burn_a, MS);
    CHECK(has_ring(&puppet));
    CHECK_EQ(((struct cp__m *)puppet.worker.m)->stats[slot].samples, 4);
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
    end_puppet(&puppet);
}

/* ---- Files of threads ------------------------------------------------------------------------ */

/* The stop asks why the thread has no samples. */
static void call_stop_beside_blocked(void)
{
    struct puppet puppet;
    int slot;

    start_puppet(&puppet);
    CHECK_EQ(cp_slots_start(&clock_request, 1, &slot, NULL), 0);
    run_puppet(&puppet, block_samples, 50 * MS);
    play.thread = gettid();
    cp_slots_stop(&slot, 1);
    play.thread = 1;
    cp_slots_release(&slot, 1);
    end_puppet(&puppet);
}

/* The thread's event and what it has for a ring are closed before. */
SIM_TEST(a_stop_that_asks_for_blocked_signals_delays_forks)
{
    cp__engines_prepare();
    clock_request = signal_request("taskClock", MS);
    play.thread = 1; /* see above */
    play.has_files = true;
    check_delays(call_stop_beside_blocked, 4);
    play.thread = 0;
}

/* By what they cost at a switch, events may leave a thread no time. */
SIM_TEST(a_pass_opens_no_file_during_a_fork)
{
    const struct cp__switch_costs costs = {.soon = 1000};
    struct cp_slot_request clock = request("taskClock", MS);
    struct puppet puppet;
    int slot;

    cp__engines_prepare();
    cp__switch_costs_set(&costs);
    start_puppet(&puppet);
    CHECK_EQ(cp_slots_start(&clock, 1, &slot, NULL), 0);
    play.has_files = true;
    for (int i = 0; i < 2; i++) {
        run_puppet(&puppet, burn_a, 200 * MS);
        play.moments = 0; /* the ring's event was one */
        if (i == 0)
            cp__fork_begins();
        pass();
        if (i == 0)
            cp__fork_ended();
        CHECK_EQ(play.moments != 0, i);
    }
    play.has_files = false;
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
    end_puppet(&puppet);
}
