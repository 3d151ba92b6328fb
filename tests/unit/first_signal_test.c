/* Rings are scarce, and events are not: an event that another thread has opened gets its ring with its first
 * signal. */
#include "runtime/engine/perf_m_linux.h"
#include "tests/support/puppet.h"
#include "tests/support/resources.h"

#include <signal.h>
#include <sys/resource.h>

static struct cp__m *m_of(const struct puppet *puppet)
{
    return (struct cp__m *)puppet->worker.m;
}

static enum cp__ringless ringless_of(const struct puppet *puppet, const struct profile *profile)
{
    return (enum cp__ringless)cp_load_relaxed(&m_of(puppet)->stats[profile->slots[0]].ringless);
}

static struct cp_slot_request made_for(const char *event, enum cp_engine engine)
{
    struct cp_slot_request made = request(event, MS);

    made.config.engine = engine;
    return made;
}

/* ---- Many Ms --------------------------------------------------------------------------------- */

#define SLEEPERS 300
#define RUN 16

/* The kernel lets a user map 516 KiB for each CPU, and a ring takes 8 KiB. */
SIM_TEST(of_many_ms_those_that_run_have_rings)
{
    static struct puppet puppets[SLEEPERS];
    const struct cp_slot_request clock = made_for("taskClock", CP_ENGINE_SIGNAL);
    struct profile profile = {.n = 0};

    sim->ring_memory = RUN * 2 * (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < SLEEPERS; i++)
        start_puppet(&puppets[i]);
    start_unread(&profile, &clock, 1);
    CHECK_EQ(resources_now().perf_fds, SLEEPERS);
    CHECK_EQ(resources_now().rings, 0);
    for (int i = 0; i < RUN; i++)
        run_puppet(&puppets[i * (SLEEPERS / RUN)], burn_a, 5 * MS);
    CHECK_EQ(resources_now().rings, RUN);
    read_profile(&profile);
    CHECK_EQ(resources_now().perf_fds, SLEEPERS + RUN);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms, SLEEPERS);
    CHECK_EQ(profile.stats[0].ms_ringless, 0);
    CHECK_EQ(profile.stats[0].samples, 5 * RUN);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 5 * RUN);
    CHECK_EQ(profile.stats[0].count, 5 * RUN * MS);
    CHECK_EQ(resources_now().perf_fds, 0);
    for (int i = 0; i < SLEEPERS; i++)
        end_puppet(&puppets[i]);
}

/* ---- The first signal ------------------------------------------------------------------------ */

/* Each period has its sample: the first one by its signal, and the others by their records. */
static void check_first(const char *event, enum cp_engine engine)
{
    struct profile profile = {.n = 0};
    struct cp_slot_request made;
    struct puppet puppet;

    sim->pmu.is_there = true;
    sim->clock_ns = 1000; /* CPU time passes while the library tries whether a PMU counts */
    made = made_for(event, engine);
    start_puppet(&puppet);
    start_unread(&profile, &made, 1);
    sim->clock_ns = 0;
    CHECK_EQ(ringless_of(&puppet, &profile), CP__AWAITS_RING);
    run_puppet(&puppet, burn_a, MS - 1);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__AWAITS_RING);
    CHECK_EQ(m_of(&puppet)->stats[profile.slots[0]].samples, 0);
    run_puppet(&puppet, burn_a, 1);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__HAS_RING);
    CHECK_EQ(m_of(&puppet)->stats[profile.slots[0]].samples, 1);
    run_puppet(&puppet, burn_b, 4 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 5);
    CHECK_EQ(profile.stats[0].signals, 5);
    CHECK_EQ(profile.stats[0].ms_ringless, 0);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 1);
    CHECK_EQ(profile.seen[0].leaf[IN_B], 4);
    CHECK_EQ(profile.stats[0].lost + profile.stats[0].late + profile.stats[0].unsampled, 0);
    CHECK_EQ(resources_now().perf_fds + resources_now().rings, 0);
    end_puppet(&puppet);
}

SIM_TEST(the_first_sigprof_of_a_clock_brings_its_ring)
{
    check_first("taskClock", CP_ENGINE_SIGNAL);
}

SIM_TEST(the_first_sigtrap_of_a_clock_brings_its_ring)
{
    check_first("taskClock", CP_ENGINE_TRAP);
}

SIM_TEST(the_first_sigprof_of_a_pmus_event_brings_its_ring)
{
    check_first("cycles", CP_ENGINE_SIGNAL);
}

static void switch_off(uint64_t n)
{
    SIM_SWITCH(n);
}

static void check_switches(enum cp_engine engine)
{
    struct cp_slot_request made = request("contextSwitches", 1);
    struct profile profile = {.n = 0};
    struct puppet puppet;

    made.config.engine = engine;
    start_puppet(&puppet);
    start_unread(&profile, &made, 1);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__AWAITS_RING);
    run_puppet(&puppet, switch_off, 1);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__HAS_RING);
    run_puppet(&puppet, switch_off, 9);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].count, 10);
    CHECK_EQ(profile.stats[0].samples, 10);
    CHECK_EQ(profile.stats[0].lost + profile.stats[0].late, 0);
    end_puppet(&puppet);
}

SIM_TEST(the_first_sigprof_of_switches_brings_their_ring)
{
    check_switches(CP_ENGINE_SIGNAL);
}

SIM_TEST(the_first_sigtrap_of_switches_brings_their_ring)
{
    check_switches(CP_ENGINE_TRAP);
}

/* ---- Before the claim is given back ----------------------------------------------------------- */

static struct puppet *wakes;                         /* when its event has been opened; NULL: nobody */
static void (*wakes_and_does)(uint64_t ns) = burn_b; /* for 5 ms */

static long opened_fd = -1;
static unsigned long asked_first; /* of it by ioctl(2) */

static long wake_after_open(long number, const long arguments[6])
{
    struct puppet *puppet = wakes;
    const long result = sim_hand_on(number, arguments);

    if (number == SYS_ioctl && arguments[0] == opened_fd && asked_first == 0)
        asked_first = (unsigned long)arguments[1];

    if (number == SYS_perf_event_open && puppet != NULL && arguments[1] == puppet->worker.tid) {
        wakes = NULL;
        opened_fd = result;
        run_puppet(puppet, wakes_and_does, 5 * MS);
    }
    return result;
}

static void start_and_wake(struct profile *profile, enum cp_engine engine, struct puppet *puppet)
{
    const struct cp_slot_request clock = made_for("taskClock", engine);

    sim_hook(wake_after_open);
    start_puppet(puppet);
    wakes = puppet;
    start_unread(profile, &clock, 1);
    CHECK(wakes == NULL);
}

/* The handler keeps off, so the thread has no samples. But an event that traps counts by then. One that
 * raises SIGPROF does not know its thread yet. */
static void check_wakes(enum cp_engine engine, uint64_t counted)
{
    struct profile profile = {.n = 0};
    struct perf_event_attr opened;
    struct puppet puppet;

    start_and_wake(&profile, engine, &puppet);
    sim_opened(&opened);
    CHECK_EQ(opened.disabled, counted == 0);
    CHECK_EQ(asked_first == PERF_EVENT_IOC_REFRESH, counted != 0); /* its limit comes first */
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].count, counted);
    CHECK_EQ(profile.stats[0].samples, 0);
    CHECK_EQ(profile.stats[0].unarmed_ns, 5 * MS - counted);
    CHECK_EQ(profile.stats[0].uncounted_ns + profile.stats[0].foreign, 0);
    end_puppet(&puppet);
}

SIM_TEST(a_thread_that_wakes_while_its_trap_is_armed_is_counted)
{
    check_wakes(CP_ENGINE_TRAP, 5 * MS);
}

SIM_TEST(a_thread_that_wakes_while_its_sigprof_is_armed_is_told)
{
    check_wakes(CP_ENGINE_SIGNAL, 0);
}

/* The first signal that is heard of stands for one period, and for none of those for which the handler kept
 * off. */
SIM_TEST(what_a_thread_does_while_its_trap_is_armed_is_no_sample_of_another_place)
{
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_and_wake(&profile, CP_ENGINE_TRAP, &puppet);
    run_puppet(&puppet, burn_a, 2 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].count, 7 * MS);
    CHECK_EQ(profile.stats[0].samples, 2);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 2);
    CHECK_EQ(profile.stats[0].unsampled, 5);
    CHECK_EQ(profile.stats[0].stalled + profile.stats[0].lost, 0);
    end_puppet(&puppet);
}

/* The event counts, and raises a trap that the thread blocks. Then its descriptor turns out to be one of
 * those that are left to the program. When the trap comes, it is nobody's sample. */
SIM_TEST(the_trap_of_an_event_that_was_refused_is_no_sample)
{
    const struct rlimit few = {256, 256};
    struct profile profile = {.n = 0};
    struct puppet puppet;

    wakes_and_does = block_samples;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int fd = 0; fd < 256 / 8 * 7 - 1;)
        fd = dup(0);
    start_and_wake(&profile, CP_ENGINE_TRAP, &puppet);
    CHECK(cp_load_relaxed(&m_of(&puppet)->stats[profile.slots[0]].refused) != 0);
    run_puppet(&puppet, unblock_samples, MS);
    CHECK_EQ(resources_now().rings, 0);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples + profile.stats[0].foreign, 0);
    end_puppet(&puppet);
}

/* The two events of one M have one ring, which the first of them brings. */
SIM_TEST(the_second_event_joins_the_ring_of_the_first)
{
    struct cp_slot_request requests[] = {request("taskClock", MS), request("cpuClock", 2 * MS)};
    struct profile profile = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;

    start_puppet(&puppet);
    m = m_of(&puppet);
    start_unread(&profile, requests, 2);
    run_puppet(&puppet, burn_a, MS);
    CHECK_EQ(m->stats[profile.slots[0]].ringless, CP__HAS_RING);
    CHECK_EQ(m->stats[profile.slots[1]].ringless, CP__AWAITS_RING);
    CHECK_EQ(resources_now().perf_fds, 3);
    run_puppet(&puppet, burn_b, 9 * MS);
    CHECK_EQ(m->stats[profile.slots[1]].ringless, CP__HAS_RING);
    CHECK_EQ(resources_now().perf_fds, 3);
    CHECK_EQ(resources_now().rings, 1);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 10);
    CHECK_EQ(profile.stats[1].samples, 5);
    CHECK_EQ(profile.stats[0].lost + profile.stats[1].lost, 0);
    CHECK_EQ(resources_now().perf_fds, 0);
    end_puppet(&puppet);
}

/* ---- What is in the way of a ring ------------------------------------------------------------ */

/* If a thread has no ring, each signal is a sample. The library asks once. */
static void check_refused(enum cp_engine engine)
{
    const struct cp_slot_request clock = made_for("taskClock", engine);
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_puppet(&puppet);
    start_unread(&profile, &clock, 1);
    sim_fail(SYS_mmap, 1, EPERM, true);
    run_puppet(&puppet, burn_a, 5 * MS);
    CHECK_EQ(sim_failed(), 1);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__RING_REFUSED);
    CHECK_EQ(resources_now().perf_fds, 1);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 5);
    CHECK_EQ(profile.stats[0].signals, 5);
    CHECK_EQ(profile.stats[0].ms_ringless, 1);
    CHECK_EQ(profile.stats[0].lost + profile.stats[0].unsampled, 0);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 5);
    end_puppet(&puppet);
}

SIM_TEST(each_sigprof_of_an_m_that_is_refused_a_ring_is_a_sample)
{
    check_refused(CP_ENGINE_SIGNAL);
}

SIM_TEST(each_sigtrap_of_an_m_that_is_refused_a_ring_is_a_sample)
{
    check_refused(CP_ENGINE_TRAP);
}

/* Another thread has the claim, or forks: the next signal asks again, and each one is a sample. */
SIM_TEST(a_signal_that_cannot_make_the_ring_leaves_that_to_the_next_one)
{
    const struct cp_slot_request clock = made_for("taskClock", CP_ENGINE_SIGNAL);
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_puppet(&puppet);
    start_unread(&profile, &clock, 1);
    CHECK(cp__m_claim_from_handler(m_of(&puppet), CP__CLAIM_OUTSIDE));
    run_puppet(&puppet, burn_a, 2 * MS);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__AWAITS_RING);
    cp__m_unclaim_from_handler(m_of(&puppet));
    run_puppet(&puppet, burn_a, 3 * MS);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__HAS_RING);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 5);
    CHECK_EQ(profile.stats[0].signals, 5);
    CHECK_EQ(profile.stats[0].lost + profile.stats[0].unsampled, 0);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 5);
    end_puppet(&puppet);
}

/* ---- Signals that coalesced ------------------------------------------------------------------ */

static void block_and_unblock(uint64_t ns)
{
    mask_samples(SIG_BLOCK);
    burn_b(ns);
    mask_samples(SIG_UNBLOCK);
}

/* One signal came for all of the periods, at a place that is not theirs, so no function is charged for the
 * others. A clock that is so late looks as if the machine had stood still. */
static void check_coalesced(const char *event, uint64_t stalled)
{
    struct profile profile = {.n = 0};
    struct cp_slot_request made;
    struct puppet puppet;

    sim->pmu.is_there = true;
    sim->clock_ns = 1000;
    made = made_for(event, CP_ENGINE_SIGNAL);
    start_puppet(&puppet);
    start_unread(&profile, &made, 1);
    sim->clock_ns = 0;
    run_puppet(&puppet, block_and_unblock, 6 * MS);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__HAS_RING);
    run_puppet(&puppet, burn_a, 3 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 3);
    CHECK_EQ(profile.seen[0].in[IN_B], 0);
    CHECK_EQ(profile.stats[0].signals, 4);
    CHECK_EQ(profile.stats[0].samples, 4 + stalled);
    CHECK_EQ(profile.stats[0].stalled, stalled);
    CHECK_EQ(profile.stats[0].unsampled, 5 - stalled);
    CHECK_EQ(profile.stats[0].lost, 0);
    end_puppet(&puppet);
}

SIM_TEST(first_signals_of_a_clock_that_coalesce_are_told)
{
    check_coalesced("taskClock", 5);
}

SIM_TEST(first_signals_of_a_pmus_event_that_coalesce_are_told)
{
    check_coalesced("cycles", 0);
}
