/* What samples may cost: at most half of a CPU. tests/live/sample_cost_test.c measures the cost. */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <sys/syscall.h>

#include "runtime/cost.h"

/* The cost that the tests set; no real cost is near it. */
#define COST_NS 1000000

SIM_TEST(an_unknown_cost_refuses_nothing)
{
    struct cp_slot_request requests[] = {request("taskClock", 10000)};
    struct cp_error err = {0};

    sim_fail(SYS_perf_event_open, 1, EPERM, true);
    cp__cost_set(0);
    CHECK_EQ(cp_sample_cost_ns(&err), 0);
    CHECK_EQ(err.code, -EPERM);
    CHECK_CONTAINS(err.message, "cannot be measured");
    CHECK_EQ(cp__cost_check(requests, 1, 0, NULL), 0);
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
    CHECK_CONTAINS(err.message, " 1000000 ns "); /* the cost in the message */
}

SIM_TEST(a_period_below_two_samples_is_refused)
{
    struct cp_slot_request slow = request("taskClock", 2 * COST_NS);
    struct cp_slot_request fast = request("cpuClock", 2 * COST_NS - 1);

    cp__cost_set(COST_NS);
    check_allowed(&slow, 1, 0);
    check_refused(&fast, 1, 0, "A sample of cpuClock every 1999999 may take more than half of a CPU");
    check_refused(&fast, 1, 0, "Take a period of 2000000 or more.");
}

SIM_TEST(all_events_count_together)
{
    struct cp_slot_request requests[] = {request("taskClock", 8 * COST_NS), request("timer", MS),
                                         request("cpuClock", 4 * COST_NS), request("cpuClock", 8 * COST_NS)};

    cp__cost_set(COST_NS);
    check_allowed(requests, ARRAY_SIZE(requests), 0);
    check_refused(requests, ARRAY_SIZE(requests), 1, "A sample of cpuClock every 4000000");
    check_refused(requests, ARRAY_SIZE(requests), 1e9 / (8 * COST_NS), "Take a period of 8000000 or more.");
    check_refused(requests, 1, 1e9 / (2 * COST_NS), "may take half of a CPU already");
}

SIM_TEST(cycles_count_by_the_highest_frequency)
{
    const double ns = 1e9 / (double)cp__os_highest_hz();
    struct cp_slot_request slow = request("cycles", (uint64_t)(2.01 * COST_NS / ns));
    struct cp_slot_request fast = request("instructions", (uint64_t)(1.99 * COST_NS / ns));
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
    struct cp_slot_request requests[] = {request("taskClock", 4 * COST_NS)};
    struct cp_slot_request more[] = {request("timer", MS), request("cpuClock", 3 * COST_NS)};
    struct profile profile = {.n = 0};
    struct cp_error err = {0};
    int slots[2];

    cp__cost_set(COST_NS);
    CHECKF(cp_slots_start(requests, 1, slots, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_slots_start(more, 2, slots, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "with the events beside it");
    CHECK_CONTAINS(err.message, "Take a period of 4000000 or more.");
    CHECK_EQ(resources_now().perf_fds, 0);
    slots[0] = 0;
    cp_slots_stop(slots, 1);
    start_unread(&profile, more, 2);
    stop_profile(&profile);
    cp_slots_release(slots, 1);
    CHECK(sigprof_is(SIG_DFL));
}
