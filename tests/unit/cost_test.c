/* What samples may cost: they must leave a thread some time. cost_measure_test.c measures the cost. */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <sys/syscall.h>

#include "runtime/cost.h"
#include "runtime/engine/engines.h"
#include "runtime/turn.h"

/* The cost that the tests set; no real cost is near it. */
#define COST_NS 1000000

/* ---- The cost -------------------------------------------------------------------------------- */

/* A wait for a CPU, and the machine's other work, only add to a sample. So the least of several measurements
 * is kept. */
SIM_TEST(the_least_cost_is_kept)
{
    cp__cost_set(0);
    cp__cost_note(30);
    cp__cost_note(40);
    CHECK_EQ(cp__cost_known(), 30);
    cp__cost_note(20);
    CHECK_EQ(cp__cost_known(), 20);
}

/* A process that `counterpoint run` starts does not measure again. */
SIM_TEST(a_cost_that_is_told_is_not_measured)
{
    const uint32_t times = cp__cost_measured.times;

    cp__cost_set(0);
    CHECK(!cp__cost_take_over(0));
    CHECK(!cp__cost_take_over(199));
    CHECK(!cp__cost_take_over(1000001));
    CHECK_EQ(cp__cost_known(), 0);
    CHECK(cp__cost_take_over(7000));
    CHECK_EQ(cp_sample_cost_ns(NULL), 7000);
    CHECK_EQ(cp__cost_measured.times, times);
}

SIM_TEST(an_unknown_cost_opens_no_gate)
{
    struct cp_slot_request slow = request("taskClock", CP_SAMPLE_COST_ASSUMED_NS);
    struct cp_slot_request fast = request("taskClock", CP_SAMPLE_COST_ASSUMED_NS - 1);
    struct cp_error err = {0};

    sim_fail(SYS_perf_event_open, 1, EPERM, true);
    cp__cost_set(0);
    CHECK_EQ(cp_sample_cost_ns(&err), 0);
    CHECK_EQ(err.code, -EPERM);
    CHECK_CONTAINS(err.message, "cannot be measured");
    CHECK_EQ(cp__cost_check(&slow, 1, 0, &err), 0);
    CHECK_EQ(cp__cost_check(&fast, 1, 0, &err), -EINVAL);
    CHECK_CONTAINS(err.message, " 100000 ns by assumption, because the cost cannot be measured here. Take");
    CHECK(sigprof_is(SIG_DFL));
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void check_allowed(const struct cp_slot_request *requests, size_t n, double running)
{
    struct cp_error err = {0};

    CHECKF(cp__cost_check(requests, n, running, &err) == 0, "%s", err.message);
}

static void check_refused(const struct cp_slot_request *requests, size_t n, double running, const char *says)
{
    struct cp_error err = {0};

    CHECK_EQ(cp__cost_check(requests, n, running, &err), -EINVAL);
    CHECK_EQ(err.code, -EINVAL);
    CHECK_CONTAINS(err.message, says);
    CHECK_CONTAINS(err.message, " 1000000 ns on this machine"); /* the cost in the message */
}

SIM_TEST(a_period_below_a_samples_cost_is_refused)
{
    struct cp_slot_request slow = request("taskClock", COST_NS);
    struct cp_slot_request fast = request("cpuClock", COST_NS - 1);

    cp__cost_set(COST_NS);
    check_allowed(&slow, 1, 0);
    check_refused(&fast, 1, 0, "A sample of cpuClock every 999999 would leave a thread no time");
    check_refused(&fast, 1, 0, "Take a period of 1000000 or more; with 10000000, samples take a tenth.");
}

SIM_TEST(all_events_count_together)
{
    struct cp_slot_request requests[] = {request("taskClock", 4 * COST_NS), request("timer", MS),
                                         request("cpuClock", 2 * COST_NS), request("cpuClock", 4 * COST_NS)};

    cp__cost_set(COST_NS);
    check_allowed(requests, ARRAY_SIZE(requests), 0);
    check_refused(requests, ARRAY_SIZE(requests), 1, "A sample of cpuClock every 2000000");
    check_refused(requests, ARRAY_SIZE(requests), 1e9 / (4 * COST_NS), "Take a period of 4000000 or more");
    check_refused(requests, 1, 1e9 / COST_NS, "may take a whole CPU already");
}

SIM_TEST(cycles_count_by_the_highest_frequency)
{
    const double ns = 1e9 / (double)cp__os_highest_hz();
    struct cp_slot_request slow = request("cycles", (uint64_t)(1.01 * COST_NS / ns));
    struct cp_slot_request fast = request("instructions", (uint64_t)(0.99 * COST_NS / ns));
    struct cp_slot_request unknown = request("cacheMisses", 1000);

    CHECK(ns > 0.05 && ns < 10.1);
    cp__cost_set(COST_NS);
    check_allowed(&slow, 1, 0);
    check_refused(&fast, 1, 0, "A sample of instructions every ");
    check_allowed(&unknown, 1, 0);
}

/* ---- Starts ---------------------------------------------------------------------------------- */

/* A start counts the events that run, and not those that were stopped. A refused start leaves nothing
 * open. */
SIM_TEST(a_start_counts_what_runs)
{
    struct cp_slot_request requests[] = {request("taskClock", 2 * COST_NS)};
    struct cp_slot_request more[] = {request("timer", MS), request("cpuClock", 3 * COST_NS / 2)};
    struct profile profile = {.n = 0};
    struct cp_error err = {0};
    int slots[2];

    cp__cost_set(COST_NS);
    CHECKF(cp_slots_start(requests, 1, slots, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_slots_start(more, 2, slots, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "with the events beside it");
    CHECK_CONTAINS(err.message, "Take a period of 2000000 or more");
    CHECK_EQ(resources_now().perf_fds, 0);
    slots[0] = 0;
    cp_slots_stop(slots, 1);
    start_unread(&profile, more, 2);
    stop_profile(&profile);
    cp_slots_release(slots, 1);
    CHECK(sigprof_is(SIG_DFL));
}

/* Later starts count, too, but only in their own figures. */
SIM_TEST(a_start_tells_the_share_of_all_events)
{
    struct cp_slot_request first[] = {request("taskClock", 4 * COST_NS), request("timer", MS)};
    struct cp_slot_request second[] = {request("cpuClock", 2 * COST_NS)};
    struct cp_slot_request unknown[] = {request("pageFaults", 1)};
    struct profile profiles[3] = {{.n = 0}};

    cp__cost_set(COST_NS);
    start_unread(&profiles[0], first, 2);
    start_unread(&profiles[1], second, 1);
    start_unread(&profiles[2], unknown, 1);
    for (int i = 0; i < 3; i++)
        stop_profile(&profiles[i]);
    CHECK_EQ(profiles[0].stats[0].cost_percent, 25);
    CHECK_EQ(profiles[0].stats[1].cost_percent, 25);
    CHECK_EQ(profiles[1].stats[0].cost_percent, 75);
    CHECK_EQ(profiles[2].stats[0].cost_percent, 0);
}

/* A busy machine may make a sample look dearer than it is. So a start is not refused before the cost has been
 * measured again. */
SIM_TEST(a_noisy_cost_refuses_nothing)
{
    struct cp_slot_request made = request("taskClock", 10 * MS);
    struct profile profile = {.n = 0};

    sim->reading_ns = 1000;
    sim->cost_ns = 150000;
    cp__cost_set(0);
    cp__cost_note(1000 * MS);
    start_unread(&profile, &made, 1);
    stop_profile(&profile);
    CHECK(cp__cost_known() >= 150000 && cp__cost_known() < 10 * MS);
    CHECK_EQ(profile.stats[0].cost_percent, cp__cost_known() / (MS / 10));
}

static int opened_by_start(uint64_t period, int expected)
{
    struct cp_slot_request made = request("taskClock", period);
    struct cp_error err = {0};
    int before = sim_opened(NULL), slot;

    CHECK_EQ(cp_slots_start(&made, 1, &slot, &err), expected);
    if (expected < 0) {
        CHECK_CONTAINS(err.message, "would leave a thread no time");
    } else {
        cp_slots_stop(&slot, 1);
        cp_slots_release(&slot, 1);
    }
    return sim_opened(NULL) - before;
}

/* What cannot work is refused when the cost has been measured three times, and not when it is known from one
 * measurement. */
SIM_TEST(a_refusal_rests_on_three_measurements)
{
    int of_measurement, of_trial;

    sim->reading_ns = 1000;
    sim->cost_ns = 150000;
    cp__engines_prepare();
    cp__cost_set(0);
    of_measurement = sim_opened(NULL);
    CHECK(cp_sample_cost_ns(NULL) != 0);
    of_measurement = sim_opened(NULL) - of_measurement;
    of_trial = opened_by_start(10 * MS, 0);
    CHECK_EQ(opened_by_start(100000, -EINVAL), of_trial + 2 * of_measurement);
    cp__cost_set(0);
    CHECK_EQ(opened_by_start(100000, -EINVAL), of_trial + 3 * of_measurement);
}
