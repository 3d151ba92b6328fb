/* Gs that hold their M for too long. */
#include "pprof.h"
#include "tests/support/stalls.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- What computes --------------------------------------------------------------------------- */

static unsigned frames_here(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < told.last.depth; i++)
        n += told.frames[i] >= (uintptr_t)__start_stalls_here &&
             told.frames[i] <= (uintptr_t)__stop_stalls_here;
    return n;
}

CP_TEST(what_computes_is_told_with_stack_and_labels)
{
    uint64_t id = 0;

    start_with(0, NULL);
    CHECK_EQ(stats_now().threshold_ns, CP_STALL_DEFAULT_NS);
    run(1, computes, &id);
    CHECK_EQ(cp_stalls_stop(), 0);
    CHECK(called >= 1);
    CHECK_EQ(told.last.kind, CP_STALL_COMPUTED);
    CHECK_EQ(told.last.g_id, id);
    CHECK_EQ(told.last.count, 1);
    CHECK_EQ(told.last.tid, gettid());
    CHECK(told.last.longest_ns >= CP_STALL_DEFAULT_NS);
    CHECK_STR(told.label, "kind=busy");
    CHECK(frames_here() >= 1);
    CHECK_EQ(told.last.flags, 0); /* the stack is whole */
}

/* The loop's own code has one place only: nothing is called in it. */
HERE static void compute_simply(const uint32_t *is_over)
{
    while (cp_load_relaxed(is_over) == 0) {
    }
}

static uint32_t is_over; /* shared, atomic */

static void *ends_after_a_while(void *arg)
{
    (void)arg;
    usleep(30000);
    cp_store_relaxed(&is_over, 1u);
    return NULL;
}

struct found {
    uint64_t count, places, total_ns;
};

/* Counts the stalls that compute_simply() has. */
static int find_simple(void *context, const struct cp_stall *stall)
{
    struct found *found = context;

    if (stall->kind != CP_STALL_COMPUTED || stall->depth == 0 ||
        stall->frames[0] - (uintptr_t)compute_simply > 200)
        return 0;
    found->places++;
    found->count += stall->count;
    found->total_ns += stall->total_ns;
    CHECK(stall->longest_ns <= stall->total_ns);
    return 0;
}

static struct found found_simple(void)
{
    struct found found = {.count = 0};

    CHECK_EQ(cp_stalls_each(find_simple, &found), 0);
    return found;
}

/* On a busy machine, some of the stalls are told without a stack. */
static void computes_often(void *arg)
{
    (void)arg;
    while (found_simple().count < 3) {
        pthread_t thread;

        cp_store_relaxed(&is_over, 0u);
        CHECK_EQ(pthread_create(&thread, NULL, ends_after_a_while, NULL), 0);
        compute_simply(&is_over);
        pthread_join(thread, NULL);
        cp_sleep(100000);
    }
}

CP_TEST(a_place_is_told_once)
{
    struct cp_stalls_stats stats;
    struct found found;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer hands signals on when the program calls something");
    start_with(CP_STALL_LEAST_NS, NULL);
    run(1, computes_often, NULL);
    CHECK_EQ(cp_stalls_stop(), 0);
    found = found_simple();
    stats = stats_now();
    CHECK_EQ(found.places, 1);
    CHECK(found.count >= 3 && found.count <= stats.stalls[CP_STALL_COMPUTED]);
    CHECK(found.total_ns >= found.count * CP_STALL_LEAST_NS);
    CHECK_EQ(stats.reports, called);
    CHECK_EQ(stats.reports, stats.places);
    CHECK_EQ(stats.is_running, 0);
}

/* ---- What waits ------------------------------------------------------------------------------ */

static int the_object;

HERE static void sleeps_and_tells(void *arg)
{
    const struct timespec while_ = {.tv_nsec = 50000000};

    (void)arg;
    cp_label_set("kind", "sleepy");
    while (stats_now().stalls[CP_STALL_WAITED] == 0) {
        cp_wait_begin(CP_WAIT_SLEEP, &the_object);
        CHECK_EQ(nanosleep(&while_, NULL), 0); /* no signal ends it */
        cp_wait_end();
        cp_yield();
    }
}

CP_TEST(what_waits_is_told_with_its_reason)
{
    start_with(0, NULL);
    run(1, sleeps_and_tells, NULL);
    CHECK_EQ(cp_stalls_stop(), 0);
    CHECK(called >= 1);
    CHECK_EQ(told.last.kind, CP_STALL_WAITED);
    CHECK_EQ(told.last.reason, CP_WAIT_SLEEP);
    CHECK(told.last.object == &the_object);
    CHECK_STR(told.label, "kind=sleepy");
    CHECK(frames_here() >= 1);
    CHECK(told.last.depth >= 2); /* the G's first function is called by the scheduler */
}

CP_TEST(a_system_call_that_waits_is_told_and_not_interrupted)
{
    start_with(0, NULL);
    run(1, polls, NULL);
    CHECK_EQ(cp_stalls_stop(), 0);
    CHECK_EQ(told.last.kind, CP_STALL_WAITED);
    CHECK_EQ(told.last.reason, CP_WAIT_OTHER);
}

/* It computes for longer than the threshold, and then waits in a call that no SA_RESTART continues. */
static void computes_and_polls(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 10; i++) {
        compute_until(CP_STALL_COMPUTED, i + 1);
        CHECK_EQ(poll(NULL, 0, 20), 0);
        cp_yield();
    }
}

CP_TEST(a_wait_after_a_stall_is_not_interrupted)
{
    start_with(CP_STALL_LEAST_NS, NULL);
    run(1, computes_and_polls, NULL);
    CHECK_EQ(cp_stalls_stop(), 0);
}

/* ---- The log --------------------------------------------------------------------------------- */

CP_TEST(the_log_has_a_line_and_the_frames)
{
    char *text = NULL;
    size_t size;
    FILE *log = open_memstream(&text, &size);
    uint64_t id = 0;

    start_with(0, log);
    run(1, computes, &id);
    CHECK_EQ(cp_stalls_stop(), 0);
    fclose(log);
    CHECK_CONTAINS(text, "stall: G ");
    CHECK_CONTAINS(text, " ms and computed [kind=busy]:\n\t");
    if (!TEST_TSAN) /* whose own frames may be all that stand when it hands a signal on */
        CHECK_CONTAINS(text, "stall_test+0x");
    free(text);
}

/* Of a thread that blocks SIGPROF, no stack is taken. */
static void blocks_and_computes(void *arg)
{
    sigset_t set, old;

    (void)arg;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
    compute_until(CP_STALL_COMPUTED, 1);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
}

CP_TEST(a_report_without_a_stack_says_why)
{
    char *text = NULL, *profile = NULL;
    size_t size, profile_size;
    FILE *log = open_memstream(&text, &size), *out = open_memstream(&profile, &profile_size);
    struct cp_error err;

    start_with(CP_STALL_LEAST_NS, log);
    run(1, blocks_and_computes, NULL);
    CHECK_EQ(cp_stalls_stop(), 0);
    fclose(log);
    CHECK_CONTAINS(text, " ms and computed\n\tThere is no stack, because it was not taken before the stall "
                         "ended, or the thread blocks SIGPROF.\n");
    CHECKF(cp_stalls_profile(cp_writer_file(out), CP_FORM_TEXT, &err) == 0, "%s", err.message);
    fclose(out);
    CHECK_CONTAINS(profile,
                   "[no stack: it was not taken before the stall ended, or the thread blocks SIGPROF]");
    free(text);
    free(profile);
}

/* Prints a stall of that kind without a stack. */
static char *printed(enum cp_stall_kind kind)
{
    const struct cp_stall stall = {.size = sizeof stall, .kind = kind, .count = 1, .call = -1};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    cp_stall_print(out, &stall);
    fclose(out);
    return text;
}

CP_TEST(what_is_printed_says_why_there_is_no_stack)
{
    char *waited = printed(CP_STALL_WAITED), *not_run = printed(CP_STALL_NOT_RUN);

    CHECK_CONTAINS(waited,
                   " and waited (wait)\n\tThere is no stack, because the wait had ended when the library "
                   "looked, or the system does not tell where it was.\n");
    CHECK_CONTAINS(not_run, " while the system did not run the thread\n");
    CHECK(strstr(not_run, "stack") == NULL); /* the stack would not be the reason */
    free(waited);
    free(not_run);
}

/* ---- Accounts that were off for a while ------------------------------------------------------ */

/* A G that its test runs by cp_execute(), on the test's own thread. */
static struct {
    struct cp_m *m;
    struct cp_g g;
} own;

static void attach_own(void)
{
    static char stack[64];
    struct cp_error err;

    CHECKF(cp_m_attach(&own.m, &err) == 0, "%s", err.message);
    cp_g_init(&own.g, stack, stack + sizeof stack, NULL);
    cp_execute(own.m, &own.g);
}

static void detach_own(void)
{
    CHECK_EQ(cp_stalls_stop(), 0);
    cp_execute(own.m, NULL);
    cp_g_fini(&own.g);
    cp_m_detach(own.m);
}

/* Stores the length of the longest stall of the G of that test. */
static int find_own(void *context, const struct cp_stall *stall)
{
    if (stall->g_id == own.g.id && stall->longest_ns > *(uint64_t *)context)
        *(uint64_t *)context = stall->longest_ns;
    return 0;
}

static uint64_t longest_of_own(void)
{
    uint64_t longest_ns = 0;

    CHECK_EQ(cp_stalls_each(find_own, &longest_ns), 0);
    return longest_ns;
}

static void stalls_three_times(void *arg)
{
    (void)arg;
    compute_until(CP_STALL_COMPUTED, 3);
}

static void *run_what_stalls(void *arg)
{
    run(1, stalls_three_times, NULL);
    return arg;
}

/* Until another thread has stalled, all Ms are looked at for longer than the threshold. */
static void let_all_be_looked_at(void)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, run_what_stalls, NULL), 0);
    pthread_join(thread, NULL);
}

CP_TEST(an_m_that_has_left_its_g_without_accounts_does_not_stall)
{
    attach_own();
    cp_accounts_set(false);
    cp_execute(own.m, NULL);
    cp_accounts_set(true);
    start_with(CP_STALL_LEAST_NS, NULL);
    let_all_be_looked_at();
    CHECK_EQ(longest_of_own(), 0);
    detach_own();
}

CP_TEST(an_m_that_runs_another_g_since_is_not_told_as_the_first_one)
{
    struct cp_g other;

    attach_own();
    cp_g_init(&other, NULL, NULL, NULL);
    cp_accounts_set(false);
    cp_execute(own.m, &other);
    cp_accounts_set(true);
    start_with(CP_STALL_LEAST_NS, NULL);
    let_all_be_looked_at();
    CHECK_EQ(longest_of_own(), 0);
    detach_own();
    cp_g_fini(&other);
}

/* What a G did before accounts were off is no part of a stall: it may have switched since. */
CP_TEST(a_g_that_runs_on_stalls_since_accounts_are_on)
{
    uint64_t begin;

    attach_own();
    usleep(200000);
    cp_accounts_set(false);
    begin = wall_ns();
    cp_accounts_set(true);
    start_with(CP_STALL_LEAST_NS, NULL);
    while (longest_of_own() == 0)
        usleep(1000);
    CHECK(longest_of_own() >= CP_STALL_LEAST_NS && longest_of_own() <= wall_ns() - begin + MS);
    cp_execute(own.m, NULL); /* the end of the stall is told, too */
    let_all_be_looked_at();
    CHECK(longest_of_own() <= wall_ns() - begin + MS);
    detach_own();
}
