/* Who has stalls looked for: the program, and others who join. */
#include "tests/support/stalls.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Starting and stopping ------------------------------------------------------------------- */

static int refused(uint64_t threshold_ns)
{
    struct cp_stall_options options = {.size = sizeof options, .threshold_ns = threshold_ns};
    struct cp_error err;
    int result = cp_stalls_start(&options, &err);

    CHECK(strlen(err.message) > 10);
    return result;
}

CP_TEST(what_cannot_be_started_is_refused)
{
    struct cp_stall_options unset = {.size = 0};
    struct cp_stalls_stats no_size = {.size = 0};

    CHECK_EQ(stats_now().threshold_ns, 0);
    CHECK_EQ(cp_stalls_start(&unset, NULL), -EINVAL);
    CHECK_EQ(cp_stalls_stats(&no_size), -EINVAL);
    CHECK_EQ(refused(1), -EINVAL);
    CHECK_EQ(refused(UINT64_MAX), -EINVAL);
    CHECK_EQ(cp_stalls_stop(), -ESRCH);
    cp_accounts_set(false);
    CHECK_EQ(refused(0), -ENODATA);
    cp_accounts_set(true);
    start_with(0, NULL);
    CHECK_EQ(refused(0), -EBUSY);
    CHECK_EQ(cp_stalls_stop(), 0);
    CHECK_EQ(cp_stalls_stop(), -ESRCH);
}

/* ---- Joining --------------------------------------------------------------------------------- */

static uint64_t join_with(uint64_t threshold_ns)
{
    struct cp_error err;
    uint64_t search = 0;

    CHECKF(cp_stalls_join(threshold_ns, &search, &err) == 0, "%s", err.message);
    CHECK_EQ(stats_now().is_running, 1);
    return search;
}

CP_TEST(a_search_ends_with_the_last_who_has_joined)
{
    struct cp_error err;
    uint64_t search, other = 77;

    CHECK_EQ(stats_now().search, 0);
    CHECK_EQ(cp_stalls_join(1, &other, &err), -EINVAL);
    cp_accounts_set(false);
    CHECK_EQ(cp_stalls_join(0, &other, &err), -ENODATA);
    cp_accounts_set(true);
    search = join_with(0);
    CHECK(search != 0);
    CHECK_EQ(join_with(0), search);
    CHECK_EQ(join_with(CP_STALL_DEFAULT_NS), search);
    CHECK_EQ(cp_stalls_join(CP_STALL_LEAST_NS, &other, &err), -EBUSY);
    CHECK_CONTAINS(err.message, "a threshold of 10000 us");
    CHECK_EQ(other, 77);
    CHECK_EQ(cp_stalls_stop(), -ESRCH); /* it is not the program's */
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(stats_now().is_running, 1);
        CHECK_EQ(cp_stalls_leave(), 0);
    }
    CHECK_EQ(stats_now().is_running, 0);
    CHECK_EQ(cp_stalls_leave(), -ESRCH);
    CHECK(join_with(0) > search);
    CHECK_EQ(cp_stalls_leave(), 0);
}

static void computes_some_more(void *arg)
{
    (void)arg;
    compute_until(CP_STALL_COMPUTED, stats_now().stalls[CP_STALL_COMPUTED] + 1);
}

static void computes_until_called(void *arg)
{
    (void)arg;
    while (cp_load_relaxed(&called) == 0) { /* relaxed: as in on_stall() */
        compute();
        cp_sleep(100000);
    }
}

CP_TEST(the_program_has_precedence_over_who_has_joined)
{
    uint64_t search = join_with(CP_STALL_LEAST_NS), number;
    unsigned calls;

    run(1, computes_some_more, NULL);
    start_with(3 * MS, NULL);
    CHECK_EQ(refused(0), -EBUSY);
    CHECK_EQ(stats_now().threshold_ns, 3 * MS);
    CHECK_EQ(stats_now().places, 0);
    number = stats_now().search;
    CHECK(number > search);
    run(1, computes_until_called, NULL);
    CHECK_EQ(join_with(0), number);
    CHECK_EQ(cp_stalls_leave(), 0);
    CHECK_EQ(cp_stalls_stop(), 0);
    calls = called;
    CHECK(calls > 0);
    CHECK_EQ(cp_stalls_stop(), -ESRCH);
    CHECK_EQ(stats_now().is_running, 1); /* for the one who had joined first */
    CHECK_EQ(stats_now().search, number);
    run(1, polls, NULL); /* of another place */
    CHECK_EQ(cp_stalls_leave(), 0);
    CHECK_EQ(called, calls);
    CHECK_EQ(stats_now().is_running, 0);
    CHECK(stats_now().places > 0);
}

/* ---- Its own thread, and others at the same time --------------------------------------------- */

static void stops_itself(void *context, const struct cp_stall *stall)
{
    uint64_t search;

    (void)stall;
    CHECK_EQ(cp_stalls_join(0, &search, NULL), -EDEADLK);
    CHECK_EQ(cp_stalls_leave(), -EDEADLK);
    cp_store_release((int *)context, cp_stalls_stop());
}

static void computes_until_stopped(void *arg)
{
    while (cp_load_acquire((int *)arg) == 0) { /* pairs with the release in stops_itself() */
        compute();
        cp_sleep(100000);
    }
}

CP_TEST(a_callback_cannot_stop_its_thread)
{
    int result = 0;
    struct cp_stall_options options = {.size = sizeof options, .callback = stops_itself, .context = &result};

    CHECK_EQ(cp_stalls_start(&options, NULL), 0);
    run(1, computes_until_stopped, &result);
    CHECK_EQ(cp_stalls_stop(), 0);
    CHECK_EQ(result, -EDEADLK);
}

static uint32_t rounds_left; /* shared, atomic */

static void *starts_and_stops(void *arg)
{
    uint64_t search;

    (void)arg;
    for (unsigned i = 0; i < 100; i++) {
        CHECK_EQ(cp_stalls_join(0, &search, NULL), 0);
        start_with(CP_STALL_LEAST_NS, NULL);
        usleep(i % 10 * 1000);
        CHECK_EQ(cp_stalls_stop(), 0);
        CHECK_EQ(cp_stalls_leave(), 0);
    }
    cp_store_relaxed(&rounds_left, 0u);
    return NULL;
}

/* Some stints are longer than the threshold, others shorter. */
static void computes_for_varied_times(void *arg)
{
    unsigned n = 0;

    (void)arg;
    while (cp_load_relaxed(&rounds_left) != 0) {
        for (volatile unsigned i = 0; i < (n % 8) * 1000000; i++) {
        }
        n++;
        cp_yield();
    }
}

static void starts_some(void *arg)
{
    for (unsigned i = 0; i < 4; i++)
        go(computes_for_varied_times, arg);
}

static bool has_library_s_handler(void)
{
    struct sigaction action;

    CHECK_EQ(sigaction(SIGPROF, NULL, &action), 0);
    return action.sa_handler != SIG_DFL;
}

/* A tick that a thread has had no time for is pending, and keeps the handler: one more does no harm. */
CP_TEST(it_starts_and_stops_while_gs_run)
{
    pthread_t thread;

    start_with(CP_STALL_LEAST_NS, NULL);
    CHECK(has_library_s_handler());
    CHECK_EQ(cp_stalls_stop(), 0);
    CHECK(!has_library_s_handler());
    cp_store_relaxed(&rounds_left, 1u);
    CHECK_EQ(pthread_create(&thread, NULL, starts_and_stops, NULL), 0);
    run(2, starts_some, NULL);
    pthread_join(thread, NULL);
    if (has_library_s_handler())
        raise(SIGPROF);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

CP_TEST(a_child_begins_anew)
{
    uint64_t id;
    int status;
    pid_t child;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer lets a child start no threads");
    start_with(0, NULL);
    run(1, computes, &id);
    join_with(0);
    child = fork();
    if (child == 0) {
        if (stats_now().threshold_ns != 0 || stats_now().places != 0 || cp_stalls_stop() != -ESRCH ||
            cp_stalls_leave() != -ESRCH)
            _exit(1);
        start_with(0, NULL);
        run(1, computes, &id);
        _exit(cp_stalls_stop() != 0 || called == 0 ? 2 : 0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(cp_stalls_stop(), 0);
    CHECK_EQ(cp_stalls_leave(), 0);
}
