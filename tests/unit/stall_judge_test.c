/* What clocks say of a stint, without any thread. */
#include "runtime/stall/judge.h"
#include "tests/support/test.h"

#define MS UINT64_C(1000000)

/* Returns the kind of a stint of 20 ms for a threshold of 10 ms. Its thread's clocks did this in 15 ms. */
static enum cp_stall_kind judged(uint64_t cpu, uint64_t queued, uint64_t stolen, bool is_ready)
{
    const struct cp__stint_clocks first = {
        .wall = 100 * MS, .cpu = 7 * MS, .queued = 3 * MS, .stolen = 90 * MS, .cpu_number = 1};
    const struct cp__stint_clocks last = {.wall = first.wall + 15 * MS,
                                          .cpu = first.cpu + cpu,
                                          .queued = first.queued + queued,
                                          .stolen = first.stolen + stolen,
                                          .cpu_number = 1,
                                          .is_ready = is_ready};

    return cp__stall_judge(&first, &last, 20 * MS, 10 * MS);
}

CP_TEST(what_ran_all_the_time_computed)
{
    CHECK_EQ(judged(15 * MS, 0, 0, true), CP_STALL_COMPUTED);
    CHECK_EQ(judged(15 * MS, 0, 0, false), CP_STALL_COMPUTED);
}

CP_TEST(what_slept_waited)
{
    CHECK_EQ(judged(0, 0, 0, false), CP_STALL_WAITED);
    CHECK_EQ(judged(7 * MS, 0, 0, false), CP_STALL_WAITED);
    CHECK_EQ(judged(8 * MS, 0, 0, false), CP_STALL_COMPUTED);
}

/* 20 ms are left of the threshold if the thread was away for 10 ms. */
CP_TEST(what_was_in_the_queue_was_not_run)
{
    CHECK_EQ(judged(4 * MS, 11 * MS, 0, false), CP_STALL_NOT_RUN);
    CHECK_EQ(judged(6 * MS, 9 * MS, 0, false), CP_STALL_COMPUTED);
    CHECK_EQ(judged(0, 9 * MS, 0, false), CP_STALL_WAITED);
}

/* The kernel counts the time in its queue when the thread has left that. */
CP_TEST(what_is_ready_may_be_in_the_queue)
{
    CHECK_EQ(judged(2 * MS, 0, 0, true), CP_STALL_NOT_RUN);
    CHECK_EQ(judged(2 * MS, 0, 0, false), CP_STALL_WAITED);
}

/* A step of 10 ms may stand for no time. */
CP_TEST(what_the_host_took_was_not_run)
{
    CHECK_EQ(judged(0, 0, 10 * MS, false), CP_STALL_WAITED);
    CHECK_EQ(judged(0, 0, 30 * MS, false), CP_STALL_NOT_RUN);
    CHECK_EQ(judged(15 * MS, 0, 30 * MS, false), CP_STALL_COMPUTED); /* it was taken from others */
}

/* Nobody knows how much of it was taken from the thread. */
CP_TEST(a_thread_on_another_cpu_has_no_stolen_time)
{
    const struct cp__stint_clocks first = {.cpu_number = 0};
    struct cp__stint_clocks last = {.wall = 15 * MS, .stolen = 500 * MS, .cpu_number = 1};

    CHECK_EQ(cp__stall_judge(&first, &last, 20 * MS, 10 * MS), CP_STALL_WAITED);
    last.cpu_number = 0;
    CHECK_EQ(cp__stall_judge(&first, &last, 20 * MS, 10 * MS), CP_STALL_NOT_RUN);
}

/* What was not looked at counts for the G, even if the thread was away ever since. */
CP_TEST(a_long_stint_has_its_own_part)
{
    const struct cp__stint_clocks first = {.cpu_number = -1};
    const struct cp__stint_clocks last = {.wall = 15 * MS, .queued = 15 * MS, .cpu_number = -1};

    CHECK_EQ(cp__stall_judge(&first, &last, 26 * MS, 10 * MS), CP_STALL_COMPUTED);
    CHECK_EQ(cp__stall_judge(&first, &last, 24 * MS, 10 * MS), CP_STALL_NOT_RUN);
}
