/* Which level of precise_ip an event gets. */
#include "tests/support/burn.h"
#include "tests/support/switching.h"

/* A PMU whose levels are tried: CPU time passes while the library waits for a first sample. */
static void have_pmu(unsigned most_precise)
{
    sim->pmu.is_there = true;
    sim->pmu.most_precise = most_precise;
    sim->clock_ns = 100000;
}

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

/* Samples burn_a() once in each of 500 periods. */
static struct cp_slot_stats sample(const char *event, enum cp_profile_pc_precision level)
{
    struct cp_slot_request made = request(event, 100000);
    struct profile profile = {.look = look};
    const uint64_t clock_ns = sim->clock_ns;
    struct worker worker;
    uint64_t ns = 50 * MS;

    memset(&held, 0, sizeof held);
    made.config.precise_ip = level;
    start_profile(&profile, &made, 1);
    sim->clock_ns = 0; /* what the test itself reads is not to be in the samples */
    run_attached(&worker, body_a, &ns);
    stop_profile(&profile);
    sim->clock_ns = clock_ns;
    CHECK_EQ(held.samples, profile.stats[0].samples);
    CHECK_EQ(profile.seen[0].leaf[IN_A], held.samples);
    CHECK_EQ(profile.stats[0].signals, held.samples);
    return profile.stats[0];
}

static struct cp_slot_stats sample_cycles(enum cp_profile_pc_precision level)
{
    return sample("cycles", level);
}

static void check_reached(enum cp_profile_pc_precision asked, enum cp_profile_pc_precision reached)
{
    struct cp_slot_stats stats = sample_cycles(asked);
    struct perf_event_attr last;

    sim_opened_pmu(&last);
    CHECK_EQ(stats.precise_ip, reached);
    CHECK_EQ(last.precise_ip, reached); /* the level of the M's event */
    CHECK_EQ(held.samples, 500);
    CHECK_EQ(held.with_ip, reached == 0 ? 0 : 500);
    CHECK_EQ(held.ip_in_a, held.with_ip);
}

SIM_TEST(what_is_there_is_reached)
{
    have_pmu(3);
    check_reached(CP_CPUPROF_IP_NO_SKID, CP_CPUPROF_IP_NO_SKID);
    check_reached(CP_CPUPROF_IP_CONSTANT_SKID, CP_CPUPROF_IP_CONSTANT_SKID);
    check_reached(CP_CPUPROF_IP_ARBITRARY_SKID, CP_CPUPROF_IP_ARBITRARY_SKID);
}

SIM_TEST(levels_that_are_refused_are_left)
{
    have_pmu(1);
    check_reached(CP_CPUPROF_IP_NO_SKID, CP_CPUPROF_IP_CONSTANT_SKID);
    sim->pmu.most_precise = 0;
    check_reached(CP_CPUPROF_IP_NO_SKID, CP_CPUPROF_IP_ARBITRARY_SKID);
}

/* Some kernels accept a level and then deliver no sample. The library takes the next lower level. */
SIM_TEST(levels_without_samples_are_left)
{
    have_pmu(3);
    sim->pmu.silent_from = 2;
    check_reached(CP_CPUPROF_IP_NO_SKID, CP_CPUPROF_IP_CONSTANT_SKID);
    sim->pmu.silent_from = 1;
    check_reached(CP_CPUPROF_IP_NO_SKID, CP_CPUPROF_IP_ARBITRARY_SKID);
}

/* If the event did not happen during the trial, the trial cannot tell whether the level delivers samples. */
SIM_TEST(rare_events_get_what_is_accepted)
{
    have_pmu(2);
    sim->pmu.only_cycles_happen = true;
    CHECK_EQ(sample("cacheMisses", CP_CPUPROF_IP_NO_SKID).precise_ip, CP_CPUPROF_IP_SUGGEST_NO_SKID);
    CHECK_EQ(held.samples, 0);
}

/* The kernel's own events accept any level and ignore it. */
SIM_TEST(only_pmus_are_asked)
{
    CHECK_EQ(sample("taskClock", CP_CPUPROF_IP_NO_SKID).precise_ip, 0);
    CHECK_EQ(held.samples, 500);
    CHECK_EQ(held.with_ip, 0);
}

/* arm64's PMU refuses exclude_idle. */
SIM_TEST(exclude_idle_is_left_away_where_it_is_refused)
{
    struct perf_event_attr last;

    have_pmu(0);
    sample_cycles(CP_CPUPROF_IP_ARBITRARY_SKID);
    CHECK_EQ(held.samples, 500);
    sim_opened_pmu(&last);
    CHECK(!last.exclude_idle);
    sim->pmu.knows_idle = true;
    sample_cycles(CP_CPUPROF_IP_ARBITRARY_SKID);
    CHECK_EQ(held.samples, 500);
    sim_opened_pmu(&last);
    CHECK(last.exclude_idle);
}

/* Below a period of 200 000, the handler would be more than 1 % of what the event counts. So the handler
 * pauses events of shorter periods. */
SIM_TEST(short_periods_do_not_count_the_handler)
{
    const struct {
        uint64_t period;
        bool pauses;
    } cases[] = {{20000, true}, {199999, true}, {200000, false}};

    have_pmu(0);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct cp_slot_request made = request("cycles", cases[i].period);
        struct profile profile = {.n = 0};
        struct worker worker;
        uint64_t ns = 50 * MS;

        sim->clock_ns = 100000;
        start_profile(&profile, &made, 1);
        sim->clock_ns = 0;
        take_switchings(); /* those of the trial */
        run_attached(&worker, body_a, &ns);
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].samples, ns / cases[i].period);
        CHECK_EQ(profile.stats[0].signals, ns / cases[i].period);
        /* the M enables its event, and disables it when it ends */
        CHECK_EQ(take_switchings(), 2 + (cases[i].pauses ? 2 * (ns / cases[i].period) : 0));
    }
}
