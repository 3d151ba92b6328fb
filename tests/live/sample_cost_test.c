/* What a sample, and a switch with an armed event, cost on this machine. */
#include "tests/support/burn.h"

#include <linux/futex.h>
#include <linux/perf_event.h>

#include "tests/support/inside.h"
#include "tests/support/resources.h"
#include "tests/support/stub_syscall.h"

#define ASKERS 4

static int waits;        /* atomic: how often an asker waited */
static int measurements; /* atomic: how often the cost was measured */

static _Thread_local bool is_asker;
static _Thread_local bool has_opened;

static void until_the_others_wait(void)
{
    while (cp_load_relaxed(&waits) < ASKERS - 1 && cp_load_relaxed(&measurements) == 1) /* relaxed: a hint */
        usleep(1000);
}

static long stub_syscall(long number, const long a[6])
{
    if (number == SYS_futex && is_asker && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
        cp_fetch_add_relaxed(&waits, 1); /* relaxed: nothing else depends on the number */
    if (number == SYS_perf_event_open && !has_opened &&
        ((const struct perf_event_attr *)a[0])->sample_period != 0) {
        has_opened = true;
        if (cp_fetch_add_relaxed(&measurements, 1) == 0)
            until_the_others_wait();
    }
    return hand_on(number, a);
}

static void *ask(void *cost)
{
    is_asker = true;
    *(uint64_t *)cost = cp_sample_cost_ns(NULL);
    return NULL;
}

/* The threads ask while one of them measures. Returns what all of them are told; 0 if the machine was too
 * busy for a measurement. */
static uint64_t ask_at_once(void)
{
    pthread_t threads[ASKERS];
    uint64_t costs[ASKERS];

    set_sample_cost(0);
    waits = measurements = 0;
    for (int i = 0; i < ASKERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, ask, &costs[i]), 0);
    for (int i = 0; i < ASKERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(costs[i], costs[0]);
    }
    CHECK_EQ(measurements, 1);
    CHECK(sigprof_is(SIG_DFL));
    return costs[0];
}

CP_TEST(the_cost_is_measured_once)
{
    uint64_t cost = 0;

    test_need_events();
    for (int tries = 0; tries < 20 && cost == 0; tries++)
        cost = ask_at_once();
    if (cost == 0)
        SKIP("no CPU was free for a measurement");
    printf("a sample costs %llu ns\n", (unsigned long long)cost);
    CHECK_EQ(cp_sample_cost_ns(NULL), cost);
    CHECK_EQ(measurements, 1);
}

/* What is the dearest depends on the machine and its noise. */
CP_TEST(the_cost_of_a_switch_is_measured)
{
    struct resources before, after;

    test_need_events();
    measurements = ASKERS;   /* nobody waits for others */
    cp_sample_cost_ns(NULL); /* prepares what is prepared once */
    before = resources_now();
    printf(
        "at a switch, a clock of 250 us costs %llu ns, one of 10 ms %llu, another event %llu, a timer %llu\n",
        (unsigned long long)cp_switch_cost_ns(CP_EVENT_CLOCK, 250000),
        (unsigned long long)cp_switch_cost_ns(CP_EVENT_CLOCK, 10 * MS),
        (unsigned long long)cp_switch_cost_ns(CP_EVENT_SOFTWARE, 1),
        (unsigned long long)cp_switch_cost_ns(CP_EVENT_TIMER, 0));
    after = resources_now();
    check_resources(&after, &before, 0);
    CHECK(sigprof_is(SIG_DFL));
    CHECK(cp_switch_cost_ns(CP_EVENT_CLOCK, 1) >= cp_switch_cost_ns(CP_EVENT_CLOCK, 1000 * MS));
}
