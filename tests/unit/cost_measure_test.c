/* The measurement of what a sample costs, on the simulated kernel: a test says how much that is.
 * tests/live/sample_cost_test.c measures what this machine's samples cost. */
#include "tests/support/burn.h"
#include "tests/support/resources.h"
#include "tests/support/stub_syscall.h"

#include <errno.h>
#include <linux/perf_event.h>

#include "runtime/cost.h"

/* No event is opened with a shorter period, and none has more samples. */
#define SHORTEST_NS 200000
#define MOST_SAMPLES 48

static bool may_enable;          /* an event may have no limit */
static uint64_t shortest_ns;     /* the shortest period so far */
static unsigned most_samples;    /* lets an event end earlier than the library asks for; 0: as it asks for */
static void (*when_armed)(void); /* is called once, when an event has been opened; NULL: none */

static void check_control(unsigned long request, unsigned long argument)
{
    CHECK(request != PERF_EVENT_IOC_ENABLE || may_enable);
    CHECK(request != PERF_EVENT_IOC_REFRESH || argument <= MOST_SAMPLES);
}

static long stub_syscall(long number, const long a[6])
{
    void (*call)(void) = when_armed;
    long result;

    if (number == SYS_ioctl)
        check_control((unsigned long)a[1], (unsigned long)a[2]);
    if (number == SYS_ioctl && (unsigned long)a[1] == PERF_EVENT_IOC_REFRESH && most_samples != 0)
        return hand_on(number, (const long[6]){a[0], a[1], most_samples});
    result = hand_on(number, a);
    if (number != SYS_perf_event_open || ((const struct perf_event_attr *)a[0])->sample_period == 0)
        return result;
    shortest_ns = ((const struct perf_event_attr *)a[0])->sample_period;
    CHECK(shortest_ns >= SHORTEST_NS);
    when_armed = NULL;
    if (call != NULL)
        call();
    return result;
}

/* Measures a cost that the simulated kernel has. The machine's own time is added to the simulated one, so the
 * figure is somewhat higher. */
static void check_measures(uint64_t ns)
{
    struct cp_error err = {0};
    uint64_t cost;

    sim->cost_ns = ns;
    cp__cost_set(0);
    cost = cp_sample_cost_ns(&err);
    CHECKF(cost >= ns && cost < 2 * ns, "%s: %llu", err.message, (unsigned long long)cost);
    CHECK_EQ(cp_sample_cost_ns(NULL), cost);
    CHECK_EQ(sim_opened(NULL), 3); /* for cp__perf_has_lost_count, the clock, and the ring */
    CHECK(sigprof_is(SIG_DFL));
}

SIM_TEST(the_cost_of_a_sample_is_measured)
{
    sim->reading_ns = 1000;
    check_measures(150000);
}

/* The thread that measures makes no progress at all. The kernel ends its event, and the samples that came
 * one right after the other cost the same. */
SIM_TEST(a_measurement_ends_if_samples_leave_no_time)
{
    sim->reading_ns = 1000;
    check_measures(2 * MS);
}

/* These kernels hang if a clock ends at its limit. A sample that leaves no time at a longer period was never
 * seen. */
SIM_TEST(kernels_that_hang_at_a_limit_measure_slowly)
{
    may_enable = true;
    sim->release = "6.16.3";
    sim->reading_ns = 1000;
    check_measures(150000);
    CHECK(shortest_ns >= MS);
}

/* The least of few samples may be much more than a sample costs. */
SIM_TEST(few_samples_tell_no_cost)
{
    struct cp_error err = {0};

    sim->reading_ns = 1000;
    sim->cost_ns = 150000;
    most_samples = 3;
    cp__cost_set(0);
    CHECK_EQ(cp_sample_cost_ns(&err), 0);
    CHECK_EQ(err.code, -ENODATA);
}

static int host_signals;

static void on_host_signal(int signal)
{
    (void)signal;
    host_signals++;
}

static void signal_thread(void)
{
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPROF);
}

static void *take_signal(void *set)
{
    int got;

    CHECK_EQ(sigwait(set, &got), 0);
    CHECK_EQ(got, SIGPROF);
    return NULL;
}

/* The handler gives the signal back, and leaves SIGPROF blocked until the next round. */
SIM_TEST(a_signal_of_the_programs_ends_no_measurement)
{
    struct cp_error err = {0};
    pthread_t thread;
    sigset_t set;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer has a thread of its own, to which the signal may come");
    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    sim->reading_ns = 1000;
    sim->cost_ns = 150000;
    when_armed = signal_thread;
    cp__cost_set(0);
    CHECK_EQ(pthread_create(&thread, NULL, take_signal, &set), 0);
    CHECKF(cp_sample_cost_ns(&err) >= sim->cost_ns, "%s", err.message);
    pthread_join(thread, NULL);
    CHECK_EQ(host_signals, 0);
}
