/* What armed events cost at the switches between threads, on the simulated kernel: a test says how much that
 * is. tests/live/sample_cost_test.c measures what this machine's switches cost. */
#include "tests/support/puppet.h"
#include "tests/support/resources.h"
#include "tests/support/stub_syscall.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include "runtime/base/os.h"
#include "runtime/cost.h"
#include "runtime/m.h"
#include "runtime/switch_cost.h"

#define US UINT64_C(1000)

/* ---- The measurement ------------------------------------------------------------------------- */

/* What a switch costs, so far apart that a busy machine confuses none with another. */
static const struct cp__switch_costs real = {0, 1600 * US, 400 * US, 100 * US};

/* A measurement opens so many events. */
#define A_MEASUREMENT 12

/* On the thread that measures: what its event costs, and that event's descriptor. */
static _Thread_local uint64_t armed_ns;
static _Thread_local long armed_fd = -1;
static _Thread_local bool is_measuring;
/* One thread after the other uses these. */
static int opened;               /* how many events with a period were opened */
static bool is_dear_at_first;    /* the first measurement finds 16 times as much as the next ones */
static bool is_busy;             /* no thread gets a CPU soon */
static void (*when_armed)(void); /* is called once, when an event has been opened; NULL: none */

static uint64_t cost_of(const struct perf_event_attr *attr)
{
    if (attr->config == PERF_COUNT_SW_PAGE_FAULTS)
        return real.other;
    return attr->sample_period < cp__os_tick_ns() ? real.soon : real.later;
}

static void note_call(long number, const long a[6], long result)
{
    void (*call)(void);

    if (number == SYS_perf_event_open && result >= 0 &&
        ((const struct perf_event_attr *)a[0])->sample_period != 0) {
        is_measuring = true;
        armed_fd = result;
        armed_ns = cost_of((const void *)a[0]) / (is_dear_at_first && opened >= A_MEASUREMENT ? 16 : 1);
        opened++;
        call = when_armed;
        when_armed = NULL;
        if (call != NULL)
            call();
    } else if (number == SYS_close && a[0] == armed_fd) {
        armed_fd = -1;
        armed_ns = 0;
    }
}

/* Each trip wakes the other thread once. */
static long stub_syscall(long number, const long a[6])
{
    long result;

    if (!sim_is_on())
        return hand_on(number, a);
    if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE && is_measuring)
        sim_happen((struct sim_run){SIM_TIME, is_busy ? 50 * MS : armed_ns, 0});
    result = hand_on(number, a);
    note_call(number, a, result);
    return result;
}

static void check_near(uint64_t ns, uint64_t wanted)
{
    CHECKF(ns > wanted / 2 && ns < 2 * wanted, "%llu ns, and not %llu", (unsigned long long)ns,
           (unsigned long long)wanted);
}

SIM_TEST(what_a_switch_costs_is_measured_once)
{
    const uint64_t tick = cp__os_tick_ns();
    struct resources before, after;
    int n_opened;

    cp__cost_set(0);
    cp_sample_cost_ns(NULL); /* prepares what is prepared once */
    opened = 0;
    before = resources_now();
    check_near(cp_switch_cost_ns(CP_EVENT_CLOCK, 1), real.soon);
    check_near(cp_switch_cost_ns(CP_EVENT_CLOCK, 1000 * tick), real.later);
    check_near(cp_switch_cost_ns(CP_EVENT_SOFTWARE, 1), real.other);
    CHECK_EQ(cp_switch_cost_ns(CP_EVENT_TIMER, 1), 0);
    n_opened = sim_opened(NULL);
    CHECK_EQ(opened, A_MEASUREMENT);
    CHECK(cp_switch_cost_ns(CP_EVENT_HARDWARE, 1) == cp_switch_cost_ns(CP_EVENT_SOFTWARE, 1));
    CHECK_EQ(sim_opened(NULL), n_opened);
    CHECK(sigprof_is(SIG_DFL));
    after = resources_now();
    check_resources(&after, &before, 0);
}

SIM_TEST(without_events_nothing_is_known_and_nothing_is_tried_again)
{
    sim_fail(SYS_perf_event_open, 1, EPERM, true);
    CHECK_EQ(cp_switch_cost_ns(CP_EVENT_CLOCK, 1), 0);
    CHECK(cp__switch_costs_are_known());
    sim_fail(SIM_NONE, 0, 0, false);
    CHECK_EQ(cp_switch_cost_ns(CP_EVENT_CLOCK, 1), 0);
}

/* The measurement ends after 0.3 s, and is not begun again soon. */
SIM_TEST(on_a_busy_machine_nothing_is_known_for_a_while)
{
    is_busy = true;
    CHECK_EQ(cp_switch_cost_ns(CP_EVENT_CLOCK, 1), 0);
    CHECK(!cp__switch_costs_are_known());
    is_busy = false;
    opened = 0;
    CHECK_EQ(cp_switch_cost_ns(CP_EVENT_CLOCK, 1), 0);
    CHECK_EQ(opened, 0);
}

static int signalled; /* atomic: 1: a thread of the program has had the signal; 2: another one */
static int measures;  /* atomic: the thread that measures */

static void on_host_signal(int signal)
{
    (void)signal;
    /* pairs with the acquire in await(), burn.h; the load with the release in signal_thread() */
    cp_store_release(&signalled, cp__os_tid() == cp_load_acquire(&measures) ? 2 : 1);
}

static void signal_thread(void)
{
    cp_store_release(&measures, cp__os_tid()); /* pairs with the acquire in on_host_signal() */
    syscall(SYS_tgkill, getpid(), cp__os_tid(), SIGPROF);
}

/* The thread that measures gives the signal back, and no library's thread calls the program's handler. */
SIM_TEST(a_signal_of_the_programs_reaches_the_program)
{
    if (TEST_TSAN)
        SKIP(
            "ThreadSanitizer keeps a signal until its thread calls the C library, and that thread may sleep");
    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    when_armed = signal_thread;
    check_near(cp_switch_cost_ns(CP_EVENT_CLOCK, 1), real.soon);
    CHECK(when_armed == NULL);
    await(&signalled, 1);
    CHECK(sigprof_is(on_host_signal));
}

/* ---- What is known --------------------------------------------------------------------------- */

static const struct cp__switch_costs example = {1000, 9000, 1000, 500};

/* The thread gets its CPU at any time between two ticks, and between two expiries. */
CP_TEST(a_clock_costs_less_the_longer_its_period_is)
{
    const uint64_t tick = cp__os_tick_ns();

    CHECK(tick >= MS && tick <= 10 * MS);
    cp__switch_costs_set(&example);
    CHECK_EQ(cp__switch_cost_known(CP_EVENT_CLOCK, 1), 8999);
    CHECK_EQ(cp__switch_cost_known(CP_EVENT_CLOCK, tick / 2), 7000);
    CHECK_EQ(cp__switch_cost_known(CP_EVENT_CLOCK, tick), 5000);
    CHECK_EQ(cp__switch_cost_known(CP_EVENT_CLOCK, 4 * tick), 2000);
    CHECK_EQ(cp__switch_cost_known(CP_EVENT_CLOCK, 4000 * tick), 1001);
    CHECK_EQ(cp__switch_cost_known(CP_EVENT_TIMER, 1), 0); /* the kernel looks at it at ticks */
    CHECK_EQ(cp__switch_cost_known(CP_EVENT_TRACEPOINT, 1), 500);
    cp__switch_costs_set(&(struct cp__switch_costs){.soon = 900, .later = 1000}); /* noise */
    CHECK_EQ(cp__switch_cost_known(CP_EVENT_CLOCK, 1), 1000);
}

/* ---- Starts ---------------------------------------------------------------------------------- */

#define WINDOW (100 * MS)

/* At a switch, a clock of 1 ms costs seven eighths of that, and one of 10 ms a fifth. */
static const struct cp__switch_costs dear = {.soon = MS};

static void switch_and_burn(uint64_t switches)
{
    SIM_SWITCH(switches);
    burn_a(WINDOW);
}

static void switch_without_time(uint64_t switches)
{
    SIM_SWITCH(switches);
    burn_a(MS);
}

static void begin(void)
{
    if (cp__os_tick_ns() != 4 * MS)
        SKIP("the figures are those of a tick of 4 ms");
    cp__switch_costs_set(&dear);
}

static int start(const char *event, uint64_t period, struct cp_slot_stats *stats, struct cp_error *err)
{
    const struct cp_slot_request one = request(event, period);
    int slot, result = cp_slots_start(&one, 1, &slot, err);

    if (result < 0)
        return result;
    *stats = (struct cp_slot_stats){.size = sizeof *stats};
    CHECK_EQ(cp_slots_stats(slot, stats), 0);
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
    return 0;
}

/* 10 000 switches in a second of CPU time are 8.75 s longer, which leaves a thread a tenth; samples that take
 * a twentieth leave it less. */
SIM_TEST(a_start_is_refused_if_switches_and_samples_leave_no_time)
{
    struct cp_slot_stats stats;
    struct cp_error err = {0};
    struct puppet puppet;

    begin();
    start_puppet(&puppet);
    CHECK_EQ(start("taskClock", MS, &stats, &err), 0);
    CHECK_EQ(stats.cost_percent, 0);
    run_puppet(&puppet, switch_and_burn, 1000);
    CHECKF(start("taskClock", MS, &stats, &err) == 0, "%s", err.message);
    CHECK_EQ(stats.cost_percent, 89);
    cp__cost_set(MS / 20);
    CHECK_EQ(start("taskClock", MS, &stats, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "A sample of taskClock every 1000000 would leave a thread next to no time: "
                                "samples may take 5 % of its time, and its switches 90 % of the rest");
    CHECK_CONTAINS(err.message, "Take a period of 10 ms or more, or the timer");
    CHECK_EQ(resources_now().perf_fds, 0);
    CHECKF(start("taskClock", 10 * MS, &stats, &err) == 0, "%s", err.message);
    CHECK_EQ(stats.cost_percent, 66);
    end_puppet(&puppet);
}

/* Makes the process one whose threads switch often, for the machine's kernel. */
static void sleep_often(void)
{
    for (int i = 0; i < 2000; i++)
        usleep(1);
}

/* A machine that is busy when the cost is measured does not refuse a start. */
SIM_TEST(a_dear_switch_is_measured_again_before_a_refusal)
{
    struct cp_slot_stats stats;
    struct cp_error err = {0};
    struct puppet puppet;

    is_dear_at_first = true;
    start_puppet(&puppet);
    run_puppet(&puppet, switch_and_burn, 1000);
    sleep_often();
    CHECKF(start("taskClock", MS, &stats, &err) == 0, "%s", err.message);
    CHECKF(stats.cost_percent > 20 && stats.cost_percent < 70, "%u", stats.cost_percent);
    CHECK(opened >= 2 * A_MEASUREMENT && opened < 3 * A_MEASUREMENT);
    end_puppet(&puppet);
}

SIM_TEST(a_refusal_rests_on_three_measurements)
{
    struct cp_slot_stats stats;
    struct cp_error err = {0};
    struct puppet puppet;

    start_puppet(&puppet);
    run_puppet(&puppet, switch_and_burn, 1000);
    sleep_often();
    CHECK_EQ(start("taskClock", MS, &stats, &err), -EINVAL);
    CHECK(opened >= 3 * A_MEASUREMENT && opened < 4 * A_MEASUREMENT);
    end_puppet(&puppet);
}

/* Nobody measures for a process whose threads seldom switch. */
SIM_TEST(a_start_without_switches_measures_nothing)
{
    struct cp_slot_stats stats;
    struct cp_error err = {0};
    struct puppet puppet;

    start_puppet(&puppet);
    run_puppet(&puppet, switch_and_burn, 1000);
    CHECKF(start("taskClock", MS, &stats, &err) == 0, "%s", err.message);
    CHECK(!cp__switch_costs_are_known());
    end_puppet(&puppet);
}

/* A thread that has just begun has switched often for its CPU time, and tells nothing. */
SIM_TEST(a_start_believes_no_young_thread)
{
    struct cp_slot_stats stats;
    struct cp_error err = {0};
    struct puppet puppet;

    begin();
    start_puppet(&puppet);
    run_puppet(&puppet, switch_without_time, 1000);
    CHECKF(start("taskClock", MS, &stats, &err) == 0, "%s", err.message);
    CHECK_EQ(stats.cost_percent, 0);
    end_puppet(&puppet);
}

/* The timer costs nothing, and a second event is taken off and put back. */
CP_TEST(several_events_cost_more_than_one)
{
    static const struct cp_slot_request requests[] = {
        {.event = CP_CPUPROF_OS_TIMER, .config.hz = 100},
        {.event = CP_CPUPROF_SW_PAGE_FAULTS, .config.period = 1},
        {.event = CP_CPUPROF_SW_TASK_CLOCK, .config.period = 1},
    };

    cp__switch_costs_set(&example);
    CHECK_EQ(cp__switch_cost_with_running(requests, 1), 0);
    CHECK_EQ(cp__switch_cost_with_running(requests, 2), 500);
    CHECK_EQ(cp__switch_cost_with_running(requests, 3), 8999 + 500);
}

/* ---- Events that run ------------------------------------------------------------------------- */

/* Runs five windows, which have so many switches each. */
static void run_windows_of(struct profile *profile, const uint64_t switches[5])
{
    struct cp_slot_request requests[] = {request("taskClock", MS), request("cpuClock", 50 * MS)};
    struct puppet puppet;

    start_unread(profile, requests, 2);
    start_puppet(&puppet);
    for (int i = 0; i < 5; i++) {
        run_puppet(&puppet, switch_and_burn, switches[i]);
        read_profile(profile);
    }
    end_puppet(&puppet);
    stop_profile(profile);
}

static void run_windows(struct profile *profile, uint64_t switches)
{
    run_windows_of(profile, (const uint64_t[]){switches, switches, switches, switches, switches});
}

/* By two windows in a row; the first look only notes how many switches there were. What is left of the other
 * event costs little. */
SIM_TEST(an_event_is_stopped_whose_switches_leave_its_thread_no_time)
{
    struct profile profile = {.n = 0};

    begin();
    run_windows(&profile, 104);
    CHECK_EQ(profile.stats[0].ms_overloaded, 1);
    CHECK_EQ(profile.stats[0].overloaded_ns, 2 * WINDOW);
    CHECK_EQ(profile.stats[1].ms_overloaded, 0);
}

SIM_TEST(switches_that_leave_a_tenth_stop_nothing)
{
    struct profile profile = {.n = 0};

    begin();
    run_windows(&profile, 102);
    CHECK_EQ(profile.stats[0].ms_overloaded + profile.stats[1].ms_overloaded, 0);
}

/* A switch takes time without events, too, so these have taken 0.86 ms of each and not 0.88. */
SIM_TEST(the_switches_themselves_are_the_threads)
{
    struct profile profile = {.n = 0};

    begin();
    cp__switch_costs_set(&(struct cp__switch_costs){.bare = MS / 10, .soon = MS});
    run_windows(&profile, 104);
    CHECK_EQ(profile.stats[0].ms_overloaded, 0);
}

CP_TEST(what_switches_took_is_less_than_the_time_that_there_was)
{
    cp__switch_costs_set(&example);
    CHECK_EQ(cp__switch_ns(3000, 10, 100000), 30000);
    CHECK_EQ(cp__switch_ns(3000, 10, 30000), 20000);
    CHECK_EQ(cp__switch_ns(3000, 10, 9000), 0);
    CHECK_EQ(cp__switch_ns(3000, 0, 9000), 0);
}

/* Samples take a tenth. */
SIM_TEST(switches_are_added_to_samples)
{
    struct profile profile = {.n = 0};

    begin();
    cp__cost_set(MS / 10);
    run_windows(&profile, 102);
    CHECK_EQ(profile.stats[0].ms_overloaded, 1);
}

/* The first look does not know how many of the switches there were before. The second window alone stops
 * nothing. */
SIM_TEST(what_a_thread_did_before_stops_nothing)
{
    struct profile profile = {.n = 0};

    begin();
    run_windows_of(&profile, (const uint64_t[]){500, 104, 1, 1, 1});
    CHECK_EQ(profile.stats[0].ms_overloaded, 0);
}

/* ---- Costs of another process ---------------------------------------------------------------- */

SIM_TEST(costs_that_are_told_are_not_measured)
{
    const struct cp__switch_costs none = {0}, senseless = {1, 2 * 1000 * US, 1, 1},
                                  told = {900, 3000, 2000, 100};
    struct cp__switch_costs now;
    const int before = opened;

    CHECK(!cp__switch_costs_take_over(&none));
    CHECK(!cp__switch_costs_take_over(&senseless));
    CHECK(!cp__switch_costs_are_known());
    CHECK(cp__switch_costs_take_over(&told));
    cp__switch_costs_tell(&now);
    CHECK(memcmp(&now, &told, sizeof now) == 0);
    CHECK_EQ(cp_switch_cost_ns(CP_EVENT_SOFTWARE, 1), 100);
    CHECK_EQ(opened, before);
}
