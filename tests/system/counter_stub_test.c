/* Counters on simulated PMUs: what the kernel is asked for, and what its answers mean. */
#include "counter.h"
#include "tests/support/burn.h"
#include "tests/support/inside.h"
#include "tests/support/resources.h"
#include "tests/support/switching.h"

/* Opens a counter. CPU time passes while the library tries whether the event counts. */
static struct cp_counter *opened(const char *name)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_counter *counter;
    struct cp_error err = {0};

    sim->pmu.is_there = true;
    sim->clock_ns = 1000;
    CHECK_EQ(cp_event_parse(name, &spec, &err), 0);
    CHECKF(cp_counter_open(&counter, &spec, &err) == 0, "%s", err.message);
    sim->clock_ns = 0;
    return counter;
}

static struct cp_counter_value value_of(struct cp_counter *counter)
{
    struct cp_counter_value value = {.size = sizeof value};
    struct cp_error err = {0};

    CHECKF(cp_counter_read(counter, &value, &err) == 0, "%s", err.message);
    return value;
}

static struct cp_counter_value count_burning(struct cp_counter *counter)
{
    CHECK_EQ(cp_counters_start(&counter, 1), 0);
    burn_a(20 * MS);
    CHECK_EQ(cp_counters_stop(&counter, 1), 0);
    return value_of(counter);
}

static void check_value(const struct cp_counter_value *value, uint64_t count, uint64_t raw,
                        uint64_t running_ns, uint64_t enabled_ns)
{
    CHECK_EQ(value->count, count);
    CHECK_EQ(value->raw, raw);
    CHECK_EQ(value->running_ns, running_ns);
    CHECK_EQ(value->enabled_ns, enabled_ns);
    CHECK_EQ(value->is_scaled, running_ns < enabled_ns);
}

SIM_TEST(cycles_are_refused_without_a_pmu)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_counter *counter;
    struct cp_error err = {0};

    CHECK_EQ(cp_event_parse("cycles", &spec, &err), 0);
    CHECK_EQ(cp_counter_open(&counter, &spec, &err), -ENOENT);
    CHECK_EQ(err.code, -ENOENT);
    CHECK_CONTAINS(err.message, "The event cycles cannot run");
    CHECK_CONTAINS(err.message, "taskClock");
}

/* The request is for user mode, for threads that start later but not for children, and without samples. */
SIM_TEST(the_kernel_is_asked_to_count)
{
    static const struct {
        const char *name;
        bool user, kernel, hv;
    } cases[] = {
        {"cycles", true, false, false},         {"r1c2", true, false, false},
        {"cycles:ppp", true, false, false},     {"cycles:k", false, true, false},
        {"instructions:ukh", true, true, true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct perf_event_attr attr;

        cp_counter_close(opened(cases[i].name));
        CHECK_EQ(sim_opened_pmu(&attr), 2 * (i + 1)); /* the first one is the trial's */
        CHECK(attr.exclude_user == !cases[i].user && attr.exclude_kernel == !cases[i].kernel);
        CHECK(attr.exclude_hv == !cases[i].hv && !attr.exclude_idle);
        CHECK(attr.inherit && attr.inherit_thread && attr.disabled && !attr.pinned);
        CHECK(attr.sample_period == 0 && attr.sample_type == 0 && attr.precise_ip == 0);
        CHECK_EQ(attr.read_format, PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING);
    }
}

SIM_TEST(kernels_that_do_not_know_inherit_thread_count)
{
    struct perf_event_attr last;
    struct cp_counter *counter;

    sim->no_sigtrap = true;
    counter = opened("cycles");
    sim_opened_pmu(&last);
    CHECK(last.inherit && !last.inherit_thread);
    CHECK_EQ(count_burning(counter).count, 20 * MS);
    cp_counter_close(counter);
}

SIM_TEST(what_had_a_counter_all_the_time_is_not_scaled)
{
    struct cp_counter *counter = opened("cycles");
    struct cp_counter_value value = count_burning(counter);

    check_value(&value, 20 * MS, 20 * MS, 20 * MS, 20 * MS);
    CHECK_EQ(cp_counter_reset(counter), 0);
    value = value_of(counter);
    check_value(&value, 0, 0, 0, 0);
    cp_counter_close(counter);
}

/* Each of four events has the counter in every fourth tick. */
SIM_TEST(what_took_turns_is_scaled)
{
    struct cp_counter *counters[4];
    struct cp_counter_value value = {.size = sizeof value};

    sim->pmu.counters = 1;
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
        counters[i] = opened("cycles");
    CHECK_EQ(cp_counters_start(counters, ARRAY_SIZE(counters)), 0);
    burn_a(4 * 4 * sim->tick_ns);
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
        value = value_of(counters[i]);
        check_value(&value, 64 * MS, 16 * MS, 16 * MS, 64 * MS);
        CHECK_EQ(cp_counter_reset(counters[i]), 0);
    }
    burn_a(4 * sim->tick_ns);
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
        value = value_of(counters[i]);
        check_value(&value, 16 * MS, 4 * MS, 4 * MS, 16 * MS);
        cp_counter_close(counters[i]);
    }
}

/* If somebody else's pinned event has the counter, an event never counts. Its 0 is not a result. */
SIM_TEST(what_never_had_a_counter_is_no_zero)
{
    struct cp_counter *counter = opened("cycles");
    struct cp_counter_value value = {.size = sizeof value};
    struct cp_error err = {0};

    sim->pmu.is_taken = true;
    CHECK_EQ(cp_counters_start(&counter, 1), 0);
    burn_a(20 * MS);
    CHECK_EQ(cp_counters_stop(&counter, 1), 0);
    CHECK_EQ(cp_counter_read(counter, &value, &err), -EBUSY);
    CHECK_EQ(err.code, -EBUSY);
    CHECK_STR(err.reason, "never had a counter");
    CHECK_CONTAINS(err.message, "The event cycles was not counted");
    CHECK_EQ(cp_counter_reset(counter), 0);
    sim->pmu.is_failed = true;
    CHECK_EQ(cp_counter_read(counter, &value, &err), -EIO);
    CHECK_CONTAINS(err.message, "cycles cannot be read");
    CHECK_EQ(cp_counter_reset(counter), -EIO);
    cp_counter_close(counter);
}

/* ---- Cores of several kinds ------------------------------------------------------------------ */

static void two_kinds(void)
{
    sim->pmu.kinds = 2;
    play_two_kinds_of_cores(SIM_PMU_TYPE + 1, SIM_PMU_TYPE + 2);
}

/* The thread runs on the first kind. The event of the second kind has no counter there. */
SIM_TEST(kinds_are_summed)
{
    struct resources before, after;
    struct cp_counter *counter;
    struct cp_counter_value value = {.size = sizeof value};

    two_kinds();
    before = resources_now();
    counter = opened("cycles");
    /* cp_counter_open() opens each event twice: the first time to see whether it counts */
    CHECK_EQ(sim_opened_pmu(NULL), 4);
    CHECK_EQ(resources_now().perf_fds, before.perf_fds + 2);
    take_switchings(); /* the trial's */
    value = count_burning(counter);
    CHECK_EQ(take_switchings(), 4);
    check_value(&value, 20 * MS, 20 * MS, 20 * MS, 20 * MS);
    cp_counter_close(counter);
    after = resources_now();
    check_resources(&after, &before, 1);
}

/* Of four events, two are of the kind on which the thread runs. Each of these has the kind's one counter in
 * every other tick. */
SIM_TEST(kinds_that_took_turns_are_scaled_by_their_sum)
{
    struct cp_counter *counters[2];

    two_kinds();
    sim->pmu.counters = 1;
    counters[0] = opened("cycles");
    counters[1] = opened("cycles");
    CHECK_EQ(cp_counters_start(counters, 2), 0);
    burn_a(4 * 4 * sim->tick_ns);
    CHECK_EQ(cp_counters_stop(counters, 2), 0);
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
        struct cp_counter_value value = value_of(counters[i]);

        check_value(&value, 64 * MS, 32 * MS, 32 * MS, 64 * MS);
        cp_counter_close(counters[i]);
    }
}

SIM_TEST(a_kind_may_refuse)
{
    struct cp_counter *counter;

    two_kinds();
    sim->pmu.refuses_kind = 2;
    counter = opened("cycles");
    /* cp_counter_open() opens the event twice: the first time to see whether it counts */
    CHECK_EQ(sim_opened_pmu(NULL), 2);
    CHECK_EQ(count_burning(counter).count, 20 * MS);
    cp_counter_close(counter);
}
