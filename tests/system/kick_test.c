/* Ms that reach no scheduling point: a kick reaches those that run, and those that sleep are left alone. The
 * threads run and sleep when the test says so, so it is known which look finds them awake, and how many kicks
 * that takes. tests/live/sleeper_test.c has sleeps of other kinds. */
#include "tests/support/puppet.h"

#include <linux/futex.h>

#include "tests/support/resources.h"
#include "tests/support/stub_syscall.h"

static int kicks;                   /* atomic: how many signals the library has sent */
static _Thread_local bool may_wait; /* the thread's waits are counted ... */
static uint64_t wait_ns;            /* ... and take so much time, besides the machine's */
static int waits;
static int kicks_before_wait;

static long stub_syscall(long number, const long a[6])
{
    if (number == SYS_rt_tgsigqueueinfo)
        cp_fetch_add_relaxed(&kicks, 1); /* relaxed: looked at when the kick has arrived */
    if (number == SYS_futex && may_wait && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT) {
        if (waits++ == 0)
            kicks_before_wait = cp_load_relaxed(&kicks); /* relaxed: sent by this thread */
        SIM_RUN(wait_ns);
    }
    return hand_on(number, a);
}

static struct cp_slot_request clock_and_timer[2];

static void make_requests(void)
{
    clock_and_timer[0] = request("taskClock", 200000);
    clock_and_timer[1] = request("timer", 10 * MS);
}

static unsigned ms_of(const struct profile *profile, size_t i)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    cp_slots_stats(profile->slots[i], &stats);
    return stats.ms;
}

/* Makes one look of a reader for Ms to kick. */
static void look(struct profile *profile)
{
    profile->parts[0] = (struct profile_part){profile, 0};
    cp_slots_read(profile->slots[0], see, &profile->parts[0]);
}

static void await_armed(const struct profile *profile)
{
    for (int naps = 0; ms_of(profile, 0) + ms_of(profile, 1) < 2; naps++) {
        CHECKF(naps < ENOUGH_NAPS, "no kick has arrived");
        usleep(NAP_US);
    }
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
}

/* ---- Ms that run ----------------------------------------------------------------------------- */

static int stray; /* SIGPROFs that came while nothing was profiled */

static void on_stray(int signal)
{
    (void)signal;
    cp_fetch_add_relaxed(&stray, 1); /* relaxed: read after all threads have ended */
}

/* Stops a profile, whose first look sends one kick. If a later look finds that the M has taken the kick, but
 * is not in line yet, the stop sends another. */
static void stop_with_one_kick(struct profile *profile)
{
    int before = cp_load_relaxed(&kicks); /* relaxed: sent by this thread */

    waits = 0;
    may_wait = true;
    CHECK_EQ(cp_slots_stop(profile->slots, profile->n), 0);
    may_wait = false;
    CHECK(waits > 0);
    CHECK_EQ(kicks_before_wait, before + 1);
    stop_profile(profile);
}

/* One look of a reader profiles the M, and one look of a stop lets it go. */
SIM_TEST(an_m_without_scheduling_points_is_profiled_soon_and_let_go_soon)
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
        hold_puppet(&puppet, burn_a, 20 * MS);
        kicks = 0;
        look(&profile);
        await_armed(&profile);
        finish_puppet(&puppet);
        look(&profile);
        CHECK_EQ(kicks, 1);
        hold_puppet(&puppet, burn_b, 20 * MS);
        look(&profile);
        CHECK_EQ(kicks, 1);
        stop_with_one_kick(&profile);
        after = resources_now();
        CHECK_EQ(after.perf_fds + after.timers, 0);
        CHECK(sigprof_is(on_stray));
        finish_puppet(&puppet); /* without a profile, no signal comes */
        check_20_ms(&profile);
    }
    CHECK_EQ(stray, 0);
    check_resources(&after, &before, 12);
    end_puppet(&puppet);
}

SIM_TEST(an_m_that_slept_at_the_start_is_profiled_soon_after_it_wakes)
{
    struct profile profile = {.n = 0};
    struct puppet puppet;

    make_requests();
    start_puppet(&puppet);
    run_puppet(&puppet, burn_b, 5 * MS);
    start_unread(&profile, clock_and_timer, 2);
    for (int i = 0; i < 5; i++)
        read_profile(&profile);
    CHECK_EQ(kicks, 0);
    CHECK_EQ(ms_of(&profile, 0), 0);
    run_puppet(&puppet, burn_b, MS);
    hold_puppet(&puppet, burn_a, 20 * MS);
    look(&profile);
    await_armed(&profile);
    CHECK_EQ(kicks, 1);
    finish_puppet(&puppet);
    end_puppet(&puppet);
    stop_profile(&profile);
    check_20_ms(&profile);
}

static void execute(uint64_t unused)
{
    (void)unused;
    cp_execute(cp_m_self(), NULL);
}

/* No thread reads the profile, so no thread kicks. */
SIM_TEST(an_m_with_scheduling_points_needs_no_kick)
{
    struct profile profile = {.n = 0};
    struct puppet with, without;

    make_requests();
    start_puppet(&with);
    start_puppet(&without);
    start_unread(&profile, clock_and_timer, 2);
    run_puppet(&with, burn_b, 5 * MS);
    run_puppet(&with, execute, 0);
    run_puppet(&with, burn_a, 20 * MS);
    run_puppet(&without, burn_b, 20 * MS);
    stop_profile(&profile);
    CHECK_EQ(kicks, 0);
    check_20_ms(&profile);
    end_puppet(&with);
    end_puppet(&without);
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
    burn_b(5 * MS);
    read_profile(&profile);
    burn_a(20 * MS);
    stop_profile(&profile);
    CHECK_EQ(kicks, 0);
    check_20_ms(&profile);
    cp_m_detach(worker.m);
}

/* ---- Ms that sleep --------------------------------------------------------------------------- */

/* The thread sleeps during the stop, and then runs on with the timer and the event of a profile that has
 * ended: the first sample makes it give them back. */
SIM_TEST(a_stop_leaves_armed_sleepers_alone)
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
    CHECK_EQ(kicks, 0);
    CHECK_EQ(profile.stats[0].ms, 4);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 400);
    CHECK_EQ(profile.seen[1].leaf[IN_A], 8);
    for (int i = 0; i < 4; i++) {
        now = resources_now();
        CHECK_EQ(now.perf_fds, 2 * (4 - i)); /* the clock and the ring */
        CHECK_EQ(now.timers, 4 - i);
        CHECK(!sigprof_is(SIG_DFL));
        run_puppet(&puppets[i], burn_b, 200000);
    }
    now = resources_now();
    CHECK_EQ(now.perf_fds + now.timers, 0);
    for (int i = 0; i < 4; i++)
        end_puppet(&puppets[i]);
    CHECK_EQ(kicks, 0);
    CHECK(sigprof_is(SIG_DFL));
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
    CHECK_EQ(kicks, 0);
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

static void unblock(uint64_t unused)
{
    (void)unused;
    block_sigprof(SIG_UNBLOCK);
}

/* The thread has no CPU time during the stop, so one kick is all that it gets. Afterwards it runs on without
 * events, until it takes the kick. */
SIM_TEST(an_m_that_blocks_sigprof_delays_a_stop_for_two_seconds_at_most)
{
    struct puppet puppet;
    struct profile profile = {.n = 0}, next = {.n = 0};
    uint64_t start;

    make_requests();
    start_unread(&profile, clock_and_timer, 2);
    start_puppet(&puppet);
    run_puppet(&puppet, burn_a, 20 * MS);
    run_puppet(&puppet, block, 0);
    hold_puppet(&puppet, burn_b, 10 * MS);
    start = wall_ns();
    wait_ns = 100 * MS;
    may_wait = true;
    CHECK_EQ(cp_slots_stop(profile.slots, 2), -ETIMEDOUT);
    may_wait = false;
    CHECK(wall_ns() - start >= 2000 * MS && waits <= 20);
    CHECK_EQ(kicks, 1);
    read_profile(&profile);
    CHECK(is_read_up(&profile));
    cp_slots_release(profile.slots, 2);
    check_20_ms(&profile);
    CHECK_EQ(profile.stats[0].ms_unsettled, 1);
    CHECK_EQ(profile.stats[0].unsettled_tid, puppet.worker.tid);

    start_unread(&next, clock_and_timer, 2); /* the thread goes on and is profiled again */
    finish_puppet(&puppet);
    run_puppet(&puppet, unblock, 0);
    run_puppet(&puppet, burn_a, 20 * MS);
    end_puppet(&puppet);
    stop_profile(&next);
    CHECK_EQ(kicks, 1);
    check_20_ms(&next);
}

/* ---- Kicks that do not arrive ---------------------------------------------------------------- */

/* While a SIGPROF is pending, the kernel drops a kick. */
static void swallow(uint64_t unused)
{
    (void)unused;
    block_sigprof(SIG_BLOCK);
    pthread_kill(pthread_self(), SIGPROF);
}

/* A look kicks the thread again if the thread has had a millisecond since. */
static void look_while_held(struct puppet *puppet, struct profile *profile, void (*does)(uint64_t ns),
                            uint64_t ns)
{
    hold_puppet(puppet, does, ns);
    look(profile);
    look(profile);
    finish_puppet(puppet);
}

SIM_TEST(a_swallowed_kick_is_not_the_last)
{
    struct profile profile = {.n = 0};
    struct puppet puppet;

    make_requests();
    signal(SIGPROF, on_stray);
    start_puppet(&puppet);
    run_puppet(&puppet, burn_b, 5 * MS);
    run_puppet(&puppet, swallow, 0);
    start_unread(&profile, clock_and_timer, 2);
    look_while_held(&puppet, &profile, burn_b, MS - 1);
    CHECK_EQ(kicks, 1);
    look_while_held(&puppet, &profile, burn_b, 1);
    CHECK_EQ(kicks, 1);
    look_while_held(&puppet, &profile, burn_b, MS);
    CHECK_EQ(kicks, 2);
    CHECK_EQ(ms_of(&profile, 0), 0);
    run_puppet(&puppet, unblock, 0); /* the program's signal does the kick's work */
    CHECK_EQ(ms_of(&profile, 0), 1);
    look_while_held(&puppet, &profile, burn_a, 20 * MS);
    CHECK_EQ(kicks, 3); /* arrives */
    look_while_held(&puppet, &profile, execute, 0);
    CHECK_EQ(kicks, 3);
    end_puppet(&puppet);
    stop_profile(&profile);
    CHECK_EQ(kicks, 3);
    CHECK_EQ(stray, 1);
    CHECK(sigprof_is(on_stray));
    check_20_ms(&profile);
}

/* Many starts and stops under many signals, so that by chance kicks meet the signals of records. */
SIM_TEST(kicks_among_many_signals_all_arrive)
{
    struct cp_slot_request fast[] = {request("taskClock", 200000), request("cpuClock", 230000)};
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
