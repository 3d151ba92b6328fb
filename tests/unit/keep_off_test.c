/* A handler keeps off while another thread changes its M's handles, and that thread leaves an M alone that is
 * in its handler. */
#include "runtime/engine/perf_m_linux.h"
#include "tests/support/puppet.h"
#include "tests/support/resources.h"

#include <signal.h>

#include "runtime/base/os.h"
#include "tests/support/stop_time.h"

static struct cp__m *m_of(const struct puppet *puppet)
{
    return (struct cp__m *)puppet->worker.m;
}

static struct cp_slot_request clock_of(enum cp_engine engine)
{
    struct cp_slot_request clock = request("taskClock", MS);

    clock.config.engine = engine;
    return clock;
}

static int host_signals; /* atomic */

static void on_host_signal(int signal)
{
    (void)signal;
    cp_fetch_add_relaxed(&host_signals, 1); /* relaxed, here and below: a counter */
}

static void do_nothing(uint64_t ns)
{
    (void)ns;
}

/* Sends the thread a signal that is nobody's event's, and checks that the program's handler has it. The
 * thread takes the signal before it does anything else. */
static void check_handed_on(struct puppet *puppet, int signal)
{
    const int had = cp_load_relaxed(&host_signals);

    CHECK_EQ(syscall(SYS_tgkill, getpid(), puppet->worker.tid, signal), 0);
    run_puppet(puppet, do_nothing, 0);
    CHECK_EQ(cp_load_relaxed(&host_signals), had + 1);
}

/* ---- While another thread changes the handles ------------------------------------------------ */

/* The thread has samples, then others while the claim is taken, and others again. What came meanwhile waits
 * in the ring until the next signal, or for whoever has the claim. */
static void check_records_wait(enum cp_engine engine)
{
    const struct cp_slot_request clock = clock_of(engine);
    struct profile profile = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;

    start_puppet(&puppet);
    m = m_of(&puppet);
    start_unread(&profile, &clock, 1);
    run_puppet(&puppet, burn_a, 2 * MS);
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_CHANGING));
    run_puppet(&puppet, burn_b, 3 * MS);
    CHECK_EQ(m->runs, 2 * 5);
    CHECK_EQ(m->stats[profile.slots[0]].samples, 2);
    CHECK_EQ(m->claim, CP__CLAIM_CHANGING);
    cp__m_unclaim_from_handler(m);
    run_puppet(&puppet, burn_a, MS);
    CHECK_EQ(m->stats[profile.slots[0]].samples, 6);
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_CHANGING));
    run_puppet(&puppet, burn_b, 4 * MS);
    cp__m_unclaim_from_handler(m);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 10);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 3);
    CHECK_EQ(profile.seen[0].leaf[IN_B], 7); /* each record says where it was made */
    CHECK_EQ(profile.stats[0].late, 7);
    CHECK_EQ(profile.stats[0].lost + profile.stats[0].foreign, 0);
    end_puppet(&puppet);
}

SIM_TEST(records_wait_while_the_handler_of_sigprof_keeps_off)
{
    check_records_wait(CP_ENGINE_SIGNAL);
}

SIM_TEST(records_wait_while_the_handler_of_sigtrap_keeps_off)
{
    check_records_wait(CP_ENGINE_TRAP);
}

/* An event that awaits its ring has no records: its count tells of what the handler has left alone. */
static void check_count_waits(enum cp_engine engine)
{
    const struct cp_slot_request clock = clock_of(engine);
    struct profile profile = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;

    start_puppet(&puppet);
    m = m_of(&puppet);
    start_unread(&profile, &clock, 1);
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_CHANGING));
    run_puppet(&puppet, burn_b, 3 * MS);
    CHECK(cp__perf_of(m)->ring.page == NULL);
    cp__m_unclaim_from_handler(m);
    run_puppet(&puppet, burn_a, MS);
    CHECK(cp__perf_of(m)->ring.page != NULL);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples + profile.stats[0].lost, 4);
    CHECK_EQ(profile.stats[0].foreign + profile.stats[0].unsampled, 0);
    end_puppet(&puppet);
}

SIM_TEST(the_count_tells_while_the_handler_of_the_first_sigprof_keeps_off)
{
    check_count_waits(CP_ENGINE_SIGNAL);
}

SIM_TEST(the_count_tells_while_the_handler_of_the_first_sigtrap_keeps_off)
{
    check_count_waits(CP_ENGINE_TRAP);
}

/* Each of two timers has the ticks that came meanwhile: with its next tick, or when it is deleted. */
SIM_TEST(ticks_that_a_handler_has_kept_count_with_the_next_one)
{
    struct cp_slot_request timers[] = {request("timer", MS), request("timer", 2 * MS)};
    struct profile profile = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;
    uint64_t first, second;

    start_puppet(&puppet);
    m = m_of(&puppet);
    start_unread(&profile, timers, 2);
    run_puppet(&puppet, burn_a, 10 * MS);
    first = m->stats[profile.slots[0]].samples;
    second = m->stats[profile.slots[1]].samples;
    CHECK_EQ(first, 10);
    CHECK_EQ(second, 5);
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_CHANGING));
    run_puppet(&puppet, burn_b, 6 * MS);
    CHECK_EQ(m->stats[profile.slots[0]].samples, first);
    CHECK_EQ(m->stats[profile.slots[1]].samples, second);
    cp__m_unclaim_from_handler(m);
    run_puppet(&puppet, burn_a, 2 * MS);
    CHECK_EQ(m->stats[profile.slots[0]].samples, first + 8);
    CHECK_EQ(m->stats[profile.slots[1]].samples, second + 4);
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_CHANGING));
    run_puppet(&puppet, burn_b, 6 * MS);
    cp__m_unclaim_from_handler(m);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, first + 14);
    CHECK_EQ(profile.stats[1].samples, second + 7);
    CHECK_EQ(profile.stats[0].foreign + profile.stats[1].foreign, 0);
    end_puppet(&puppet);
}

/* Whose signals these are, is known without a look at the handles. */
SIM_TEST(a_handler_that_keeps_off_hands_foreign_signals_on)
{
    const struct cp_slot_request requests[] = {clock_of(CP_ENGINE_SIGNAL), clock_of(CP_ENGINE_TRAP)};
    struct profile profile = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;

    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    CHECK(signal(SIGTRAP, on_host_signal) != SIG_ERR);
    start_puppet(&puppet);
    m = m_of(&puppet);
    start_unread(&profile, requests, 2);
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_CHANGING));
    check_handed_on(&puppet, SIGPROF);
    check_handed_on(&puppet, SIGTRAP);
    run_puppet(&puppet, burn_a, 3 * MS);
    CHECK_EQ(cp_load_relaxed(&host_signals), 2);
    CHECK_EQ(m->foreign, 2);
    cp__m_unclaim_from_handler(m);
    stop_profile(&profile);
    end_puppet(&puppet);
}

/* ---- While the handler runs ------------------------------------------------------------------ */

static void seem_to_handle(struct cp__m *m, bool does)
{
    CHECK_EQ(m->runs % 2, !does);
    cp_store_relaxed(&m->runs, m->runs + 1); /* relaxed: the thread sleeps, and has no signal pending */
}

static uint64_t count_of(const struct puppet *puppet, int slot)
{
    struct cp__count count;

    CHECK(cp__engine_perf.read(m_of(puppet), slot, &count));
    return count.time_running;
}

SIM_TEST(nobody_opens_an_event_for_an_m_in_its_handler)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL);
    struct profile profile = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;

    start_puppet(&puppet);
    m = m_of(&puppet);
    seem_to_handle(m, true);
    begin_stop(); /* of time: the start waits for a while */
    start_unread(&profile, &clock, 1);
    is_stopping = false;
    CHECK(steps > 0 && steps <= 20);
    read_profile(&profile);
    CHECK_EQ(m->armed, 0);
    CHECK_EQ(m->claim, CP__CLAIM_NONE);
    CHECK_EQ(resources_now().perf_fds, 0);
    seem_to_handle(m, false);
    run_puppet(&puppet, burn_a, 3 * MS);
    read_profile(&profile);
    CHECK_EQ(m->armed, 1u << profile.slots[0]);
    run_puppet(&puppet, burn_b, 5 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].count, 5 * MS);
    CHECK_EQ(profile.stats[0].samples, 5);
    CHECK_EQ(profile.stats[0].unarmed_ns, 3 * MS);
    end_puppet(&puppet);
}

/* The event that is not wanted any more is disabled, so that it leaves the handler the time to end. The other
 * event counts on. */
SIM_TEST(nobody_closes_an_event_of_an_m_in_its_handler)
{
    const struct cp_slot_request requests[] = {clock_of(CP_ENGINE_SIGNAL), clock_of(CP_ENGINE_SIGNAL)};
    struct profile stopped = {.n = 0}, other = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;

    start_puppet(&puppet);
    m = m_of(&puppet);
    start_unread(&stopped, &requests[0], 1);
    start_unread(&other, &requests[1], 1);
    run_puppet(&puppet, burn_a, 2 * MS);
    seem_to_handle(m, true);
    begin_stop();
    CHECK_EQ(cp_slots_stop(stopped.slots, 1), -ETIMEDOUT);
    end_long_stop();
    CHECK_EQ(m->armed, 1u << stopped.slots[0] | 1u << other.slots[0]);
    CHECK_EQ(m->off, 1u << stopped.slots[0]);
    CHECK_EQ(m->claim, CP__CLAIM_NONE);
    seem_to_handle(m, false);
    run_puppet(&puppet, burn_b, 3 * MS);
    CHECK_EQ(count_of(&puppet, stopped.slots[0]), 2 * MS);
    CHECK_EQ(count_of(&puppet, other.slots[0]), 5 * MS);
    read_profile(&other);
    CHECK_EQ(m->armed, 1u << other.slots[0]);
    stop_profile(&stopped);
    stop_profile(&other);
    CHECK_EQ(stopped.stats[0].samples, 2);
    CHECK_EQ(stopped.stats[0].ms_unsettled, 1);
    CHECK_EQ(other.stats[0].samples, 5);
    CHECK_EQ(resources_now().perf_fds, 0);
    end_puppet(&puppet);
}

/* ---- Barriers -------------------------------------------------------------------------------- */

static void profile_puppet(struct puppet *puppet)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL);
    struct profile profile = {.n = 0};

    start_unread(&profile, &clock, 1);
    CHECK_EQ(m_of(puppet)->armed, 1u << profile.slots[0]);
    run_puppet(puppet, burn_a, 5 * MS);
    stop_profile(&profile);
    CHECK_EQ(m_of(puppet)->armed, 0);
    CHECK_EQ(profile.stats[0].samples, 5);
}

SIM_TEST(without_the_call_for_barriers_the_handler_has_a_fence)
{
    struct puppet puppet;

    sim_fail(SYS_membarrier, 1, ENOSYS, true);
    start_puppet(&puppet);
    profile_puppet(&puppet);
    CHECK(!cp__os_has_barrier);
    CHECK(sim_failed() > 0);
    end_puppet(&puppet);
}

static void reach_scheduling_point(uint64_t ns)
{
    cp_execute(cp_m_self(), NULL);
    burn_a(ns);
}

/* A filter of system calls that was installed later may refuse the call, and the handler has no fence. So
 * nobody but the M itself changes its handles. */
SIM_TEST(if_barriers_are_refused_later_an_m_changes_its_handles_itself)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL);
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_puppet(&puppet);
    profile_puppet(&puppet);
    CHECK(cp__os_has_barrier);
    sim_fail(SYS_membarrier, 1, EPERM, true);
    begin_stop(); /* of time: the start waits for a while */
    start_unread(&profile, &clock, 1);
    is_stopping = false;
    CHECK_EQ(m_of(&puppet)->armed, 0);
    run_puppet(&puppet, reach_scheduling_point, 5 * MS);
    CHECK_EQ(m_of(&puppet)->armed, 1u << profile.slots[0]);
    begin_stop();
    CHECK_EQ(cp_slots_stop(profile.slots, 1), -ETIMEDOUT);
    end_long_stop();
    CHECK_EQ(m_of(&puppet)->off, 1u << profile.slots[0]);
    run_puppet(&puppet, reach_scheduling_point, 5 * MS);
    CHECK_EQ(m_of(&puppet)->armed, 0);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 5);
    CHECK_EQ(profile.stats[0].ms_unsettled, 1);
    CHECK(sigprof_is(SIG_DFL));
    end_puppet(&puppet);
}
