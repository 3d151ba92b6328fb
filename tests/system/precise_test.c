/* Which level of precise_ip an event gets; a stub plays the PMU. */
#include "tests/support/burn.h"
#include "tests/support/stub_pmu.h"

static struct {
    uint64_t samples;
    uint64_t with_ip;
    uint64_t ip_in_a;
} held;

static void look(void *context, const struct cp_sample *sample)
{
    (void)context;
    held.samples += sample->weight;
    held.with_ip += sample->ip != 0 ? sample->weight : 0;
    held.ip_in_a += is_in(IN_A, sample->ip) ? sample->weight : 0;
}

static struct cp_slot_stats sample(const char *event, enum cp_profile_pc_precision level)
{
    struct cp_slot_request made = request(event, 100000);
    struct profile profile = {.look = look};
    struct worker worker;
    uint64_t ns = 50 * MS;

    memset(&held, 0, sizeof held);
    made.config.precise_ip = level;
    start_profile(&profile, &made, 1);
    run_attached(&worker, body_a, &ns);
    stop_profile(&profile);
    need_unthrottled(&profile, 0); /* the stub is a clock */
    CHECK_EQ(held.samples, profile.stats[0].samples);
    return profile.stats[0];
}

static struct cp_slot_stats sample_cycles(enum cp_profile_pc_precision level)
{
    return sample("cycles", level);
}

static void check_reached(enum cp_profile_pc_precision asked, enum cp_profile_pc_precision reached)
{
    struct cp_slot_stats stats = sample_cycles(asked);

    CHECK_EQ(stats.precise_ip, reached);
    CHECK_EQ(stub_pmu.last.precise_ip, reached); /* the level of the M's event */
    CHECK_EQ(held.with_ip, reached == 0 ? 0 : held.samples);
    if (TEST_TSAN || reached == 0)
        return; /* ThreadSanitizer delivers signals late, wherever the thread is then */
    CHECK(held.samples > 100);
    CHECK(10 * held.ip_in_a > 8 * held.samples);
}

CP_TEST(what_is_there_is_reached)
{
    stub_pmu.most_precise = 3;
    check_reached(CP_CPUPROF_IP_NO_SKID, CP_CPUPROF_IP_NO_SKID);
    check_reached(CP_CPUPROF_IP_CONSTANT_SKID, CP_CPUPROF_IP_CONSTANT_SKID);
    check_reached(CP_CPUPROF_IP_ARBITRARY_SKID, CP_CPUPROF_IP_ARBITRARY_SKID);
}

CP_TEST(levels_that_are_refused_are_left)
{
    stub_pmu.most_precise = 1;
    check_reached(CP_CPUPROF_IP_NO_SKID, CP_CPUPROF_IP_CONSTANT_SKID);
    stub_pmu.most_precise = 0;
    check_reached(CP_CPUPROF_IP_NO_SKID, CP_CPUPROF_IP_ARBITRARY_SKID);
}

/* Some kernels accept a level and then deliver no sample. The library takes the next lower level. */
CP_TEST(levels_without_samples_are_left)
{
    stub_pmu.most_precise = 3;
    stub_pmu.silent_from = 2;
    check_reached(CP_CPUPROF_IP_NO_SKID, CP_CPUPROF_IP_CONSTANT_SKID);
    stub_pmu.silent_from = 1;
    check_reached(CP_CPUPROF_IP_NO_SKID, CP_CPUPROF_IP_ARBITRARY_SKID);
}

/* If the event did not happen during the trial, the trial cannot tell whether the level delivers samples. */
CP_TEST(rare_events_get_what_is_accepted)
{
    stub_pmu.most_precise = 2;
    stub_pmu.only_cycles_happen = true;
    CHECK_EQ(sample("cacheMisses", CP_CPUPROF_IP_NO_SKID).precise_ip, CP_CPUPROF_IP_SUGGEST_NO_SKID);
    CHECK_EQ(held.samples, 0);
}

/* The kernel's own events accept any level and ignore it. */
CP_TEST(only_pmus_are_asked)
{
    struct cp_slot_request made = request("taskClock", 100000);
    struct profile profile = {.look = look};
    struct worker worker;
    uint64_t ns = 20 * MS;

    made.config.precise_ip = CP_CPUPROF_IP_NO_SKID;
    start_profile(&profile, &made, 1);
    run_attached(&worker, body_a, &ns);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].precise_ip, 0);
    CHECK_EQ(held.with_ip, 0);
}

/* arm64's PMU refuses exclude_idle. */
CP_TEST(exclude_idle_is_left_away_where_it_is_refused)
{
    sample_cycles(CP_CPUPROF_IP_ARBITRARY_SKID);
    CHECK(stub_pmu.opened > 0 && !stub_pmu.last.exclude_idle);
    stub_pmu.knows_idle = true;
    sample_cycles(CP_CPUPROF_IP_ARBITRARY_SKID);
    CHECK(stub_pmu.last.exclude_idle);
}

/* Below a period of 200 000, the handler would be more than 1 % of what the event counts. So the handler
 * pauses events of shorter periods. */
CP_TEST(short_periods_do_not_count_the_handler)
{
    const struct {
        uint64_t period;
        bool pauses;
    } cases[] = {{20000, true}, {199999, true}, {200000, false}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct cp_slot_request made = request("cycles", cases[i].period);
        struct profile profile = {.n = 0};
        struct worker worker;
        uint64_t ns = 50 * MS;

        if (TEST_TSAN)
            SKIP("ThreadSanitizer delivers signals late: nothing is paused at once");
        stub_pmu.ioctls = 0;
        start_profile(&profile, &made, 1);
        run_attached(&worker, body_a, &ns);
        stop_profile(&profile);
        need_unthrottled(&profile, 0);
        /* of 250 and more, because the handler takes some of the thread's CPU time */
        CHECK(profile.stats[0].samples >= 20);
        if (cases[i].pauses)
            CHECK(stub_pmu.ioctls >= 2 * profile.stats[0].signals);
        else
            CHECK(stub_pmu.ioctls < 20);
    }
}
