/* A processor with two kinds of cores, whose PMUs the simulated kernel has: each event is two of the
 * kernel's, and both are counted, lost and given up together. */
#include "counter.h"
#include "tests/support/burn.h"
#include "tests/support/inside.h"
#include "tests/support/resources.h"

#define PERIOD 200000

static void play_two_kinds(void)
{
    sim->pmu.is_there = true;
    sim->pmu.kinds = 2;
    sim->clock_ns = 1000; /* the library waits until cycles have counted */
    play_two_kinds_of_cores(SIM_PMU_TYPE + 1, SIM_PMU_TYPE + 2);
}

/* Returns the event's count by its records, while its threads run. */
static uint64_t counted(int slot)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    CHECK_EQ(cp_slots_stats(slot, &stats), 0);
    return stats.count;
}

static void body_runs_on_both(struct worker *worker)
{
    const struct profile *profile = worker->arg;

    burn_a(10 * PERIOD);
    sim->pmu.runs_on = 2;
    burn_b(30 * PERIOD + PERIOD / 2);
    CHECK_EQ(counted(profile->slots[0]), 40 * PERIOD);
    sim->pmu.runs_on = 1;
    burn_a(10 * PERIOD + PERIOD / 2);
}

SIM_TEST(each_kind_counts_for_itself)
{
    struct cp_slot_request requests[1];
    struct profile profile = {.n = 0};
    struct worker worker;

    play_two_kinds();
    requests[0] = request("cycles", PERIOD);
    start_profile(&profile, requests, 1);
    sim->clock_ns = 0;
    run_attached(&worker, body_runs_on_both, &profile);
    stop_profile(&profile);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 20);
    CHECK_EQ(profile.seen[0].leaf[IN_B], 30);
    CHECK_EQ(profile.stats[0].count, 51 * PERIOD);
    CHECK_EQ(profile.stats[0].lost + profile.stats[0].late, 0);
}

/* Each call for the two events of a thread fails in turn. */
static void fail_in_turn(long number, int error)
{
    uint64_t ns = 10 * PERIOD;
    int n = 0, failed;

    play_two_kinds();
    do {
        struct cp_slot_request requests[] = {request("cycles", PERIOD)};
        struct profile profile = {.n = 0};
        struct worker worker;
        struct resources now;

        start_unread(&profile, requests, 1);
        sim->clock_ns = 0;
        sim_fail(number, ++n, error, false);
        run_attached(&worker, body_a, &ns);
        now = resources_now();
        CHECKF(now.perf_fds + now.rings == 0, "%d events and %d rings are left after call %d", now.perf_fds,
               now.rings, n);
        failed = sim_failed();
        sim_fail(SIM_NONE, 0, 0, false);
        stop_profile(&profile);
        sim->clock_ns = 1000;
    } while (failed != 0 && n < 100);
    CHECK(n > 2 && n < 100);
}

SIM_TEST(events_that_do_not_open_leave_nothing)
{
    fail_in_turn(SYS_perf_event_open, EMFILE);
}

SIM_TEST(events_that_do_not_join_the_ring_leave_nothing)
{
    fail_in_turn(SYS_ioctl, EINVAL);
}

SIM_TEST(a_counter_of_which_one_kind_opens_leaves_nothing)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_counter *counter;
    struct cp_error err = {0};
    int n = 0, failed;

    play_two_kinds();
    CHECK_EQ(cp_event_parse("cycles", &spec, NULL), 0);
    do {
        int result;

        sim_fail(SYS_perf_event_open, ++n, EMFILE, true);
        result = cp_counter_open(&counter, &spec, &err);
        failed = sim_failed();
        sim_fail(SIM_NONE, 0, 0, false);
        CHECK_EQ(result, failed != 0 ? -EMFILE : 0);
        if (result == 0)
            cp_counter_close(counter);
        CHECK_EQ(resources_now().perf_fds, 0);
    } while (failed != 0 && n < 100);
    CHECK(n > 2 && n < 100);
}
