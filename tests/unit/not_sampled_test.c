/* CPU time that has no samples is told: whose it was, and how much. The simulated kernel knows all of it. */
#include "runtime/m.h"
#include "tests/support/account.h"
#include "tests/support/puppet.h"

/* ---- Nothing is missing ---------------------------------------------------------------------- */

SIM_TEST(nothing_is_missing_if_all_is_sampled)
{
    struct worker worker = {.body = NULL};
    struct account account;

    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        open_way(&account, &ways[i]);
        burn_a(300 * MS);
        burn_b(700 * MS);
        close_account(&account);
        check_missing(&account, &nothing, 0);
        CHECK_PERCENT(&account, weight_of(&account, "burn_a") * PERIOD, 300 * MS);
        CHECK_PERCENT(&account, weight_of(&account, "burn_b") * PERIOD, 700 * MS);
        CHECK_EQ(said(&account, "unarmed_ns") + said(&account, "unattached_ns") +
                     said(&account, "blocked_ns") + said(&account, "disabled_ns") +
                     said(&account, "closed_ns"),
                 0);
        free_account(&account);
    }
}

/* No sample is taken in the kernel, as was asked for. */
SIM_TEST(time_in_the_kernel_is_not_missing_if_the_kernel_is_excluded)
{
    struct worker worker = {.body = NULL};
    struct account account;

    sim->paranoid = 2;
    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
        open_account(&account, "taskClock", PERIOD, engines[i]);
        burn_a(500 * MS);
        SIM_RUN_KERNEL(500 * MS);
        close_account(&account);
        CHECK(is_limit(&account, "none"));
        CHECK_EQ(weight_of(&account, "[not sampled"), 0);
        CHECK_PERCENT(&account, weight_of(&account, "burn_a") * PERIOD, 500 * MS);
        free_account(&account);
    }
}

static void body_short(struct worker *worker)
{
    (void)worker;
    burn_a(PERIOD / 2);
}

/* The first period of each thread is drawn. Half of these threads end without a sample, and the others have
 * one for half a period: 500 with a standard deviation of 16, of which the test grants four. */
SIM_TEST(threads_that_are_shorter_than_a_period_have_their_share)
{
    struct worker main = {.body = NULL}, worker;
    struct account account;
    uint64_t of_short;

    sim->draws = true;
    attach(&main);
    open_account(&account, "taskClock", PERIOD, CP_ENGINE_SIGNAL);
    burn_b(500 * MS);
    for (int i = 0; i < 1000; i++)
        run_attached(&worker, body_short, NULL);
    close_account(&account);
    of_short = weight_of(&account, "burn_a");
    CHECKF(of_short >= 436 && of_short <= 564, "%llu", (unsigned long long)of_short);
    CHECK_PERCENT(&account, weight_of(&account, "burn_b") * PERIOD, 500 * MS);
    CHECK(said(&account, "coverage") >= 93 && said(&account, "coverage") <= 107);
    CHECK_EQ(weight_of(&account, "[not sampled"), 0);
    CHECK(is_limit(&account, "none"));
    free_account(&account);
}

/* ---- Threads without an event ---------------------------------------------------------------- */

/* One thread works 30 ms of each 100, and the others 0.1 ms of each 5. All of them sleep at the start and
 * in each pass. */
SIM_TEST(threads_that_slept_at_the_start_are_sampled)
{
    struct worker worker = {.body = NULL};
    struct puppet batch, serve[4];
    struct account account;

    attach(&worker);
    start_puppet(&batch);
    for (size_t i = 0; i < ARRAY_SIZE(serve); i++)
        start_puppet(&serve[i]);
    for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
        open_way(&account, &ways[way]);
        burn_a(500 * MS);
        pass(); /* finds all asleep, and is the last one */
        for (int i = 0; i < 10; i++)
            run_puppet(&batch, burn_b, 30 * MS);
        for (int i = 0; i < 20; i++)
            for (size_t k = 0; k < ARRAY_SIZE(serve); k++)
                run_puppet(&serve[k], burn_b, 5 * MS / 2);
        close_account(&account);
        check_missing(&account, &nothing, 0);
        CHECK_PERCENT(&account, weight_of(&account, "burn_a") * PERIOD, 500 * MS);
        CHECK_PERCENT(&account, weight_of(&account, "burn_b") * PERIOD, 500 * MS);
        free_account(&account);
    }
    end_puppet(&batch);
    for (size_t i = 0; i < ARRAY_SIZE(serve); i++)
        end_puppet(&serve[i]);
}

/* Nobody else opens events for the thread's M until let_be(). */
static void leave_alone(struct puppet *puppet)
{
    CHECK(cp__m_claim_from_handler((struct cp__m *)puppet->worker.m, CP__CLAIM_SELF));
}

static void let_be(struct puppet *puppet)
{
    cp__m_unclaim_from_handler((struct cp__m *)puppet->worker.m);
}

/* A pass reaches the thread when it has run for 300 of 900 ms. */
SIM_TEST(a_thread_that_is_armed_late_has_samples_from_then_on)
{
    for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
        struct worker worker = {.body = NULL};
        struct puppet puppet;
        struct account account;

        attach(&worker);
        start_puppet(&puppet);
        leave_alone(&puppet);
        open_way(&account, &ways[way]);
        burn_a(100 * MS);
        pass();
        run_puppet(&puppet, burn_b, 300 * MS);
        let_be(&puppet);
        pass();
        run_puppet(&puppet, burn_b, 600 * MS);
        close_account(&account);
        check_missing(&account, &unarmed, 300 * MS);
        CHECK_PERCENT(&account, weight_of(&account, "burn_b") * PERIOD, 600 * MS);
        free_account(&account);
        end_puppet(&puppet);
        cp_m_detach(worker.m);
    }
}

SIM_TEST(a_thread_that_ends_without_an_event_is_told)
{
    for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
        struct worker worker = {.body = NULL};
        struct puppet puppet;
        struct account account;

        attach(&worker);
        start_puppet(&puppet);
        leave_alone(&puppet);
        open_way(&account, &ways[way]);
        burn_a(700 * MS);
        pass();
        run_puppet(&puppet, burn_b, 300 * MS);
        let_be(&puppet);
        end_puppet(&puppet);
        end_account(&account, &unarmed, 300 * MS);
        cp_m_detach(worker.m);
    }
}

static void body_refused(struct worker *worker)
{
    (void)worker;
    sim_fail(SIM_NONE, 0, 0, false);
    burn_b(300 * MS);
}

SIM_TEST(a_thread_whose_event_is_refused_is_told)
{
    struct worker worker = {.body = NULL}, other;
    struct account account;

    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
        open_account(&account, "taskClock", PERIOD, engines[i]);
        burn_a(700 * MS);
        sim_fail(SYS_perf_event_open, 1, EACCES, true);
        run_attached(&other, body_refused, NULL);
        close_account(&account);
        CHECK_EQ(said(&account, "threads_refused"), 1);
        check_missing(&account, &unarmed, 300 * MS);
        free_account(&account);
    }
}

static int states; /* atomic: how many files that tell a thread's state were opened */

static long note_states(long number, const long arguments[6])
{
    const char *path = number == SYS_openat ? (const char *)arguments[1] : "";

    if (strstr(path, "/status") != NULL)
        cp_fetch_add_relaxed(&states, 1); /* relaxed: a number of its own */
    return wait_for_long(number, arguments);
}

/* A stop with a thousand threads that have each missed some calls of the kernel would take twice as long. */
SIM_TEST(whether_signals_are_blocked_is_not_asked_if_little_is_missing)
{
    struct worker worker = {.body = NULL};
    struct puppet little, much;
    struct account account;

    attach(&worker);
    start_puppet(&little);
    start_puppet(&much);
    leave_alone(&little);
    leave_alone(&much);
    open_account(&account, "taskClock", PERIOD, CP_ENGINE_SIGNAL);
    burn_a(100 * MS);
    run_puppet(&little, burn_b, MS / 20);
    run_puppet(&much, burn_b, MS);
    let_be(&little);
    let_be(&much);
    sim_hook(note_states);
    close_account(&account);
    CHECK_EQ(cp_load_relaxed(&states), 1); /* relaxed: the same */
    CHECK_EQ(account.stats.unarmed_ns, MS + MS / 20);
    free_account(&account);
    end_puppet(&little);
    end_puppet(&much);
}

/* ---- Threads that are no Ms ------------------------------------------------------------------ */

static int go_on;

static void *burn_and_wait(void *arg)
{
    burn_b(*(const uint64_t *)arg);
    cp_fetch_add_relaxed(&go_on, 1); /* relaxed: a number of its own */
    await(&go_on, 2);
    return NULL;
}

static void burn_elsewhere(uint64_t *ns)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, burn_alone, ns), 0);
    pthread_join(thread, NULL);
}

SIM_TEST(threads_that_never_attached_are_told)
{
    struct missing those = unattached;
    uint64_t ns = 150 * MS;
    struct worker worker = {.body = NULL};
    struct account account;
    pthread_t waits;

    attach(&worker);
    for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
        go_on = 0;
        open_way(&account, &ways[way]);
        burn_a(700 * MS);
        burn_elsewhere(&ns);
        CHECK_EQ(pthread_create(&waits, NULL, burn_and_wait, &ns), 0);
        await(&go_on, 1);
        close_account(&account);
        cp_fetch_add_relaxed(&go_on, 1); /* relaxed: a number of its own */
        pthread_join(waits, NULL);
        those.threads = 1; /* of the other one, only the time is known */
        check_missing(&account, &those, 300 * MS);
        free_account(&account);
    }
}

static void *burn_before_and_after(void *arg)
{
    struct worker *worker = arg;

    burn_b(100 * MS);
    attach(worker);
    burn_a(300 * MS);
    cp_m_detach(worker->m);
    burn_b(100 * MS);
    return NULL;
}

SIM_TEST(time_before_the_attach_and_after_the_detach_is_told)
{
    struct worker worker = {.body = NULL}, other = {.body = NULL};
    struct account account;
    pthread_t thread;

    attach(&worker);
    for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
        open_way(&account, &ways[way]);
        burn_a(500 * MS);
        CHECK_EQ(pthread_create(&thread, NULL, burn_before_and_after, &other), 0);
        pthread_join(thread, NULL);
        close_account(&account);
        check_missing(&account, &unattached, 200 * MS);
        CHECK_PERCENT(&account, weight_of(&account, "burn_a") * PERIOD, 800 * MS);
        free_account(&account);
    }
}

SIM_TEST(less_than_a_hundredth_is_not_told)
{
    uint64_t ns[] = {9 * MS, 11 * MS};
    struct worker worker = {.body = NULL};
    struct account account;

    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(ns); i++) {
        open_account(&account, "taskClock", PERIOD, CP_ENGINE_SIGNAL);
        burn_a(1000 * MS - ns[i]);
        burn_elsewhere(&ns[i]);
        close_account(&account);
        CHECK_EQ(is_limit(&account, "none"), i == 0);
        CHECK_EQ(is_limit(&account, "unattached_ns"), i == 1);
        CHECK_EQ(weight_of(&account, "[not sampled: threads that never attached]"), i == 0 ? 0 : 11);
        free_account(&account);
    }
}

SIM_TEST(the_librarys_own_time_is_told)
{
    struct worker worker = {.body = NULL};
    struct account account;

    attach(&worker);
    open_account(&account, "taskClock", PERIOD, CP_ENGINE_SIGNAL);
    burn_a(450 * MS);
    cp_store_release(&library_ns, 50 * MS); /* pairs with the acquire in wait_for_long() */
    pass();
    end_account(&account, &library, 50 * MS);
}

/* ---- Two sessions ---------------------------------------------------------------------------- */

/* What was before the start is not the session's, whichever else runs. */
SIM_TEST(each_session_has_its_own_time)
{
    uint64_t ns = 100 * MS, more = 300 * MS;
    struct worker worker = {.body = NULL};
    struct account first, second;
    struct puppet puppet;

    attach(&worker);
    burn_a(50 * MS);
    start_puppet(&puppet);
    open_account(&first, "taskClock", PERIOD, CP_ENGINE_SIGNAL);
    burn_a(300 * MS);
    burn_elsewhere(&ns);
    open_account(&second, "taskClock", 2 * PERIOD, CP_ENGINE_SIGNAL);
    burn_b(700 * MS);
    burn_elsewhere(&more);
    end_account(&second, &unattached, 300 * MS);
    burn_a(200 * MS);
    end_account(&first, &unattached, 400 * MS);
    end_puppet(&puppet);
}
