/* Threads that ask for a sample's cost while another thread measures it, or after a measurement has
 * failed. On the simulated kernel the thread that measures finds no samples, because it says of no time that
 * it passes. tests/live/sample_cost_test.c measures what this machine's samples cost. */
#include "tests/support/burn.h"

#include <linux/futex.h>
#include <linux/perf_event.h>
#include <sys/wait.h>

#include "tests/support/inside.h"
#include "tests/support/stub_syscall.h"

static int waits;                    /* atomic: how often an asker waited */
static int measurements;             /* atomic: how often the cost was measured */
static void (*when_measuring)(void); /* the first thread that measures calls it; NULL: none */

static _Thread_local bool is_asker;
static _Thread_local bool has_opened;

static long stub_syscall(long number, const long a[6])
{
    if (number == SYS_futex && is_asker && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
        cp_fetch_add_relaxed(&waits, 1); /* relaxed: nothing else depends on the number */
    if (number == SYS_perf_event_open && !has_opened &&
        ((const struct perf_event_attr *)a[0])->sample_period != 0) {
        has_opened = true;
        if (cp_fetch_add_relaxed(&measurements, 1) == 0 && when_measuring != NULL)
            when_measuring();
    }
    return hand_on(number, a);
}

static void check_failed(uint64_t cost, const struct cp_error *err, int code)
{
    CHECK_EQ(cost, 0);
    CHECK_EQ(err->code, code);
    CHECK_CONTAINS(err->message, "cannot be measured");
}

static void *ask(void *cost)
{
    is_asker = true;
    *(uint64_t *)cost = cp_sample_cost_ns(NULL);
    return NULL;
}

/* Each attempt keeps a CPU busy for some time. */
SIM_TEST(what_failed_is_not_tried_again_at_once)
{
    struct cp_error err = {0};

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

SIM_TEST(a_wait_for_another_measurement_has_an_end)
{
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
SIM_TEST(a_signal_of_the_programs_is_left_to_its_threads)
{
    const struct timespec now = {0, 0};
    sigset_t set;

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

SIM_TEST(a_child_measures_for_itself)
{
    pthread_t thread;
    uint64_t cost;
    int status;
    pid_t child;

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
