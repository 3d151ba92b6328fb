/* Who has an event if there are not enough descriptors for all Ms. */
#include "runtime/m.h"
#include "tests/support/puppet.h"
#include "tests/support/resources.h"

#include <sys/resource.h>

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
    for (int i = 0; i < SLEEPERS; i++)
        start_puppet(&puppets[i]);
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
    for (int i = 0; i < SLEEPERS; i++)
        end_puppet(&puppets[i]);
}

SIM_TEST(threads_that_run_have_the_events_of_those_that_sleep_by_traps)
{
    check_share(CP_ENGINE_TRAP);
}

SIM_TEST(threads_that_run_have_the_events_of_those_that_sleep_by_signals)
{
    check_share(CP_ENGINE_SIGNAL);
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
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_refused, 1);
    CHECK_EQ(profile.stats[0].unarmed_ns, 5 * MS + MS / 2);
    for (int i = 0; i < SLEEPERS; i++)
        end_puppet(&puppets[i]);
}
