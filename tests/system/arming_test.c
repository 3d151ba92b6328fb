/* Ms that reach no scheduling point: a start and a stop reach those that run and those that sleep, send none
 * a signal, and wake none. The threads run and sleep when the test says so. tests/live/sleeper_test.c has
 * sleeps of other kinds. */
#include "tests/support/puppet.h"

#include <linux/futex.h>

#include "tests/support/resources.h"
#include "tests/support/stub_syscall.h"

static int sent;                    /* atomic: how many signals the library has sent to other threads */
static _Thread_local bool may_wait; /* the thread's waits are counted ... */
static uint64_t wait_ns;            /* ... and take so much time, besides the machine's */
static int waits;

static long stub_syscall(long number, const long a[6])
{
    if (number == SYS_rt_tgsigqueueinfo && a[1] != syscall(SYS_gettid))
        cp_fetch_add_relaxed(&sent, 1); /* relaxed: looked at when nothing runs any more */
    if (number == SYS_futex && may_wait && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT) {
        waits++;
        SIM_RUN(wait_ns);
    }
    return hand_on(number, a);
}

static struct cp_slot_request clock_and_timer[2];

static void make_requests(void)
{
    clock_and_timer[0] = signal_request("taskClock", 200000);
    clock_and_timer[1] = request("timer", 10 * MS);
}

static unsigned ms_of(const struct profile *profile, size_t i)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    cp_slots_stats(profile->slots[i], &stats);
    return stats.ms;
}

/* Checks that a profile has one M, with samples of a burn_a() of 20 ms and nothing else. */
static void check_20_ms(const struct profile *profile)
{
    CHECK(profile->stats[0].ms == 1 && profile->stats[1].ms == 1);
    CHECK_EQ(profile->stats[0].count, 20 * MS);
    CHECK_EQ(profile->seen[0].weight, 100);
    CHECK_EQ(profile->seen[0].leaf[IN_A], 100);
    CHECK_EQ(profile->seen[1].weight, 2);
    CHECK_EQ(profile->seen[1].leaf[IN_A], 2);
    CHECK_EQ(sent, 0);
}

/* ---- Ms that sleep, and run -------------------------------------------------------------------- */

static int stray; /* SIGPROFs that came while nothing was profiled */

static void on_stray(int signal)
{
    (void)signal;
    cp_fetch_add_relaxed(&stray, 1); /* relaxed: read after all threads have ended */
}

SIM_TEST(a_start_arms_an_m_that_sleeps_and_a_stop_lets_it_go)
{
    struct resources before, after;
    struct puppet puppet;

    make_requests();
    signal(SIGPROF, on_stray);
    start_puppet(&puppet);
    run_puppet(&puppet, burn_b, 5 * MS);
    before = resources_now();
    for (int i = 0; i < 3; i++) {
        struct profile profile = {.n = 0};

        start_unread(&profile, clock_and_timer, 2);
        CHECK_EQ(ms_of(&profile, 0), 1);
        CHECK_EQ(ms_of(&profile, 1), 1);
        run_puppet(&puppet, burn_a, 20 * MS);
        stop_profile(&profile);
        after = resources_now();
        CHECK_EQ(after.perf_fds + after.timers, 0);
        CHECK(sigprof_is(on_stray));
        run_puppet(&puppet, burn_b, 20 * MS); /* without a profile, no signal comes */
        check_20_ms(&profile);
    }
    CHECK_EQ(stray, 0);
    check_resources(&after, &before, 12);
    end_puppet(&puppet);
}

/* The thread is in the midst of its function at the start and at the stop. */
SIM_TEST(a_start_arms_an_m_that_runs_and_a_stop_lets_it_go)
{
    struct puppet puppet;

    make_requests();
    signal(SIGPROF, on_stray);
    start_puppet(&puppet);
    for (int i = 0; i < 3; i++) {
        struct profile profile = {.n = 0};

        hold_puppet(&puppet, burn_a, 20 * MS);
        start_unread(&profile, clock_and_timer, 2);
        CHECK_EQ(ms_of(&profile, 0), 1);
        finish_puppet(&puppet);
        hold_puppet(&puppet, burn_b, 20 * MS);
        stop_profile(&profile);
        CHECK_EQ(resources_now().perf_fds + resources_now().timers, 0);
        CHECK(sigprof_is(on_stray));
        finish_puppet(&puppet);
        check_20_ms(&profile);
    }
    CHECK_EQ(stray, 0);
    end_puppet(&puppet);
}

static void execute(uint64_t unused)
{
    (void)unused;
    cp_execute(cp_m_self(), NULL);
}

/* The M finds at its scheduling point that the start has armed it, and changes nothing. */
SIM_TEST(a_scheduling_point_after_the_start_changes_nothing)
{
    struct profile profile = {.n = 0};
    struct puppet puppet;

    make_requests();
    start_puppet(&puppet);
    start_unread(&profile, clock_and_timer, 2);
    run_puppet(&puppet, burn_a, 10 * MS);
    run_puppet(&puppet, execute, 0);
    run_puppet(&puppet, burn_a, 10 * MS);
    stop_profile(&profile);
    check_20_ms(&profile);
    end_puppet(&puppet);
}

/* The profile is started by another thread than the M that reads it. */
static void *start_elsewhere(void *profile)
{
    start_unread(profile, clock_and_timer, 2);
    return NULL;
}

SIM_TEST(an_m_may_read_profiles_itself)
{
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};
    pthread_t thread;

    make_requests();
    attach(&worker);
    pthread_create(&thread, NULL, start_elsewhere, &profile);
    pthread_join(thread, NULL);
    read_profile(&profile);
    burn_a(20 * MS);
    stop_profile(&profile);
    check_20_ms(&profile);
    cp_m_detach(worker.m);
}

/* The threads sleep during the stop, and run on without a profile. */
SIM_TEST(a_stop_lets_sleepers_go)
{
    struct puppet puppets[4];
    struct profile profile = {.n = 0};
    struct resources now;

    make_requests();
    start_unread(&profile, clock_and_timer, 2);
    for (int i = 0; i < 4; i++) {
        start_puppet(&puppets[i]);
        run_puppet(&puppets[i], burn_a, 20 * MS);
    }
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms, 4);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 400);
    CHECK_EQ(profile.seen[1].leaf[IN_A], 8);
    now = resources_now();
    CHECK_EQ(now.perf_fds + now.timers, 0);
    CHECK(sigprof_is(SIG_DFL));
    for (int i = 0; i < 4; i++) {
        run_puppet(&puppets[i], burn_b, 200000);
        end_puppet(&puppets[i]);
    }
    CHECK_EQ(sent, 0);
}

/* ---- Stop ------------------------------------------------------------------------------------ */

SIM_TEST(a_stop_does_not_wait_for_sleepers)
{
    enum { SLEEPERS = 64 };
    struct puppet *puppets = calloc(SLEEPERS, sizeof *puppets);

    make_requests();
    for (int i = 0; i < 2; i++) {
        struct profile profile = {.n = 0};

        start_unread(&profile, clock_and_timer, 2);
        for (int p = 0; p < SLEEPERS; p++) {
            start_puppet(&puppets[p]);
            run_puppet(&puppets[p], burn_a, 3 * MS);
        }
        may_wait = true;
        CHECK_EQ(cp_slots_stop(profile.slots, 2), 0);
        may_wait = false;
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].ms, SLEEPERS);
        CHECK_EQ(profile.seen[0].leaf[IN_A], 15 * SLEEPERS);
        for (int p = 0; p < SLEEPERS; p++)
            end_puppet(&puppets[p]);
    }
    CHECK_EQ(waits, 0);
    CHECK_EQ(sent, 0);
    free(puppets);
}

static void block_sigprof(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(how, &set, NULL);
}

static void block(uint64_t unused)
{
    (void)unused;
    block_sigprof(SIG_BLOCK);
}

/* The records wait for the thread, which has SIGPROF blocked. The timer's ticks are pending. */
SIM_TEST(a_stop_takes_what_waits_for_an_m_that_blocks_sigprof)
{
    struct puppet puppet;
    struct profile profile = {.n = 0};

    make_requests();
    start_unread(&profile, clock_and_timer, 2);
    start_puppet(&puppet);
    run_puppet(&puppet, burn_a, MS); /* it has a ring after that */
    run_puppet(&puppet, block, 0);
    run_puppet(&puppet, burn_b, 8 * MS);
    may_wait = true;
    CHECK_EQ(cp_slots_stop(profile.slots, 2), 0);
    may_wait = false;
    CHECK_EQ(waits, 0);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_unsettled, 0);
    CHECK_EQ(profile.seen[0].weight, 45);
    CHECK_EQ(profile.stats[0].late, 40);
    CHECK_EQ(resources_now().perf_fds + resources_now().timers, 0);
    end_puppet(&puppet);
    CHECK_EQ(sent, 0);
}

/* Many starts and stops under many signals, so that by chance a start or a stop meets a handler that runs. */
SIM_TEST(starts_and_stops_among_many_signals_reach_every_m)
{
    struct cp_slot_request fast[] = {signal_request("taskClock", 200000), signal_request("cpuClock", 230000)};
    struct worker workers[3];
    struct profile last = {.looks = true};

    for (size_t i = 0; i < ARRAY_SIZE(workers); i++)
        start_worker(&workers[i], body_c, NULL);
    for (int i = 0; i < 30; i++) {
        struct profile profile = {.looks = true};

        start_profile(&profile, fast, 2);
        sleep_ms(2);
        stop_profile(&profile);
    }
    start_profile(&last, fast, 1);
    for (int naps = 0; ms_of(&last, 0) < ARRAY_SIZE(workers); naps++) {
        CHECKF(naps < ENOUGH_NAPS, "only %u threads are profiled", ms_of(&last, 0));
        usleep(NAP_US);
    }
    stop_profile(&last);
    CHECK(sigprof_is(SIG_DFL));
    for (size_t i = 0; i < ARRAY_SIZE(workers); i++)
        stop_worker(&workers[i]);
}
