/* Threads that block the signal of their samples: the passes of a reader give them a ring, and read it. */
#include "runtime/engine/perf_m_linux.h"
#include "tests/support/puppet.h"
#include "tests/support/resources.h"

#include <signal.h>
#include <sys/wait.h>

#include "tests/support/stub_syscall.h"

static int barriers; /* atomic: each look at a ring takes one */

static long stub_syscall(long number, const long a[6])
{
    if (number == SYS_membarrier)
        cp_fetch_add_relaxed(&barriers, 1); /* relaxed: a counter */
    return hand_on(number, a);
}

static struct cp__m *m_of(const struct puppet *puppet)
{
    return (struct cp__m *)puppet->worker.m;
}

static enum cp__ringless ringless_of(const struct puppet *puppet, const struct profile *profile)
{
    return (enum cp__ringless)cp_load_relaxed(&m_of(puppet)->stats[profile->slots[0]].ringless);
}

static struct cp_slot_request clock_of(enum cp_engine engine, uint64_t period)
{
    struct cp_slot_request clock = request("taskClock", period);

    clock.config.engine = engine;
    return clock;
}

/* Ends a profile of a thread whose handler has run so often until now, and which misses so many samples,
 * because it has its signal blocked. */
static void end_heard(struct puppet *puppet, struct profile *profile, uint64_t runs, uint64_t missed)
{
    CHECK_EQ(m_of(puppet)->runs, runs);
    stop_profile(profile);
    CHECK_EQ(m_of(puppet)->armed, 0);
    CHECK_EQ(resources_now().perf_fds, 0);
    CHECK_EQ(resources_now().rings, 0);
    CHECK_EQ(profile->stats[0].ms, 1);
    CHECK_EQ(profile->stats[0].ms_unsettled, 0);
    CHECK_EQ(profile->stats[0].blocked_ns, missed * MS);
    CHECK_EQ(profile->stats[0].unsampled, missed);
    CHECK_EQ(profile->stats[0].unarmed_ns, 0);
    CHECK_EQ(profile->seen[0].late, profile->stats[0].late);
    CHECK_EQ(profile->seen[0].weight, profile->stats[0].samples);
    CHECK_EQ(profile->stats[0].count / MS, profile->stats[0].samples + profile->stats[0].lost + missed);
    run_puppet(puppet, unblock_samples, 0);
    end_puppet(puppet);
}

/* What the thread has run until the first pass has no samples, and is told as that. From then on its samples
 * wait in a ring that has room for more of them than others' rings. */
static void check_blocked_before(enum cp_engine engine)
{
    const struct cp_slot_request clock = clock_of(engine, MS);
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_puppet(&puppet);
    run_puppet(&puppet, block_samples, 0);
    start_unread(&profile, &clock, 1);
    CHECK_EQ(m_of(&puppet)->armed, 1u << profile.slots[0]);
    run_puppet(&puppet, burn_a, 3 * MS);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__AWAITS_RING);
    read_profile(&profile);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__HAS_RING);
    for (int i = 0; i < 2; i++) {
        run_puppet(&puppet, burn_b, 100 * MS);
        read_profile(&profile);
    }
    CHECK_EQ(profile.seen[0].leaf[IN_B], 200);
    run_puppet(&puppet, burn_a, 10 * MS);
    end_heard(&puppet, &profile, 0, 3);
    CHECK_EQ(profile.stats[0].lost, 0);
    CHECK_EQ(profile.stats[0].late, 210);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 10); /* which the stop has read */
}

/* The samples of a thread that blocks its signal wait in the ring, where a reader's passes find them. */
SIM_TEST(a_thread_that_blocks_sigprof_is_armed_and_let_go_from_outside)
{
    check_blocked_before(CP_ENGINE_SIGNAL);
}

SIM_TEST(a_thread_that_blocks_sigtrap_is_armed_and_let_go_from_outside)
{
    check_blocked_before(CP_ENGINE_TRAP);
}

/* The same for a thread that has had samples in its handler before, and so has its ring: nothing is lost. */
static void check_blocked_later(enum cp_engine engine)
{
    const struct cp_slot_request clock = clock_of(engine, MS);
    struct profile profile = {.n = 0};
    struct puppet puppet;
    uint64_t runs;

    start_puppet(&puppet);
    start_unread(&profile, &clock, 1);
    run_puppet(&puppet, burn_b, 5 * MS);
    runs = m_of(&puppet)->runs;
    CHECK_EQ(runs, 2 * 5);
    read_profile(&profile);
    run_puppet(&puppet, block_samples, 20 * MS);
    read_profile(&profile);
    CHECK_EQ(profile.stats[0].lost, 0);
    CHECK_EQ(profile.seen[0].late, 20);
    end_heard(&puppet, &profile, runs, 0);
    CHECK_EQ(profile.stats[0].lost, 0);
    CHECK_EQ(profile.stats[0].late, 20);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 20);
    CHECK_EQ(profile.seen[0].leaf[IN_B], 5);
}

SIM_TEST(a_thread_that_blocks_sigprof_later_is_heard)
{
    check_blocked_later(CP_ENGINE_SIGNAL);
}

SIM_TEST(a_thread_that_blocks_sigtrap_later_is_heard)
{
    check_blocked_later(CP_ENGINE_TRAP);
}

/* The thread that opens its events knows that their records will wait, and makes its ring at once. */
SIM_TEST(a_thread_that_blocks_sigprof_when_it_attaches_loses_nothing)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL, MS);
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_unread(&profile, &clock, 1);
    mask_samples(SIG_BLOCK); /* the thread inherits that */
    start_puppet(&puppet);
    mask_samples(SIG_UNBLOCK);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__HAS_RING);
    for (int i = 0; i < 3; i++) {
        run_puppet(&puppet, burn_a, 40 * MS);
        read_profile(&profile);
    }
    CHECK_EQ(profile.seen[0].late, 120);
    end_heard(&puppet, &profile, 0, 0);
    CHECK_EQ(profile.stats[0].lost, 0);
}

/* ---- Who is heard ---------------------------------------------------------------------------- */

/* A thread may block a signal for a moment: a pass that finds it so does nothing. */
SIM_TEST(a_thread_that_blocks_its_signal_for_a_moment_is_left_alone)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL, MS / 10);
    struct profile profile = {.n = 0};
    struct puppet puppet;
    int before;

    start_puppet(&puppet);
    start_unread(&profile, &clock, 1);
    run_puppet(&puppet, burn_b, MS);
    read_profile(&profile);
    run_puppet(&puppet, block_samples, MS - MS / 20);
    before = barriers;
    read_profile(&profile);
    CHECK_EQ(barriers, before);
    CHECK_EQ(profile.seen[0].late, 0);
    run_puppet(&puppet, unblock_samples, 0);
    read_profile(&profile);
    CHECK_EQ(profile.seen[0].late, 9); /* each record says where it was made */
    run_puppet(&puppet, block_samples, MS + MS / 10);
    read_profile(&profile);
    CHECK_EQ(profile.seen[0].late, 9 + 11);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].lost, 0);
    end_puppet(&puppet);
}

/* A thread may lose its CPU between a record and its signal, long after the signal before: the sample is left
 * to the handler, which knows callers and labels. */
static void check_record_waits(enum cp_engine engine)
{
    const struct cp_slot_request clock = clock_of(engine, 10 * MS);
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_puppet(&puppet);
    start_unread(&profile, &clock, 1);
    run_puppet(&puppet, burn_b, 19 * MS);
    read_profile(&profile);
    CHECK_EQ(profile.seen[0].weight, 1);
    run_puppet(&puppet, block_samples, MS + MS / 2);
    read_profile(&profile);
    CHECK_EQ(profile.seen[0].weight, 1);
    run_puppet(&puppet, burn_a, MS);
    read_profile(&profile);
    CHECK_EQ(profile.seen[0].weight, 2);
    CHECK_EQ(profile.seen[0].late, 1);
    stop_profile(&profile);
    end_puppet(&puppet);
}

SIM_TEST(a_record_is_left_to_its_sigprof)
{
    check_record_waits(CP_ENGINE_SIGNAL);
}

SIM_TEST(a_record_is_left_to_its_trap)
{
    check_record_waits(CP_ENGINE_TRAP);
}

/* The event's first signal is due after a millisecond, and pending for less. */
SIM_TEST(a_first_signal_that_is_blocked_for_a_moment_is_waited_for)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL, MS);
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_puppet(&puppet);
    run_puppet(&puppet, block_samples, 0);
    start_unread(&profile, &clock, 1);
    run_puppet(&puppet, burn_a, MS + MS / 2);
    read_profile(&profile);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__AWAITS_RING);
    run_puppet(&puppet, unblock_samples, 0);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__HAS_RING);
    read_profile(&profile);
    CHECK_EQ(profile.seen[0].weight, 1);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].lost, 0);
    end_puppet(&puppet);
}

/* An M that seems to be in its handler, or to change its handles. */
SIM_TEST(a_thread_that_handles_its_samples_is_left_to_a_later_pass)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL, MS);
    struct profile profile = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;

    start_puppet(&puppet);
    m = m_of(&puppet);
    run_puppet(&puppet, block_samples, 0);
    start_unread(&profile, &clock, 1);
    run_puppet(&puppet, burn_a, 3 * MS);
    cp_store_relaxed(&m->runs, m->runs + 1); /* relaxed, both: the thread sleeps */
    read_profile(&profile);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__AWAITS_RING);
    CHECK_EQ(m->claim, CP__CLAIM_NONE);
    cp_store_relaxed(&m->runs, m->runs - 1);
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_SELF));
    read_profile(&profile);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__AWAITS_RING);
    cp__m_unclaim_from_handler(m);
    read_profile(&profile);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__HAS_RING);
    end_heard(&puppet, &profile, 0, 3);
}

/* ---- What has no ring, or no time ------------------------------------------------------------ */

SIM_TEST(a_thread_that_blocks_its_signal_and_is_refused_a_ring_has_no_samples)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL, MS);
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_puppet(&puppet);
    run_puppet(&puppet, block_samples, 0);
    start_unread(&profile, &clock, 1);
    sim->ring_memory = 0;
    run_puppet(&puppet, burn_a, 3 * MS);
    read_profile(&profile);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__RING_REFUSED);
    run_puppet(&puppet, burn_a, 7 * MS);
    read_profile(&profile);
    end_heard(&puppet, &profile, 0, 3);
    CHECK_EQ(profile.stats[0].lost, 7); /* by then it was known why */
    CHECK_EQ(profile.stats[0].samples, 0);
    CHECK_EQ(profile.stats[0].ms_ringless, 1);
}

static void switch_off(uint64_t n)
{
    SIM_SWITCH(n);
}

/* An event whose periods are no time is overdue when the thread has had a millisecond since. */
SIM_TEST(a_thread_that_blocks_the_signal_of_switches_is_heard)
{
    struct cp_slot_request switches = request("contextSwitches", 1);
    struct profile profile = {.n = 0};
    struct puppet puppet;

    switches.config.engine = CP_ENGINE_SIGNAL;
    start_puppet(&puppet);
    run_puppet(&puppet, block_samples, 0);
    start_unread(&profile, &switches, 1);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__AWAITS_RING);
    run_puppet(&puppet, switch_off, 10);
    run_puppet(&puppet, burn_a, 3 * MS);
    read_profile(&profile);
    CHECK_EQ(ringless_of(&puppet, &profile), CP__HAS_RING);
    run_puppet(&puppet, switch_off, 20);
    run_puppet(&puppet, burn_a, 3 * MS);
    read_profile(&profile);
    CHECK_EQ(profile.seen[0].late, 20);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].count, 30);
    CHECK_EQ(profile.stats[0].samples, 20);
    CHECK_EQ(profile.stats[0].unsampled, 10);
    CHECK_EQ(profile.stats[0].lost, 0);
    end_puppet(&puppet);
}

/* A thread that has no event and sleeps is not heard of either, and costs a pass nothing. */
SIM_TEST(a_thread_that_is_refused_its_event_is_left_alone)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_SIGNAL, MS);
    struct profile profile = {.n = 0};
    struct puppet puppet;
    int before;

    start_puppet(&puppet);
    CHECK(cp__m_claim_from_handler(m_of(&puppet), CP__CLAIM_SELF));
    start_unread(&profile, &clock, 1);
    cp__m_unclaim_from_handler(m_of(&puppet));
    sim_fail(SYS_perf_event_open, 1, EACCES, true);
    run_puppet(&puppet, burn_a, 5 * MS);
    read_profile(&profile);
    CHECK_EQ(m_of(&puppet)->armed, 1u << profile.slots[0]);
    CHECK_EQ(m_of(&puppet)->stats[profile.slots[0]].refused, -EACCES);
    before = cp_load_relaxed(&barriers); /* relaxed: a counter */
    for (int i = 0; i < 5; i++)
        read_profile(&profile);
    CHECK_EQ(cp_load_relaxed(&barriers), before);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_refused, 1);
    end_puppet(&puppet);
}

/* ---- In a child ------------------------------------------------------------------------------ */

static void *pass_over(void *profile)
{
    read_profile(profile);
    return NULL;
}

static void pass_elsewhere(struct profile *profile)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, pass_over, profile), 0);
    pthread_join(thread, NULL);
}

/* Returns whether the calling thread, which blocks its signals, is heard of after 3 ms. */
static bool is_heard(uint64_t period)
{
    const struct cp_slot_request clock = clock_of(CP_ENGINE_TRAP, period);
    const struct cp__m *m = (struct cp__m *)cp_m_self();
    struct profile profile = {.n = 0};
    bool is;

    start_unread(&profile, &clock, 1);
    block_samples(3 * MS);
    pass_elsewhere(&profile);
    is = m->heard.interrupts != 0;
    stop_profile(&profile);
    return is;
}

/* The child's thread has a CPU clock of its own. */
SIM_TEST(the_thread_of_a_child_is_heard_of_as_early)
{
    struct worker worker = {.body = NULL};
    int status;
    pid_t child;

    attach(&worker);
    burn_a(100 * MS);
    CHECK(!is_heard(1000 * MS));
    child = fork();
    if (child == 0)
        _exit(is_heard(MS) ? 0 : 1);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    cp_m_detach(worker.m);
}
