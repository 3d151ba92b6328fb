/* Processors with several kinds of cores, each with a PMU of its own. */
#include "runtime/perf/core_pmu_linux.h"
#include "runtime/perf/perf_linux.h"
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <sys/stat.h>

/* ---- Finding the PMUs ------------------------------------------------------------------------ */

static void put(const char *name, const char *file, const char *text)
{
    char path[300];

    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s", name, file);
    test_write_file(path, text);
}

CP_TEST(kinds_are_found)
{
    const char *devices = test_dir();
    struct cp__core_pmus found = {.n = 7};

    cp__core_pmus_find("/nowhere", &found);
    CHECK_EQ(found.n, 0);
    put("software", "type", "1\n");
    put("uncore_imc", "type", "12\n");
    put("uncore_imc", "cpumask", "0\n");
    cp__core_pmus_find(devices, &found);
    CHECK_EQ(found.n, 0);
    put("cpu_core", "type", "4\n");
    put("cpu_core", "cpus", "0-3\n");
    cp__core_pmus_find(devices, &found);
    CHECK_EQ(found.n, 0); /* with one kind of core, the kind does not matter */
    put("cpu_atom", "type", "10\n");
    put("cpu_atom", "cpus", "4-7\n");
    cp__core_pmus_find(devices, &found);
    CHECK_EQ(found.n, 2);
    CHECK_EQ(found.types[0], 4);
    CHECK_EQ(found.types[1], 10);
    for (char name[] = "more_a"; name[5] < 'f'; name[5]++) {
        put(name, "type", "20\n");
        put(name, "cpus", "8\n");
    }
    cp__core_pmus_find(devices, &found);
    CHECK_EQ(found.n, CP__CORE_PMUS);
}

/* ---- Sampling on them ------------------------------------------------------------------------ */

/* Samples burn_a() once in each period of 60 ms; the events of the other kinds count nothing. */
static struct cp_slot_stats sample_by(const char *name, uint64_t period)
{
    struct cp_slot_request made = request(name, period);
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 60 * MS;

    sim->clock_ns = 1000; /* for the start's trial */
    start_profile(&profile, &made, 1);
    sim->clock_ns = 0;
    run_attached(&worker, body_a, &ns);
    stop_profile(&profile);
    CHECK_EQ(profile.seen[0].weight, ns / period);
    CHECK_EQ(profile.seen[0].leaf[IN_A], ns / period);
    CHECK_EQ(profile.stats[0].samples, ns / period);
    CHECK_EQ(profile.stats[0].signals, ns / period);
    CHECK_EQ(profile.stats[0].lost + profile.stats[0].foreign, 0);
    CHECK_EQ(profile.stats[0].count, ns);
    CHECK_EQ(profile.stats[0].time_enabled, ns);
    return profile.stats[0];
}

static void two_kinds(void)
{
    cp__perf_prepare();
    sim->pmu.is_there = true;
    sim->pmu.kinds = 2;
    cp__core_pmus = (struct cp__core_pmus){.n = 2, .types = {SIM_PMU_TYPE + 1, SIM_PMU_TYPE + 2}};
}

SIM_TEST(an_event_is_opened_on_every_kind)
{
    const char *const names[] = {"cycles", "r1c2"};

    two_kinds();
    sample_by("cycles", 300000); /* what is made once in a process is made here */
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct resources before = resources_now(), after;
        int opened = sim_opened_pmu(NULL);

        sample_by(names[i], 300000);
        /* at the start, two events that count and two that sample; then two on the M */
        CHECK_EQ(sim_opened_pmu(NULL), opened + 6);
        sample_by(names[i], 100000); /* pausing */
        after = resources_now();
        check_resources(&after, &before, 0);
    }
}

/* If only one kind of core has an event, the event is sampled there. */
SIM_TEST(a_kind_may_refuse)
{
    two_kinds();
    sim->pmu.refuses_kind = 2;
    sample_by("cycles", 300000);
    /* at the start, one event that counts and one that samples; then one on the M */
    CHECK_EQ(sim_opened_pmu(NULL), 3);
}

/* If a kernel does not accept the kind, the event is opened without the kind. */
SIM_TEST(kinds_may_be_unknown_to_the_kernel)
{
    struct perf_event_attr last;

    two_kinds();
    sim->pmu.kinds = 0;
    sample_by("cycles", 300000);
    /* at the start, one event that counts and one that samples; then one on the M */
    CHECK_EQ(sim_opened_pmu(&last), 3);
    CHECK(last.type == PERF_TYPE_HARDWARE && last.config == PERF_COUNT_HW_CPU_CYCLES);
}

SIM_TEST(the_kernels_own_events_are_no_matter_of_kinds)
{
    two_kinds();
    sample_by("taskClock", 300000);
    CHECK_EQ(sim_opened_pmu(NULL), 0);
}

/* While a thread runs on one kind of core, its events on the other kinds are enabled and do not run: so
 * running times add up, and enabled times do not. */
SIM_TEST(times_of_running_add_up)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    two_kinds();
    stats = sample_by("cycles", 300000);
    CHECK_EQ(stats.time_running, stats.time_enabled);
}
