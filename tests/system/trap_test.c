/* Behaviour of perf events and signals that is unexpected and that no other test has. */
#include "tests/support/burn.h"

#define PERIOD 300000

/* A read of an event in an error state returns 0, as at the end of a file. The count from the last record
 * stays valid. */
SIM_TEST(an_event_that_reads_as_ended_keeps_its_count)
{
    struct cp_slot_request made;
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 50 * MS;

    sim->pmu.is_there = true;
    sim->pmu.is_failed = true;
    made = request("cycles", PERIOD);
    start_profile(&profile, &made, 1);
    run_attached(&worker, body_a, &ns);
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
    CHECK_EQ(profile.stats[0].samples, ns / PERIOD);
    CHECK_EQ(profile.stats[0].count, ns / PERIOD * PERIOD);
}
