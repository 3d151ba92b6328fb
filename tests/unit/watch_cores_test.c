/* Rounds on processors with several kinds of cores: their events are one for each kind. */
#include "runtime/perf/core_pmu_linux.h"
#include "runtime/perf/perf_linux.h"
#include "tests/support/burn.h"
#include "tests/support/stopwatch.h"

#include <sys/syscall.h>

enum { OPENING_NS = 10000, READING_NS = 700 };

/* An event is opened while the thread runs, and its others are open already. */
static long take_time(long number, const long arguments[6])
{
    const long result = sim_hand_on(number, arguments);

    if (number == SYS_perf_event_open)
        SIM_RUN(OPENING_NS);
    return result;
}

static struct cp_watch *open_on_kind(unsigned kind)
{
    cp__perf_prepare();
    sim->clock_ns = READING_NS;
    sim->pmu.is_there = true;
    sim->pmu.kinds = 2;
    sim->pmu.runs_on = kind;
    cp__core_pmus = (struct cp__core_pmus){.n = 2, .types = {SIM_PMU_TYPE + 1, SIM_PMU_TYPE + 2}};
    sim_hook(take_time);
    return open_watch("cores", "cycles");
}

/* Each reading takes less time than the one before, as if there were fewer interrupts. */
static void read_faster(void)
{
    sim->clock_ns -= 5;
}

static void pass_rounds(struct cp_watch *watch)
{
    for (unsigned i = 0; i < 20; i++) {
        read_faster();
        CP_WATCH(watch)
        {
            SIM_RUN(MS);
            read_faster();
        }
    }
}

static void check_rounds_on(unsigned kind)
{
    struct cp_watch *watch = open_on_kind(kind);
    struct cp_m *m = attach_m();
    struct found found;

    pass_rounds(watch);
    CHECK_EQ(state_of_watch(watch).partial, 0);
    found = find_row(watch, "cycles");
    CHECK_EQ(found.count, 20);
    CHECK(found.min >= MS && found.max < MS + 20 * READING_NS);
    cp_watch_close(watch);
    cp_m_detach(m);
}

SIM_TEST(rounds_on_the_first_kind_are_exact)
{
    check_rounds_on(1);
}

SIM_TEST(rounds_on_the_second_kind_are_exact)
{
    check_rounds_on(2);
}

/* What was missed once does not make later rounds partial. */
SIM_TEST(only_rounds_that_missed_something_are_partial)
{
    struct cp_watch *watch = open_on_kind(1);
    struct cp_m *m = attach_m();

    pass_rounds(watch);
    CP_WATCH(watch)
    {
        sim->pmu.is_taken = true;
        SIM_RUN(MS);
        sim->pmu.is_taken = false;
    }
    pass_rounds(watch);
    CHECK_EQ(state_of_watch(watch).partial, 1);
    CHECK_EQ(find_row(watch, "cycles").count, 40);
    cp_watch_close(watch);
    cp_m_detach(m);
}
