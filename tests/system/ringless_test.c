/* Ms that the system refuses something, while other Ms of the same session go on. */
#include "tests/support/puppet.h"
#include "tests/support/refuse.h"
#include "tests/support/resources.h"

#define PERIOD 200000

/* ---- Refused altogether ---------------------------------------------------------------------- */

/* An M attaches when no descriptor is left. It is counted as refused and runs without a profile. */
SIM_TEST(an_m_without_descriptors_is_counted)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    struct worker worker;
    rlim_t used = fill_descriptors();
    uint64_t ns = 20 * MS;

    start_profile(&profile, requests, 1);
    run_attached(&worker, body_a, &ns);
    limit_descriptors(used, used);
    run_attached(&worker, body_b, &ns);
    stop_profile(&profile);
    free_descriptors();
    CHECK_EQ(profile.stats[0].ms, 1);
    CHECK_EQ(profile.stats[0].ms_refused, 1);
    CHECK_EQ(profile.stats[0].refused_errno, -EMFILE);
    CHECK_EQ(profile.seen[0].weight, 100);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 100);
}

static void set_blocked(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    CHECK_EQ(pthread_sigmask(how, &set, NULL), 0);
}

/* Burns 100 ms in all. */
static void body_without(struct worker *worker)
{
    (void)worker;
    burn_b(90 * MS);
    set_blocked(SIG_BLOCK);
    burn_b(10 * MS);
    set_blocked(SIG_UNBLOCK);
}

/* Profiles a thread that is refused a system call, and one that is not and burns 100 ms, too: half of them
 * before the other thread, and half of them after it. */
static void profile_two(long refused, int error, struct profile *profile,
                        const struct cp_slot_request *requests, size_t n)
{
    struct puppet other;
    struct worker worker;

    start_profile(profile, requests, n);
    start_puppet(&other);
    run_puppet(&other, burn_a, 50 * MS);
    sim_fail(refused, 1, error, true);
    run_attached(&worker, body_without, NULL);
    sim_fail(SIM_NONE, 0, 0, false);
    run_puppet(&other, burn_a, 50 * MS);
    end_puppet(&other);
    stop_profile(profile);
    CHECK_EQ(resources_now().perf_fds + resources_now().timers, 0);
    CHECK(sigprof_is(SIG_DFL));
}

/* Checks that every period of the M with everything is a sample. */
static void check_other(const struct profile *profile, size_t i, uint64_t samples)
{
    CHECK_EQ(profile->seen[i].in[IN_A], samples);
    CHECK_EQ(profile->seen[i].leaf[IN_A], samples);
    CHECK_EQ(profile->stats[i].dropped, 0);
}

/* Without a ring, a signal is a sample. While the thread blocks SIGPROF, one signal is pending, and that one
 * tells neither where it was raised nor how many others would have come. */
SIM_TEST(an_m_without_ring_memory_is_sampled_by_signals)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};

    profile_two(SYS_mmap, EPERM, &profile, requests, 1);
    check_told(&profile, 0, PERIOD);
    check_other(&profile, 0, 500);
    CHECK_EQ(profile.stats[0].ms, 2);
    CHECK_EQ(profile.stats[0].ms_ringless, 1);
    CHECK_EQ(profile.stats[0].ms_refused, 0);
    CHECK_EQ(profile.stats[0].count, 200 * MS);
    CHECK_EQ(profile.seen[0].leaf[IN_B], 450);
    CHECK_EQ(profile.stats[0].samples, 951);
    CHECK_EQ(profile.stats[0].lost, 49);
}

/* If the signals of two events are pending at the same time, one signal comes. The samples that this loses
 * are counted as lost. */
SIM_TEST(an_m_without_ring_memory_tells_its_losses)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD),
                                         signal_request("cpuClock", PERIOD)};
    struct profile profile = {.n = 0};

    profile_two(SYS_mmap, EPERM, &profile, requests, 2);
    for (size_t i = 0; i < 2; i++) {
        check_told(&profile, i, PERIOD);
        check_other(&profile, i, 500);
        CHECK_EQ(profile.stats[i].ms_ringless, 1);
        CHECK_EQ(profile.stats[i].count, 200 * MS);
        CHECK_EQ(profile.stats[i].samples + profile.stats[i].lost, 1000);
        CHECK_EQ(profile.seen[i].leaf[IN_B], 450);
    }
    CHECK_EQ(profile.stats[0].lost + profile.stats[1].lost, 99);
}

SIM_TEST(an_m_that_is_refused_is_counted_and_the_others_go_on)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};

    profile_two(SYS_perf_event_open, EACCES, &profile, requests, 2);
    check_other(&profile, 0, 500);
    CHECK_EQ(profile.stats[0].ms, 1);
    CHECK_EQ(profile.stats[0].ms_refused, 1);
    CHECK_EQ(profile.stats[0].refused_errno, -EACCES);
    CHECK_EQ(profile.stats[0].samples, 500);
    check_other(&profile, 1, 10);
    CHECK_EQ(profile.stats[1].ms, 2);
    CHECK_EQ(profile.stats[1].ms_refused, 0);
    CHECK_EQ(profile.stats[1].samples, 20);
    CHECK_EQ(profile.seen[1].leaf[IN_B], 9); /* and one comes when SIGPROF is unblocked */
}

SIM_TEST(an_m_that_is_refused_a_timer_is_counted)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};

    profile_two(SYS_timer_create, EAGAIN, &profile, requests, 2);
    check_other(&profile, 1, 10);
    CHECK_EQ(profile.stats[1].ms, 1);
    CHECK_EQ(profile.stats[1].ms_refused, 1);
    CHECK_EQ(profile.stats[1].refused_errno, -EAGAIN);
    CHECK_EQ(profile.stats[1].samples, 10);
    check_other(&profile, 0, 500);
    CHECK_EQ(profile.stats[0].ms, 2);
    CHECK_EQ(profile.stats[0].samples, 1000);
    CHECK_EQ(profile.stats[0].lost, 0);
    CHECK_EQ(profile.seen[0].weight, 1000);
}

/* ---- Many ------------------------------------------------------------------------------------ */

/* A ring is two pages. The Ms that find no memory for a ring are sampled all the same, and a later one finds
 * memory again. */
SIM_TEST(ms_past_the_ring_memory_have_none)
{
    enum { RINGS = 10, THREADS = 16 };
    struct cp_slot_request requests[] = {request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    struct puppet puppets[THREADS], next;

    sim->ring_memory = RINGS * 2 * (uint64_t)sysconf(_SC_PAGESIZE);
    start_unread(&profile, requests, 1);
    for (int i = 0; i < THREADS; i++) {
        start_puppet(&puppets[i]);
        run_puppet(&puppets[i], i < RINGS ? burn_a : burn_b, 2 * MS);
    }
    CHECK_EQ(resources_now().rings, RINGS);
    for (int i = 0; i < THREADS; i++)
        end_puppet(&puppets[i]);
    start_puppet(&next);
    run_puppet(&next, burn_a, 2 * MS);
    CHECK_EQ(resources_now().rings, 1);
    end_puppet(&next);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms, THREADS + 1);
    CHECK_EQ(profile.stats[0].ms_ringless, THREADS - RINGS);
    CHECK_EQ(profile.stats[0].ms_refused, 0);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 10 * (RINGS + 1));
    CHECK_EQ(profile.seen[0].leaf[IN_B], 10 * (THREADS - RINGS));
    CHECK_EQ(profile.stats[0].lost, 0);
}
