/* Threads that ask for a sample's cost while another thread measures it, or after a measurement has
 * failed. */
#include "tests/support/burn.h"

#include <linux/futex.h>
#include <linux/perf_event.h>
#include <sys/wait.h>

#include "tests/support/inside.h"
#include "tests/support/stub_syscall.h"

#define ASKERS 4

static int waits;        /* atomic: how often an asker waited */
static int measurements; /* atomic: how often the cost was measured */
static bool has_no_samples;
static void (*when_measuring)(void); /* the first thread that measures calls it; NULL: none */

static _Thread_local bool is_asker;
static _Thread_local bool has_opened;

static long stub_syscall(long number, const long a[6])
{
    if (number == SYS_futex && is_asker && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
        cp_fetch_add_relaxed(&waits, 1); /* relaxed: nothing else depends on the number */
    if (number == SYS_perf_event_open) {
        struct perf_event_attr attr = *(const struct perf_event_attr *)a[0];
        const long changed[6] = {(long)&attr, a[1], a[2], a[3], a[4], a[5]};

        if (!has_opened && attr.sample_period != 0) {
            has_opened = true;
            if (cp_fetch_add_relaxed(&measurements, 1) == 0 && when_measuring != NULL)
                when_measuring();
        }
        if (has_no_samples)
            attr.config = PERF_COUNT_SW_DUMMY;
        return hand_on(number, changed);
    }
    return hand_on(number, a);
}

static void check_failed(uint64_t cost, const struct cp_error *err, int code)
{
    CHECK_EQ(cost, 0);
    CHECK_EQ(err->code, code);
    CHECK_CONTAINS(err->message, "cannot be measured");
}

static void until_the_others_wait(void)
{
    while (cp_load_relaxed(&waits) < ASKERS - 1 && cp_load_relaxed(&measurements) == 1) /* relaxed: a hint */
        usleep(1000);
}

static void *ask(void *cost)
{
    is_asker = true;
    *(uint64_t *)cost = cp_sample_cost_ns(NULL);
    return NULL;
}

CP_TEST(who_asks_at_once_has_one_answer)
{
    pthread_t threads[ASKERS];
    uint64_t costs[ASKERS];

    test_need_events();
    set_sample_cost(0);
    when_measuring = until_the_others_wait;
    for (int i = 0; i < ASKERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, ask, &costs[i]), 0);
    for (int i = 0; i < ASKERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(costs[i], costs[0]);
    }
    CHECK_EQ(measurements, 1);
}

/* Each attempt keeps a CPU busy for some time. */
CP_TEST(what_failed_is_not_tried_again_at_once)
{
    struct cp_error err = {0};

    test_need_events();
    has_no_samples = true;
    set_sample_cost(0);
    for (int i = 0; i < 3; i++) {
        err.code = 0;
        check_failed(cp_sample_cost_ns(&err), &err, -ENODATA);
    }
    CHECK_EQ(measurements, 1);
    set_sample_cost(0);
    check_failed(cp_sample_cost_ns(&err), &err, -ENODATA);
    CHECK_EQ(measurements, 2);
}

/* The thread that measures asks for the cost itself. So might a thread that the program's pthread_create()
 * waits for, and waiting without end would be a deadlock. */
static void ask_while_measuring(void)
{
    struct cp_error err = {0};

    check_failed(cp_sample_cost_ns(&err), &err, -EBUSY);
}

CP_TEST(a_wait_for_another_measurement_has_an_end)
{
    test_need_events();
    set_sample_cost(0);
    when_measuring = ask_while_measuring;
    cp_sample_cost_ns(NULL);
    CHECK_EQ(measurements, 1);
}

static int host_signals;

static void on_host_signal(int signal)
{
    (void)signal;
    host_signals++;
}

/* All other threads have SIGPROF blocked, so if the thread that measures did not, the signal would come to
 * it. */
static void signal_process(void)
{
    kill(getpid(), SIGPROF);
}

/* The program's threads block SIGPROF and wait for it, so the signal belongs to them. */
CP_TEST(a_signal_of_the_programs_is_left_to_its_threads)
{
    const struct timespec now = {0, 0};
    sigset_t set;

    test_need_events();
    if (TEST_TSAN)
        SKIP("ThreadSanitizer has a thread of its own, to which the signal may come");
    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    set_sample_cost(0);
    when_measuring = signal_process;
    cp_sample_cost_ns(NULL);
    CHECK_EQ(measurements, 1);
    CHECK_EQ(sigtimedwait(&set, NULL, &now), SIGPROF);
    CHECK_EQ(host_signals, 0);
}

static int is_held, may_go_on;

static void stay(void)
{
    cp_store_release(&is_held, 1); /* pairs with the acquire in await() */
    await(&may_go_on, 1);
}

CP_TEST(a_child_measures_for_itself)
{
    pthread_t thread;
    uint64_t cost;
    int status;
    pid_t child;

    test_need_events();
    if (TEST_TSAN)
        SKIP("ThreadSanitizer lets a process that was forked from one with threads start none");
    set_sample_cost(0);
    when_measuring = stay;
    CHECK_EQ(pthread_create(&thread, NULL, ask, &cost), 0);
    await(&is_held, 1);
    child = fork();
    if (child == 0) {
        alarm(5);
        is_asker = true;
        cp_sample_cost_ns(NULL);
        _exit(measurements == 2 && waits == 0 ? 0 : 1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECKF(status == 0, "the child ended with %#x", (unsigned)status);
    cp_store_release(&may_go_on, 1); /* pairs with the acquire in await() */
    pthread_join(thread, NULL);
}
