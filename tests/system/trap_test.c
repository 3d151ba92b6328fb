/* Behaviour of perf events and signals that is unexpected and that no other test has. */
#include "tests/support/burn.h"
#include "tests/support/stub_pmu.h"

static void need_prompt_signals(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: what they count means nothing");
}

/* A read of an event in an error state returns 0, as at the end of a file. The count from the last record
 * stays valid. */
CP_TEST(an_event_that_reads_as_ended_keeps_its_count)
{
    struct cp_slot_request made = request("cycles", 300000);
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 50 * MS;

    need_prompt_signals();
    stub_pmu.is_failed = true;
    start_profile(&profile, &made, 1);
    run_attached(&worker, body_a, &ns);
    stop_profile(&profile);
    CHECK(profile.stats[0].samples > 50);
    CHECK(profile.stats[0].count >= profile.stats[0].samples * 300000 * 9 / 10);
    CHECK(profile.stats[0].count < 100 * ns);
}

static void body_gives_up(struct worker *worker)
{
    burn_a(50 * MS);
    if (setresuid(65534, 65534, 65534) < 0)
        SKIP("another user cannot be had");
    burn_b(*(const uint64_t *)worker->arg);
}

/* The kernel notes the sender of an event's signals when the event gets its owner, so later changes of
 * privileges do not matter. */
CP_TEST(privileges_may_be_given_up_meanwhile)
{
    struct cp_slot_request requests[] = {request("taskClock", 200000), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 200 * MS;

    need_prompt_signals();
    if (geteuid() != 0)
        SKIP("only root can become another user");
    start_profile(&profile, requests, 2);
    run_attached(&worker, body_gives_up, &ns);
    stop_profile(&profile);
    CHECK((double)profile.stats[0].samples >= 0.99 * periods_of(&profile, 0, 200000) - 1);
    CHECK(profile.seen[0].in[IN_B] * 200000 > ns / 2);
    CHECK(profile.seen[1].in[IN_B] * 10 * MS > ns / 4);
}
