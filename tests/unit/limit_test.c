/* The limits of sampling events: the kernel disables an event whose limit nobody renews. renewal_test.c has
 * what is added to a limit, and when; limit_starve_test.c and starve_test.c have threads that get no time. */
#include "runtime/engine/perf_m_linux.h"
#include "tests/support/puppet.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "runtime/base/os.h"
#include "runtime/cost.h"
#include "runtime/engine/limits_linux.h"
#include "runtime/m.h"
#include "runtime/perf/perf_linux.h"

/* ---- What the kernel is asked for ------------------------------------------------------------ */

#define MOST_FDS 1024
static bool samples[MOST_FDS]; /* the descriptors of sampling events */
/* How often sampling events were let to count with a limit, and without one. One thread runs at a time. */
static int with_limit, without_limit;

static long look_at_limits(long number, const long a[6])
{
    long result = sim_hand_on(number, a);

    if (number == SYS_perf_event_open && result >= 0 && result < MOST_FDS)
        samples[result] = ((const struct perf_event_attr *)a[0])->sample_period != 0;
    if (number == SYS_ioctl && a[0] < MOST_FDS && samples[a[0]]) {
        with_limit += (unsigned long)a[1] == PERF_EVENT_IOC_REFRESH;
        without_limit += (unsigned long)a[1] == PERF_EVENT_IOC_ENABLE;
    }
    return result;
}

/* ---- A thread with a clock ------------------------------------------------------------------- */

/* A short limit, which cp__cost_limit_from_handler() makes of this cost. */
#define LIMIT 5
#define COST_NS (400 * MS / CP_EV_MAX / LIMIT)

/* A clock of 1 ms on a thread. Its limit is LIMIT. */
struct limited {
    bool is_ringless; /* the system gives the thread no ring */
    struct profile profile;
    struct puppet puppet;
};

static void start_limited_by(struct limited *limited, struct cp_slot_request made, enum cp_engine engine,
                             uint64_t cost)
{
    made.config.engine = engine;
    limited->profile = (struct profile){.n = 0};
    sim->clock_ns = made.event == CP_CPUPROF_HW_CPU_CYCLES ? 100000 : 0; /* for the start's trial */
    start_unread(&limited->profile, &made, 1);
    sim->clock_ns = 0;
    cp__cost_set(cost);
    if (limited->is_ringless)
        sim_fail(SYS_mmap, 1, EPERM, true);
    start_puppet(&limited->puppet);
}

static void start_limited(struct limited *limited, struct cp_slot_request made, enum cp_engine engine)
{
    CHECK_EQ(COST_NS * LIMIT * CP_EV_MAX, 400 * MS);
    start_limited_by(limited, made, engine, COST_NS);
}

/* By the cost that makes the limit short, samples of 1 ms leave the thread no time. From now on they do. */
static void let_progress(void)
{
    cp__cost_set(MS / 100);
}

static void end_limited(struct limited *limited)
{
    end_puppet(&limited->puppet);
    stop_profile(&limited->profile);
}

static struct cp__perf_handle *handle_of(const struct limited *limited)
{
    return &cp__perf_of((struct cp__m *)limited->puppet.worker.m)->handles[limited->profile.slots[0]];
}

static uint64_t counted(const struct limited *limited)
{
    struct cp__count count = {.value = 0};

    CHECK(read(handle_of(limited)->events[0].fd, &count, sizeof count) > 0);
    return count.time_enabled;
}

static void block(uint64_t unused)
{
    (void)unused;
    cp__os_hold_samples();
}

static void unblock(uint64_t unused)
{
    (void)unused;
    cp__os_open_samples(0);
}

static void fault(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        SIM_FAULT(0x1000);
}

static void run(struct limited *limited, uint64_t ns)
{
    run_puppet(&limited->puppet, burn_a, ns);
}

static void run_and_read(struct limited *limited, uint64_t ns)
{
    run(limited, ns);
    read_profile(&limited->profile);
}

/* The thread that blocks its signals is the reader. Its own pass looks at its events, and leaves what waits
 * in its ring to its handler. */
static void read_itself(uint64_t profile)
{
    read_profile((struct profile *)(uintptr_t)profile);
}

static void run_and_read_itself(struct limited *limited, uint64_t ns)
{
    run(limited, ns);
    run_puppet(&limited->puppet, read_itself, (uintptr_t)&limited->profile);
}

static uint64_t stops_of(const struct limited *limited)
{
    return ((struct cp__m *)limited->puppet.worker.m)->stats[limited->profile.slots[0]].stops;
}

/* ---- The limit ------------------------------------------------------------------------------- */

static void check_end(enum cp_engine engine)
{
    struct limited limited = {.is_ringless = false};

    start_limited(&limited, request("taskClock", MS), engine);
    run_puppet(&limited.puppet, block, 0);
    run(&limited, 20 * MS);
    CHECK_EQ(counted(&limited), LIMIT * MS);
    run_puppet(&limited.puppet, unblock, 0);
    run(&limited, 20 * MS);
    CHECK_EQ(counted(&limited), LIMIT * MS); /* the handler has run, and left the event alone */
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].samples, LIMIT);
    CHECK_EQ(limited.profile.stats[0].count, LIMIT * MS);
    CHECK_EQ(limited.profile.stats[0].ms_overloaded, 1);
    CHECK_EQ(limited.profile.stats[0].overloaded_ns, (40 - LIMIT) * MS);
}

SIM_TEST(an_event_ends_at_its_limit)
{
    check_end(CP_ENGINE_SIGNAL);
}

SIM_TEST(an_event_that_traps_ends_at_its_limit)
{
    check_end(CP_ENGINE_TRAP);
}

/* The handler runs, and the cost says that the thread gets no time beside it. */
SIM_TEST(the_handler_renews_nothing_without_progress)
{
    struct limited limited = {.is_ringless = false};

    start_limited(&limited, request("taskClock", MS), CP_ENGINE_SIGNAL);
    run(&limited, 20 * MS);
    CHECK_EQ(counted(&limited), LIMIT * MS);
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].samples, LIMIT);
    CHECK_EQ(limited.profile.stats[0].ms_overloaded, 1);
    CHECK_EQ(limited.profile.stats[0].overloaded_ns, (20 - LIMIT) * MS);
}

/* An event that counts is not told as ended, although its thread's clock is ahead of its time: that clock
 * also goes on while the kernel switches threads. */
SIM_TEST(an_event_that_counts_has_not_ended)
{
    struct limited limited = {.is_ringless = false};

    start_limited(&limited, request("taskClock", MS), CP_ENGINE_SIGNAL);
    let_progress();
    sim->clock_ns = 1000;
    run(&limited, 20 * MS);
    ((struct cp__m *)limited.puppet.worker.m)->stats[limited.profile.slots[0]].armed_at -= 5 * MS;
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].ms_overloaded, 0);
    CHECK_EQ(limited.profile.stats[0].overloaded_ns, 0);
}

/* ---- Who renews it --------------------------------------------------------------------------- */

static void check_renewed(enum cp_engine engine, bool is_ringless)
{
    struct limited limited = {.is_ringless = is_ringless};

    start_limited(&limited, request("taskClock", MS), engine);
    let_progress();
    run(&limited, 20 * LIMIT * MS);
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].ms_ringless, is_ringless);
    CHECK_EQ(limited.profile.stats[0].samples, 20 * LIMIT);
    CHECK_EQ(limited.profile.stats[0].count, 20 * LIMIT * MS);
    CHECK_EQ(limited.profile.stats[0].lost, 0);
    CHECK_EQ(limited.profile.stats[0].ms_overloaded, 0);
}

SIM_TEST(the_handler_renews_the_limit)
{
    check_renewed(CP_ENGINE_SIGNAL, false);
}

SIM_TEST(the_handler_of_traps_renews_the_limit)
{
    check_renewed(CP_ENGINE_TRAP, false);
}

SIM_TEST(the_handler_renews_the_limit_without_a_ring)
{
    check_renewed(CP_ENGINE_SIGNAL, true);
}

SIM_TEST(the_handler_of_traps_renews_the_limit_without_a_ring)
{
    check_renewed(CP_ENGINE_TRAP, true);
}

/* The PMU of the simulated kernel counts nanoseconds, and the handler pauses events of short periods. */
SIM_TEST(the_handler_renews_the_limit_of_an_event_that_it_pauses)
{
    struct cp_slot_request made;
    struct limited limited = {.is_ringless = false};

    sim->pmu.is_there = true;
    made = request("cycles", 20000);
    start_limited(&limited, made, CP_ENGINE_SIGNAL);
    let_progress();
    run(&limited, 200 * 20000);
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].samples, 200);
    CHECK_EQ(limited.profile.stats[0].ms_overloaded, 0);
}

/* An event that has reached its limit while the handler could not run stays at its limit, although the
 * handler then pauses and resumes it. If the ring was full, its records do not tell how many others were
 * lost. */
static void check_not_resumed(uint64_t cost, uint64_t limit)
{
    struct cp_slot_request made;
    struct limited limited = {.is_ringless = false};

    sim->pmu.is_there = true;
    made = request("cycles", 20000);
    start_limited_by(&limited, made, CP_ENGINE_SIGNAL, cost);
    run_puppet(&limited.puppet, block, 0);
    run(&limited, 2 * limit * 20000);
    CHECK_EQ(counted(&limited), limit * 20000);
    run_puppet(&limited.puppet, unblock, 0);
    run(&limited, 2 * limit * 20000);
    CHECK_EQ(counted(&limited), limit * 20000);
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].samples + limited.profile.stats[0].lost, limit);
}

SIM_TEST(a_paused_event_that_has_ended_is_not_resumed)
{
    check_not_resumed(COST_NS, LIMIT);
}

SIM_TEST(a_paused_event_that_has_ended_in_a_full_ring_is_not_resumed)
{
    check_not_resumed(MS / 2, 100);
}

/* Two clocks fill the ring, so that the paused event has a single record there, which tells of no loss. Each
 * page fault makes the handler run once more. */
static void check_not_resumed_beside_others(uint64_t faults)
{
    struct cp_slot_request made[4];
    struct limited limited = {.is_ringless = false};

    sim->pmu.is_there = true;
    made[0] = request("cycles", 199000);
    made[1] = request("taskClock", 10000);
    made[2] = request("cpuClock", 10000);
    made[3] = request("pageFaults", 1);
    sim->clock_ns = 100000; /* for the start's trial */
    start_unread(&limited.profile, made, 4);
    sim->clock_ns = 0;
    cp__cost_set(MS / 2);
    start_puppet(&limited.puppet);
    run_puppet(&limited.puppet, block, 0);
    run(&limited, 40 * MS);
    CHECK_EQ(counted(&limited), 100 * 199000);
    run_puppet(&limited.puppet, unblock, 0);
    run_puppet(&limited.puppet, fault, faults);
    run(&limited, 40 * MS);
    CHECK_EQ(counted(&limited), 100 * 199000);
    end_limited(&limited);
}

SIM_TEST(a_paused_event_that_has_ended_in_a_ring_full_of_others_is_not_resumed)
{
    check_not_resumed_beside_others(0);
}

SIM_TEST(a_paused_event_that_has_ended_in_a_ring_full_of_others_is_not_resumed_later)
{
    check_not_resumed_beside_others(1);
}

/* Without a ring nobody knows how many signals coalesced. The event has had one of its signals, then none. */
SIM_TEST(a_paused_event_without_a_ring_is_resumed_with_a_limit)
{
    struct limited limited = {.is_ringless = true};

    sim->pmu.is_there = true;
    start_limited(&limited, request("cycles", 20000), CP_ENGINE_SIGNAL);
    run_puppet(&limited.puppet, block, 0);
    run(&limited, 2 * LIMIT * 20000);
    CHECK_EQ(counted(&limited), LIMIT * 20000);
    run_puppet(&limited.puppet, unblock, 0);
    run_puppet(&limited.puppet, block, 0);
    run(&limited, 2 * LIMIT * 20000);
    CHECK_EQ(counted(&limited), (LIMIT + 1) * 20000);
    end_limited(&limited);
}

/* With this cost, a limit is longer than the ring. The ring holds 51 records, so most samples are lost. The
 * lost ones are known, and the thread gets on. */
SIM_TEST(a_reader_renews_the_limit_of_a_thread_that_blocks_the_signal)
{
    struct limited limited = {.is_ringless = false};

    start_limited_by(&limited, request("taskClock", MS), CP_ENGINE_SIGNAL, MS / 10);
    CHECK_EQ(cp__cost_limit_from_handler(CP_EVENT_CLOCK), 500);
    run_puppet(&limited.puppet, block, 0);
    for (int i = 0; i < 20; i++)
        run_and_read(&limited, 100 * MS);
    CHECK_EQ(counted(&limited), 2000 * MS);
    run_puppet(&limited.puppet, unblock, 0);
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].samples + limited.profile.stats[0].lost, 2000);
    CHECK_EQ(limited.profile.stats[0].ms_overloaded, 0);
}

/* A sample costs a little more than the period, by the cost that is set, and the limit of 248 samples is
 * longer than the ring. */
static void check_not_renewed(void (*run_and_look)(struct limited *limited, uint64_t ns))
{
    struct limited limited = {.is_ringless = false};

    start_limited_by(&limited, request("taskClock", 200000), CP_ENGINE_SIGNAL, 201000);
    run_puppet(&limited.puppet, block, 0);
    for (int i = 0; i < 4; i++)
        run_and_look(&limited, 10 * MS); /* at 40 ms, half of the limit is used */
    run(&limited, 20 * MS);
    CHECK_EQ(counted(&limited), cp__cost_limit_from_handler(CP_EVENT_CLOCK) * 200000);
    run_puppet(&limited.puppet, unblock, 0);
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].ms_overloaded, 1);
}

SIM_TEST(a_reader_renews_nothing_without_progress)
{
    check_not_renewed(run_and_read);
}

SIM_TEST(a_reader_renews_nothing_of_its_own_without_progress)
{
    check_not_renewed(run_and_read_itself);
}

/* The handler pauses such an event. The interrupt alone takes longer than the period. */
SIM_TEST(an_event_that_is_paused_and_leaves_no_time_ends)
{
    struct cp_slot_request made;
    struct limited limited = {.is_ringless = false};

    sim->pmu.is_there = true;
    made = request("cycles", 10000);
    start_limited(&limited, made, CP_ENGINE_SIGNAL);
    sim->cost_ns = 25000;
    cp__cost_set(25000);
    run(&limited, MS);
    CHECK(sim_thread_ns(limited.puppet.worker.tid) < 10 * MS);
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].ms_overloaded, 1);
}

/* ---- An event that has ended ----------------------------------------------------------------- */

/* A reader finds that the event stands still, tells what the event has missed, and lets it count again. */
static void check_restarted(void (*run_and_look)(struct limited *limited, uint64_t ns), bool has_progress,
                            uint32_t stretch)
{
    struct limited limited = {.is_ringless = false};

    start_limited(&limited, request("taskClock", MS), CP_ENGINE_SIGNAL);
    run_puppet(&limited.puppet, block, 0);
    if (has_progress)
        let_progress();
    run_and_look(&limited, 10 * MS); /* LIMIT samples, and a thread that gets on or not */
    run_and_look(&limited, 10 * MS);
    CHECK_EQ(stops_of(&limited), 0);
    run_and_look(&limited, 10 * MS); /* the last look has seen what the event has counted */
    CHECK_EQ(stops_of(&limited), 1);
    CHECK_EQ(handle_of(&limited)->stretch, stretch);
    run(&limited, 2 * MS);
    CHECK_EQ(counted(&limited), (LIMIT + 2) * MS);
    run_puppet(&limited.puppet, unblock, 0);
    let_progress();
    run(&limited, 8 * MS);
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].ms_overloaded, 1);
    CHECK_EQ(limited.profile.stats[0].overloaded_ns, (30 - LIMIT) * MS);
    CHECK_EQ(limited.profile.stats[0].count, (LIMIT + 10) * MS);
    CHECK_EQ(limited.profile.stats[0].samples, LIMIT + 10);
    CHECK_EQ(limited.profile.stats[0].lost, 0);
}

SIM_TEST(an_event_that_has_ended_is_told_and_restarted)
{
    check_restarted(run_and_read, true, 0);
}

SIM_TEST(an_event_of_a_reader_that_has_ended_is_told_and_restarted)
{
    check_restarted(run_and_read_itself, true, 0);
}

SIM_TEST(an_event_that_left_no_time_is_restarted_more_slowly)
{
    check_restarted(run_and_read, false, 2);
}

/* Without a ring, the signal of the last overflow may find another one pending. */
SIM_TEST(an_event_without_a_ring_whose_last_signal_coalesced_is_restarted)
{
    struct limited limited = {.is_ringless = true};

    start_limited(&limited, request("taskClock", MS), CP_ENGINE_SIGNAL);
    let_progress();
    run_puppet(&limited.puppet, block, 0);
    run(&limited, 20 * MS);
    run_puppet(&limited.puppet, unblock, 0);
    CHECK_EQ(counted(&limited), LIMIT * MS);
    for (int i = 0; i < 3; i++)
        run_and_read(&limited, 10 * MS);
    CHECK_EQ(stops_of(&limited), 1);
    run(&limited, 50 * MS);
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].count, (LIMIT + 50) * MS);
    CHECK_EQ(limited.profile.stats[0].samples + limited.profile.stats[0].lost, LIMIT + 50);
    CHECK_EQ(limited.profile.stats[0].ms_overloaded, 1);
}

/* A record of a PMU's event does not tell how many periods have passed without one. */
SIM_TEST(a_sample_of_a_longer_period_stands_for_all_of_it)
{
    struct cp_slot_request made;
    struct limited limited = {.is_ringless = false};

    sim->pmu.is_there = true;
    made = request("cycles", MS);
    start_limited(&limited, made, CP_ENGINE_SIGNAL);
    for (int i = 0; i < 3; i++)
        run_and_read(&limited, 10 * MS);
    CHECK_EQ(handle_of(&limited)->stretch, 2);
    let_progress();
    run(&limited, 20 * MS);
    end_limited(&limited);
    CHECK_EQ(limited.profile.stats[0].count, (LIMIT + 20) * MS);
    CHECK_EQ(limited.profile.stats[0].samples, LIMIT + 20);
}

/* Most of what a thread's events did while it blocked the signal was lost, before the period became
 * longer. */
SIM_TEST(what_was_lost_before_a_longer_period_is_no_more_than_was_counted)
{
    struct cp_slot_request made;
    struct limited limited = {.is_ringless = false};

    sim->pmu.is_there = true;
    made = request("cycles", 300000);
    start_limited_by(&limited, made, CP_ENGINE_SIGNAL, MS / 2);
    run_puppet(&limited.puppet, block, 0);
    for (int i = 0; i < 4; i++)
        run_and_read(&limited, 30 * MS);
    CHECK_EQ(handle_of(&limited)->stretch, 2);
    run_puppet(&limited.puppet, unblock, 0);
    let_progress();
    run(&limited, 30 * MS);
    end_limited(&limited);
    CHECK(limited.profile.stats[0].lost > 40);
    CHECK_EQ(limited.profile.stats[0].samples + limited.profile.stats[0].lost,
             limited.profile.stats[0].count / 300000);
}

/* ---- Nothing else lets an event count -------------------------------------------------------- */

/* Starts a clock, and events that the handler pauses. */
static void sample_all(void)
{
    struct cp_slot_request requests[3];
    struct profile profile = {.n = 0};
    struct puppet puppet;

    sim_hook(look_at_limits);
    sim->pmu.is_there = true;
    sim->clock_ns = 100000; /* for the start's trial */
    requests[0] = request("taskClock", MS);
    requests[1] = request("pageFaults", 2);
    requests[2] = request("cycles", 100000);
    start_unread(&profile, requests, 3);
    sim->clock_ns = 0;
    start_puppet(&puppet);
    run_puppet(&puppet, burn_a, 20 * MS);
    run_puppet(&puppet, fault, 20);
    end_puppet(&puppet);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 20);
    CHECK_EQ(profile.stats[1].samples, 10);
    CHECK_EQ(profile.stats[2].samples, 200);
}

SIM_TEST(events_begin_and_resume_with_a_limit)
{
    sample_all();
    CHECK(with_limit > 200);
    CHECK_EQ(without_limit, 0);
}

/* On these kernels an event must not reach its limit. */
SIM_TEST(kernels_that_hang_at_a_limit_get_none)
{
    static const char *const kernels[] = {"6.16.0", "6.17.13-amd64"};

    for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
        sim->release = kernels[i];
        CHECK(cp__perf_find_fault(CP__FAULT_LIMITS) != NULL);
    }
    sample_all();
    CHECK_EQ(with_limit, 0);
    CHECK(without_limit > 200);
    sim->release = "6.18.0";
    CHECK(cp__perf_find_fault(CP__FAULT_LIMITS) == NULL);
    sim->release = "6.15.11";
    CHECK(cp__perf_find_fault(CP__FAULT_LIMITS) == NULL);
}

/* Overflows that nobody hears of must end soon, on all events of a thread together. */
SIM_TEST(the_limit_follows_from_the_cost)
{
    cp__cost_set(MS);
    CHECK_EQ(cp__cost_limit_from_handler(CP_EVENT_CLOCK), 400 / CP_EV_MAX);
    cp__cost_set(100 * MS);
    CHECK_EQ(cp__cost_limit_from_handler(CP_EVENT_CLOCK), 2);
    CHECK_EQ(cp__cost_limit_from_handler(CP_EVENT_HARDWARE), 2);
    cp__cost_set(0); /* unknown */
    CHECK_EQ(cp__cost_limit_from_handler(CP_EVENT_CLOCK), 500);
    cp__cost_set(1); /* too good to be true */
    CHECK_EQ(cp__cost_limit_from_handler(CP_EVENT_CLOCK), 10000);
    /* One system call may cause thousands of these. Tracepoints and watchpoints that the kernel has disabled
     * at their limit never count again (Linux 6.18). */
    CHECK(cp__cost_limit_from_handler(CP_EVENT_SOFTWARE) >= 1u << 30);
    CHECK(cp__cost_limit_from_handler(CP_EVENT_TRACEPOINT) >= 1u << 30);
    CHECK(cp__cost_limit_from_handler(CP_EVENT_WATCHPOINT) >= 1u << 30);
}
