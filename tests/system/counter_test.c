/* Counters of the kernel's events. */
#include "tests/support/burn.h"
#include "tests/support/counter_tools.h"
#include "tests/support/refuse.h"
#include "tests/support/resources.h"

#include <linux/perf_event.h>
#include <sys/wait.h>

/* ---- The kernel's events --------------------------------------------------------------------- */

#define PAGES ((uint64_t)1000)

/* Takes a page fault for each of PAGES pages. */
static void touch_pages(void)
{
    for (uintptr_t i = 0; i < PAGES; i++)
        SIM_FAULT(4096 * i);
}

static void *run_touch(void *unused)
{
    touch_pages();
    return unused;
}

static void *run_two(void *unused)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, run_touch, NULL), 0);
    touch_pages();
    pthread_join(thread, NULL);
    return unused;
}

SIM_TEST(what_happens_between_start_and_stop_is_counted)
{
    struct cp_counter *counter = opened("pageFaults");
    struct cp_counter_value value = {.size = sizeof value};

    touch_pages();
    CHECK_EQ(value_of(counter).count, 0);
    start(counter);
    touch_pages();
    stop(counter);
    value = value_of(counter);
    CHECK_EQ(value.count, 1 * PAGES);
    CHECK(!value.is_scaled && value.count == value.raw && value.running_ns == value.enabled_ns);
    touch_pages();
    CHECK_EQ(value_of(counter).count, value.count);
    start(counter);
    touch_pages();
    value = value_of(counter);
    CHECK_EQ(value.count, 2 * PAGES);
    stop(counter);
    cp_counter_close(counter);
}

SIM_TEST(a_reset_counts_from_0)
{
    struct cp_counter *counter = opened("pageFaults");
    struct cp_counter_value value = {.size = sizeof value};

    start(counter);
    touch_pages();
    touch_pages();
    CHECK_EQ(cp_counter_reset(counter), 0);
    touch_pages();
    stop(counter);
    value = value_of(counter);
    CHECK_EQ(value.count, 1 * PAGES);
    CHECK_EQ(cp_counter_reset(counter), 0);
    value = value_of(counter);
    CHECK(value.count == 0 && value.enabled_ns == 0 && !value.is_scaled);
    cp_counter_close(counter);
}

static void body_touches_when_told(struct worker *worker)
{
    await(&worker->stop, 1);
    touch_pages();
}

/* One thread is older than the counter; others start and end in each state of the counter. */
SIM_TEST(threads_that_are_started_later_are_counted)
{
    struct worker older, newer;
    struct cp_counter *counter;
    struct cp_counter_value value = {.size = sizeof value};
    pthread_t thread;

    start_worker(&older, body_touches_when_told, NULL);
    counter = opened("pageFaults");
    start_worker(&newer, body_touches_when_told, NULL);
    start(counter);
    CHECK_EQ(pthread_create(&thread, NULL, run_two, NULL), 0);
    pthread_join(thread, NULL);
    value = value_of(counter);
    CHECK_EQ(value.count, 2 * PAGES);
    stop_worker(&newer);
    value = value_of(counter);
    CHECK_EQ(value.count, 3 * PAGES);
    stop_worker(&older);
    CHECK_EQ(pthread_create(&thread, NULL, run_touch, NULL), 0);
    pthread_join(thread, NULL);
    stop(counter);
    CHECK_EQ(pthread_create(&thread, NULL, run_touch, NULL), 0);
    pthread_join(thread, NULL);
    value = value_of(counter);
    CHECK_EQ(value.count, 4 * PAGES);
    cp_counter_close(counter);
}

struct opener {
    struct cp_counter *counter;
    struct worker heir;
};

static void *open_and_end(void *arg)
{
    struct opener *opener = arg;

    opener->counter = opened("pageFaults");
    start_worker(&opener->heir, body_touches_when_told, NULL);
    return NULL;
}

SIM_TEST(the_opening_thread_may_end)
{
    struct cp_counter_value value = {.size = sizeof value};
    struct opener opener;
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, open_and_end, &opener), 0);
    pthread_join(thread, NULL);
    start(opener.counter);
    touch_pages();
    CHECK_EQ(value_of(opener.counter).count, 0);
    stop_worker(&opener.heir);
    stop(opener.counter);
    value = value_of(opener.counter);
    CHECK_EQ(value.count, 1 * PAGES);
    cp_counter_close(opener.counter);
}

struct remote {
    struct cp_counter *counter;
    int step;
};

static void *control_from_afar(void *arg)
{
    struct remote *remote = arg;

    start(remote->counter);
    cp_store_release(&remote->step, 1); /* pairs with the acquire in await(), as those that follow */
    await(&remote->step, 2);
    stop(remote->counter);
    cp_store_release(&remote->step, 3);
    await(&remote->step, 4);
    return NULL;
}

SIM_TEST(another_thread_may_start_and_stop)
{
    struct remote remote = {.counter = opened("pageFaults")};
    struct cp_counter_value value = {.size = sizeof value};
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, control_from_afar, &remote), 0);
    await(&remote.step, 1);
    touch_pages();
    cp_store_release(&remote.step, 2);
    await(&remote.step, 3);
    touch_pages();
    value = value_of(remote.counter);
    CHECK_EQ(value.count, 1 * PAGES);
    cp_store_release(&remote.step, 4);
    pthread_join(thread, NULL);
    cp_counter_close(remote.counter);
}

SIM_TEST(task_clock_is_the_threads_cpu_time)
{
    struct cp_counter *counter = opened("taskClock");

    start(counter);
    burn_a(50 * MS);
    sleep_ms(20);
    stop(counter);
    burn_a(50 * MS);
    CHECK_EQ(value_of(counter).count, 50 * MS);
    CHECK_EQ(value_of(counter).enabled_ns, 50 * MS);
    cp_counter_close(counter);
}

/* Counts while the thread and a child take page faults. */
static uint64_t count_with_child(void)
{
    struct cp_counter *counter = opened("pageFaults");
    uint64_t count;
    int status;
    pid_t child;

    start(counter);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        touch_pages();
        cp_counter_close(counter);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    touch_pages();
    stop(counter);
    count = value_of(counter).count;
    cp_counter_close(counter);
    return count;
}

SIM_TEST(children_are_not_counted)
{
    CHECK_EQ(count_with_child(), PAGES);
}

SIM_TEST(before_linux_5_13_children_are_counted)
{
    sim->no_sigtrap = true;
    CHECK_EQ(count_with_child(), 2 * PAGES);
}

SIM_TEST(nothing_is_left_open)
{
    struct cp_counter *counters[4];
    struct resources before, after;

    cp_counter_close(opened("taskClock")); /* allocates what the library allocates once */
    before = resources_now();
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
        counters[i] = opened(i % 2 == 0 ? "pageFaults" : "taskClock");
    CHECK_EQ(resources_now().perf_fds, before.perf_fds + (int)ARRAY_SIZE(counters));
    CHECK_EQ(cp_counters_start(counters, ARRAY_SIZE(counters)), 0);
    touch_pages();
    CHECK_EQ(cp_counters_stop(counters, ARRAY_SIZE(counters)), 0);
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
        CHECK_EQ(value_of(counters[i]).count, i % 2 == 0 ? PAGES : 0);
        cp_counter_close(counters[i]);
    }
    cp_counter_close(NULL);
    after = resources_now();
    check_resources(&after, &before, 1);
}

/* ---- Refused --------------------------------------------------------------------------------- */

/* Checks that an event is refused, that nothing stays open, and that no timer is suggested. */
static void check_refused(const char *name, int code, const char *reason, const char *words)
{
    struct cp_event_spec spec = spec_of(name);
    struct resources before, after;
    struct cp_counter *counter = NULL;
    struct cp_error err = {0};
    int result = cp_counter_open(&counter, &spec, &err);

    printf("%d (%s): %s\n", result, err.reason, err.message);
    CHECK_EQ(result, code);
    CHECK_EQ(err.code, code);
    CHECK(counter == NULL);
    CHECK_STR(err.reason, reason);
    CHECK_CONTAINS(err.message, name);
    CHECK_CONTAINS(err.message, words);
    CHECK(strcmp(name, "timer") == 0 || strstr(err.message, "timer") == NULL);
    before = resources_now(); /* after the library has allocated what it allocates once */
    CHECK_EQ(cp_counter_open(&counter, &spec, NULL), code);
    after = resources_now();
    check_resources(&after, &before, 1);
}

SIM_TEST(what_the_kernel_does_not_count_is_refused)
{
    cp_counter_close(opened("taskClock"));
    check_refused("timer", -EINVAL, "no event to count", "Use taskClock");
    check_refused("wait", -EINVAL, "no event to count", "cp_g_stats()");
    check_refused("lock", -EINVAL, "no event to count", "cp_g_stats()");
}

static const struct refusal {
    int error;
    const char *reason;
    const char *words;
} refusals[] = {
    {EPERM, "forbidden by seccomp", "has to allow perf_event_open"},
    {ENOSYS, "no perf_event_open", "Do without it."},
    {EMFILE, "no file descriptor left", "or do without it."},
    {ENODEV, "not in this kernel", "Do without it."},
    {EINVAL, "not in this way (EINVAL)", "Use another event, or other modes."},
    {EBUSY, "in use by somebody else (EBUSY)", "use taskClock"},
    {E2BIG, "this kernel is too old", "or do without it."},
    {EIO, "", "Do without it."},
};

SIM_TEST(perf_event_open_may_be_refused_in_many_ways)
{
    cp_counter_close(opened("taskClock"));
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            if (refusals[i].error == EPERM)
                refuse_call(SYS_perf_event_open, EPERM); /* the message tells of the filter */
            sim_fail(SYS_perf_event_open, 1, refusals[i].error, true);
            check_refused("pageFaults", -refusals[i].error, refusals[i].reason, refusals[i].words);
            fflush(NULL);
            _exit(0);
        }
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECKF(status == 0, "%s: %#x", strerror(refusals[i].error), (unsigned)status);
    }
}

/* The words depend on the machine's own kernel.perf_event_paranoid. */
SIM_TEST(who_may_not_count_the_kernel_counts_user_mode)
{
    static const char *const of_the_kernel[] = {"contextSwitches", "pageFaults:k"};
    struct perf_event_attr last;

    sim->paranoid = 2;
    cp_counter_close(opened("pageFaults"));
    sim_opened(&last);
    CHECK(last.config == PERF_COUNT_SW_PAGE_FAULTS && !last.exclude_user && last.exclude_kernel);
    for (size_t i = 0; i < ARRAY_SIZE(of_the_kernel); i++) {
        struct cp_event_spec spec = spec_of(of_the_kernel[i]);
        struct cp_counter *counter;
        struct cp_error err = {0};

        CHECK_EQ(cp_counter_open(&counter, &spec, &err), -EACCES);
        CHECK_CONTAINS(err.message, of_the_kernel[i]);
    }
    sim->paranoid = 1;
    cp_counter_close(opened("pageFaults"));
    sim_opened(&last);
    CHECK(!last.exclude_user && !last.exclude_kernel);
    cp_counter_close(opened("pageFaults:k"));
    sim_opened(&last);
    CHECK(last.exclude_user && !last.exclude_kernel);
}
