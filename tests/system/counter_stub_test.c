/* Counters on PMUs that a stub plays: what the kernel is asked for, and what its answers mean. */
#include "counter.h"
#include "tests/support/burn.h"
#include "tests/support/inside.h"
#include "tests/support/resources.h"
#include "tests/support/stub_pmu.h"

static unsigned running_percent = 100; /* of its enabled time, an event has a counter for so many percent */
static bool is_gone;                   /* reads fail */

static long read_counter(int fd, void *buffer, size_t size)
{
    long got = hand_on(SYS_read, (const long[6]){fd, (long)buffer, (long)size});
    uint64_t *words = buffer;

    if (got == 3 * sizeof *words) { /* count, time enabled, time running */
        words[0] = words[0] * running_percent / 100;
        words[2] = words[2] * running_percent / 100;
    }
    return is_gone ? 0 : got;
}

__attribute__((constructor)) static void play_counters(void)
{
    stub_pmu.read = read_counter;
}

static struct cp_counter *opened(const char *name)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_counter *counter;
    struct cp_error err = {0};

    CHECK_EQ(cp_event_parse(name, &spec, &err), 0);
    CHECKF(cp_counter_open(&counter, &spec, &err) == 0, "%s", err.message);
    return counter;
}

static struct cp_counter_value count_burning(struct cp_counter *counter)
{
    struct cp_counter_value value = {.size = sizeof value};
    struct cp_error err = {0};

    CHECK_EQ(cp_counters_start(&counter, 1), 0);
    burn_a(20 * MS);
    CHECK_EQ(cp_counters_stop(&counter, 1), 0);
    CHECKF(cp_counter_read(counter, &value, &err) == 0, "%s", err.message);
    return value;
}

CP_TEST(cycles_are_refused_without_a_pmu)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_counter *counter;
    struct cp_error err = {0};

    stub_pmu.is_absent = true;
    CHECK_EQ(cp_event_parse("cycles", &spec, &err), 0);
    CHECK_EQ(cp_counter_open(&counter, &spec, &err), -ENOENT);
    CHECK_EQ(err.code, -ENOENT);
    CHECK_CONTAINS(err.message, "The event cycles cannot run");
    CHECK_CONTAINS(err.message, "taskClock");
}

/* The request is for user mode, for threads that start later but not for children, and without samples. */
CP_TEST(the_kernel_is_asked_to_count)
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
        const struct perf_event_attr *attr = &stub_pmu.last;

        if (cases[i].kernel && !counts_the_kernel())
            continue;
        cp_counter_close(opened(cases[i].name));
        CHECK(attr->exclude_user == !cases[i].user && attr->exclude_kernel == !cases[i].kernel);
        CHECK(attr->exclude_hv == !cases[i].hv && !attr->exclude_idle);
        CHECK(attr->inherit && attr->inherit_thread && attr->disabled && !attr->pinned);
        CHECK(attr->sample_period == 0 && attr->sample_type == 0 && attr->precise_ip == 0);
        CHECK_EQ(attr->read_format, PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING);
    }
}

CP_TEST(kernels_that_do_not_know_inherit_thread_count)
{
    struct cp_counter *counter;

    stub_pmu.inherits_all = true;
    counter = opened("cycles");
    CHECK(stub_pmu.last.inherit && !stub_pmu.last.inherit_thread);
    CHECK(count_burning(counter).count >= 18 * MS);
    cp_counter_close(counter);
}

CP_TEST(what_took_turns_is_scaled)
{
    struct cp_counter *counter = opened("cycles");
    struct cp_counter_value value = count_burning(counter);
    struct cp_error err = {0};

    CHECK(!value.is_scaled && value.count == value.raw && value.running_ns == value.enabled_ns);
    CHECK_EQ(cp_counter_reset(counter), 0);
    CHECK_EQ(cp_counter_read(counter, &value, &err), 0);
    CHECK(value.count == 0 && !value.is_scaled);
    cp_counter_close(counter);

    running_percent = 25;
    counter = opened("cycles");
    value = count_burning(counter);
    CHECK(value.is_scaled);
    CHECK(value.raw <= value.enabled_ns / 4 && value.count > 3 * value.raw);
    CHECK(value.count + 100 >= value.enabled_ns && value.count <= value.enabled_ns + 100);
    cp_counter_close(counter);
}

/* If somebody else's pinned event has the counter, an event never counts. Its 0 is not a result. */
CP_TEST(what_never_had_a_counter_is_no_zero)
{
    struct cp_counter *counter = opened("cycles");
    struct cp_counter_value value = count_burning(counter);
    struct cp_error err = {0};

    running_percent = 0;
    CHECK_EQ(cp_counter_read(counter, &value, &err), -EBUSY);
    CHECK_EQ(err.code, -EBUSY);
    CHECK_STR(err.reason, "never had a counter");
    CHECK_CONTAINS(err.message, "The event cycles was not counted");
    CHECK_EQ(cp_counter_reset(counter), 0);
    is_gone = true;
    CHECK_EQ(cp_counter_read(counter, &value, &err), -EIO);
    CHECK_CONTAINS(err.message, "cycles cannot be read");
    CHECK_EQ(cp_counter_reset(counter), -EIO);
    is_gone = false;
    cp_counter_close(counter);
}

/* ---- Cores of several kinds ------------------------------------------------------------------ */

static void two_kinds(void)
{
    stub_pmu.kinds = 2;
    play_two_kinds_of_cores(STUB_TYPE + 1, STUB_TYPE + 2);
}

/* The stub's events of both kinds have a counter all the time, and the events of the second kind count
 * nothing. */
CP_TEST(kinds_are_summed)
{
    struct resources before, after;
    struct cp_counter *counter;
    struct cp_counter_value value = {.size = sizeof value};

    two_kinds();
    before = resources_now();
    counter = opened("cycles");
    /* cp_counter_open() opens each event twice: the first time to see whether it counts */
    CHECK_EQ(stub_pmu.opened, 4);
    CHECK_EQ(resources_now().perf_fds, before.perf_fds + 2);
    stub_pmu.ioctls = 0;
    value = count_burning(counter);
    CHECK_EQ(stub_pmu.ioctls, 4);
    CHECK(value.count >= 18 * MS && value.count == value.raw);
    CHECK(10 * value.running_ns > 18 * value.enabled_ns);
    running_percent = 25; /* of each kind; together, half of the time */
    CHECK_EQ(cp_counter_read(counter, &value, NULL), 0);
    CHECK(value.is_scaled && value.count > value.raw / 10 * 19 && value.count < value.raw / 10 * 22);
    running_percent = 100;
    cp_counter_close(counter);
    after = resources_now();
    check_resources(&after, &before, 1);
}

CP_TEST(a_kind_may_refuse)
{
    struct cp_counter *counter;

    two_kinds();
    stub_pmu.refuses_kind = 2;
    counter = opened("cycles");
    /* cp_counter_open() opens the event twice: the first time to see whether it counts */
    CHECK_EQ(stub_pmu.opened, 2);
    CHECK(count_burning(counter).count >= 18 * MS);
    cp_counter_close(counter);
}
