/* Who has an event if there are not enough descriptors for all Ms. */
#include "runtime/base/fork_gate.h"
#include "runtime/configure.h"
#include "runtime/engine/perf_m_linux.h"
#include "runtime/share.h"
#include "tests/support/puppet.h"
#include "tests/support/resources.h"

#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define SLEEPERS 6

static struct puppet puppets[SLEEPERS];

/* Lets the process open so many more descriptors. */
static void allow_descriptors(int more)
{
    struct rlimit limit = {.rlim_cur = 0};
    int fd = dup(0);

    limit.rlim_cur = limit.rlim_max = (rlim_t)(fd + more);
    close(fd);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void end_puppets(void)
{
    for (int i = 0; i < SLEEPERS; i++)
        end_puppet(&puppets[i]);
}

static bool has_event(int i)
{
    return ((struct cp__m *)puppets[i].worker.m)->handles[0].is_open;
}

static unsigned count_events(void)
{
    unsigned n = 0;

    for (int i = 0; i < SLEEPERS; i++)
        n += has_event(i);
    return n;
}

/* The test itself needs a descriptor to see whether a thread sleeps. Nobody else is to have it. */
static int spare;

static void pass(struct profile *profile)
{
    spare = dup(0);
    CHECK(spare >= 0);
    profile->parts[0] = (struct profile_part){profile, 0};
    cp_slots_read(profile->slots[0], see, &profile->parts[0]);
    close(spare);
}

/* Starts the profile, for which there is one descriptor less than there are threads. */
static void start_short_of_one(struct profile *profile, const struct cp_slot_request *request)
{
    for (int i = 0; i < SLEEPERS; i++) {
        start_puppet(&puppets[i]);
        run_puppet(&puppets[i], burn_b, MS);
    }
    spare = dup(0);
    allow_descriptors(SLEEPERS - 1);
    start_unread(profile, request, 1);
    sim->ring_memory = 1; /* no ring is to take the test's descriptor */
    close(spare);
    CHECK_EQ(count_events(), SLEEPERS - 1);
}

/* The thread that was left out runs, and then another one of those that were left out after that. */
static void check_share(enum cp_engine engine)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};
    int left_out = 0;

    clock.config.engine = engine;
    start_short_of_one(&profile, &clock);
    for (int turn = 0; turn < 2; turn++) {
        while (has_event(left_out))
            left_out++;
        run_puppet(&puppets[left_out], burn_b, MS - 1);
        pass(&profile);
        CHECK(!has_event(left_out)); /* it has hardly run */
        run_puppet(&puppets[left_out], burn_b, 1);
        pass(&profile);
        CHECK(has_event(left_out));
        CHECK_EQ(count_events(), SLEEPERS - 1);
        run_puppet(&puppets[left_out], burn_a, 10 * MS);
        left_out = 0;
    }
    stop_profile(&profile);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 20);
    CHECK_EQ(profile.stats[0].count, 20 * MS);
    CHECK_EQ(profile.stats[0].ms, SLEEPERS - 1);
    CHECK_EQ(profile.stats[0].ms_refused, 1);
    CHECK_EQ(profile.stats[0].refused_errno, -EMFILE);
    CHECK_EQ(profile.stats[0].unarmed_ns, 2 * MS);
    CHECK_EQ(resources_now().perf_fds, 0);
    end_puppets();
}

SIM_TEST(threads_that_run_have_the_events_of_those_that_sleep_by_traps)
{
    check_share(CP_ENGINE_TRAP);
}

SIM_TEST(threads_that_run_have_the_events_of_those_that_sleep_by_signals)
{
    check_share(CP_ENGINE_SIGNAL);
}

static int opens; /* how often somebody has tried to open an event */

static long count_opens(long number, const long arguments[6])
{
    opens += number == SYS_perf_event_open;
    return sim_hand_on(number, arguments);
}

/* Nobody sleeps who could be left out instead. */
SIM_TEST(threads_that_have_run_keep_their_events)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};

    start_short_of_one(&profile, &clock);
    for (int i = 0; i < SLEEPERS; i++)
        run_puppet(&puppets[i], burn_a, MS / 2);
    run_puppet(&puppets[0], burn_b, 5 * MS);
    pass(&profile);
    CHECK(!has_event(0));
    sim_hook(count_opens);
    pass(&profile);
    CHECK_EQ(opens, 0); /* it has not run since */
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_refused, 1);
    CHECK_EQ(profile.stats[0].unarmed_ns, 5 * MS + MS / 2);
    end_puppets();
}

/* ---- What is left to the program --------------------------------------------------------------- */

#define DESCRIPTORS 256

/* Uses descriptors up to the last eighth, less so many. */
static void use_descriptors(int but, rlim_t hard_limit)
{
    const struct rlimit limit = {DESCRIPTORS, hard_limit};
    int fd;

    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    do
        fd = dup(0);
    while (fd < DESCRIPTORS - DESCRIPTORS / 8 - 1);
    for (int i = 0; i < but; i++)
        close(fd - i);
}

/* The last descriptors are the program's as long as the threads sleep. */
SIM_TEST(threads_that_sleep_leave_the_program_descriptors)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};
    int left_out = 0;

    for (int i = 0; i < SLEEPERS; i++) {
        start_puppet(&puppets[i]);
        run_puppet(&puppets[i], burn_b, MS);
    }
    use_descriptors(2, DESCRIPTORS);
    start_unread(&profile, &clock, 1);
    CHECK_EQ(count_events(), 2);
    while (has_event(left_out))
        left_out++;
    run_puppet(&puppets[left_out], burn_b, MS);
    pass(&profile);
    CHECK(has_event(left_out));
    CHECK_EQ(count_events(), 3);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms, 3);
    CHECK_EQ(profile.stats[0].ms_refused, 3);
    CHECK_EQ(profile.stats[0].unarmed_ns, MS);
    end_puppets();
}

/* Threads without a ring have a sample for each signal. */
static void check_rings_left(enum cp_engine engine)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};

    clock.config.engine = engine;
    for (int i = 0; i < SLEEPERS; i++)
        start_puppet(&puppets[i]);
    use_descriptors(SLEEPERS + 1, DESCRIPTORS);
    start_unread(&profile, &clock, 1);
    for (int i = 0; i < 3; i++)
        run_puppet(&puppets[i], burn_a, 4 * MS);
    CHECK_EQ(count_events(), SLEEPERS);
    CHECK_EQ(resources_now().perf_fds, SLEEPERS + 1);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_ringless, 2);
    CHECK_EQ(profile.stats[0].samples, 12);
    CHECK_EQ(profile.stats[0].lost, 0);
    end_puppets();
}

SIM_TEST(rings_leave_the_program_descriptors_by_traps)
{
    check_rings_left(CP_ENGINE_TRAP);
}

SIM_TEST(rings_leave_the_program_descriptors_by_signals)
{
    check_rings_left(CP_ENGINE_SIGNAL);
}

/* The soft limit is raised before a thread is left out. */
SIM_TEST(threads_that_sleep_have_events_up_to_the_hard_limit)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};

    for (int i = 0; i < SLEEPERS; i++)
        start_puppet(&puppets[i]);
    use_descriptors(2, 2 * DESCRIPTORS);
    start_unread(&profile, &clock, 1);
    CHECK_EQ(count_events(), SLEEPERS);
    stop_profile(&profile);
    end_puppets();
}

/* A start is not refused for that, and a thread that arms itself has its event. */
SIM_TEST(threads_that_run_have_the_last_descriptors)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 3 * MS;

    use_descriptors(0, DESCRIPTORS);
    start_unread(&profile, &clock, 1);
    run_attached(&worker, body_a, &ns);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_refused, 0);
    CHECK_EQ(profile.stats[0].samples, 3);
}

/* ---- A thread that runs again ---------------------------------------------------------------- */

/* Lets the thread that was left out have another one's event. Returns which one is left out now. */
static int let_another_be_left_out(struct profile *profile)
{
    int left_out = 0;

    while (has_event(left_out))
        left_out++;
    run_puppet(&puppets[left_out], burn_b, MS);
    pass(profile);
    CHECK(has_event(left_out));
    left_out = 0;
    while (has_event(left_out))
        left_out++;
    return left_out;
}

/* The time of a thread that was left out is told up to the stop, if no pass has found the thread. */
SIM_TEST(time_is_told_of_a_thread_that_runs_when_it_is_left_out)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};
    int left_out;

    start_short_of_one(&profile, &clock);
    left_out = let_another_be_left_out(&profile);
    run_puppet(&puppets[left_out], burn_b, 7 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_refused, 1);
    CHECK_EQ(profile.stats[0].ms_ns, 8 * MS);
    CHECK_EQ(profile.stats[0].unarmed_ns, 8 * MS);
    end_puppets();
}

static bool has_run;

/* The first event that is closed is that of a thread that wakes just then. */
static long wake_the_sleeper(long number, const long arguments[6])
{
    if (number == SYS_close && !has_run) {
        for (int i = 0; i < SLEEPERS; i++) {
            const struct cp__m *m = (const struct cp__m *)puppets[i].worker.m;

            if (has_event(i) && cp__perf_of(m)->handles[0].events[0].fd == (int)arguments[0]) {
                has_run = true;
                tell_puppet(&puppets[i], burn_a, 2 * MS);
                await(&puppets[i].done, 2);
            }
        }
    }
    return sim_hand_on(number, arguments);
}

SIM_TEST(a_thread_that_wakes_when_its_event_is_taken_loses_nothing_in_silence)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};
    int left_out;

    start_short_of_one(&profile, &clock);
    sim_hook(wake_the_sleeper);
    left_out = let_another_be_left_out(&profile);
    CHECK(has_run);
    run_puppet(&puppets[left_out], burn_b, 3 * MS);
    pass(&profile);
    pass(&profile);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_ns, 6 * MS);
    CHECK_EQ(profile.stats[0].count, 0);
    CHECK_EQ(profile.stats[0].unarmed_ns, 6 * MS);
    end_puppets();
}

/* The thread wakes between the last look and the close. */
SIM_TEST(what_an_event_has_counted_is_kept_when_it_is_taken)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};
    struct cp__m *m;

    start_short_of_one(&profile, &clock);
    m = (struct cp__m *)puppets[SLEEPERS - 1].worker.m;
    run_puppet(&puppets[SLEEPERS - 1], burn_a, 2 * MS);
    cp__lock(&cp__runtime_lock);
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_CHANGING));
    cp__configure_without(m, profile.slots[0]);
    cp__unlock(&cp__runtime_lock);
    CHECK(!has_event(SLEEPERS - 1));
    run_puppet(&puppets[SLEEPERS - 1], burn_b, 3 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_ns, 5 * MS);
    CHECK_EQ(profile.stats[0].count, 2 * MS);
    CHECK_EQ(profile.stats[0].samples, 2);
    CHECK_EQ(profile.stats[0].unarmed_ns, 3 * MS);
    CHECK_EQ(profile.stats[0].ms_refused, 2);
    end_puppets();
}

/* ---- What passes cost ------------------------------------------------------------------------ */

/* Threads that have run, but not since they were left out or armed, do not take each other's events. */
SIM_TEST(threads_that_sleep_do_not_take_events)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};

    start_short_of_one(&profile, &clock);
    for (int i = 0; i < SLEEPERS; i++)
        let_another_be_left_out(&profile);
    sim_hook(count_opens);
    pass(&profile);
    pass(&profile);
    CHECK_EQ(opens, 0);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_refused, 1);
    end_puppets();
}

/* Looks for an event for a thread that has run for a millisecond, at so many other threads at most. */
static void share_with(int i, uint64_t looks)
{
    run_puppet(&puppets[i], burn_b, MS);
    spare = dup(0);
    cp__fork_delay();
    cp__lock(&cp__runtime_lock);
    cp__share_begin(looks);
    cp__share_look((struct cp__m *)puppets[i].worker.m, sim_thread_ns(puppets[i].worker.tid));
    cp__unlock(&cp__runtime_lock);
    cp__fork_allow();
    close(spare);
}

/* The newest threads come first. The oldest one is left out, and the first three of the others have run. */
SIM_TEST(a_search_looks_at_so_many_threads_and_goes_on_there)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};

    start_short_of_one(&profile, &clock);
    CHECK(!has_event(0));
    for (int i = 3; i < SLEEPERS; i++)
        run_puppet(&puppets[i], burn_a, MS / 2);
    share_with(0, 2);
    CHECK(!has_event(0));
    share_with(0, 2);
    CHECK(has_event(0) && !has_event(2));
    CHECK(cp__ms_sleep_cursor == (struct cp__m *)puppets[1].worker.m);
    stop_profile(&profile);
    end_puppets();
    CHECK(cp__ms == NULL && cp__ms_sleep_cursor == NULL);
}
