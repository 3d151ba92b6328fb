/* Threads that end by a raw system call, so that nothing detaches their Ms. */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <malloc.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runtime/m.h"

/* Its pthread_join() returns, because the kernel itself tells that. */
static void body_ends_raw(struct worker *worker)
{
    burn_b(MS);
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await() */
    await(&worker->stop, 1);
    burn_a(*(const uint64_t *)worker->arg);
    syscall(SYS_exit, 0);
}

/* Starts a thread that is an M and has run for 1 ms. */
static void start_raw(struct worker *worker, const uint64_t *ns)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer takes data of a thread that ended by a raw system call for the next thread's");
    start_worker(worker, body_ends_raw, (void *)(uintptr_t)ns);
    await(&worker->running, 2);
}

/* Lets the thread run, and end. The kernel lets pthread_join() return a little before it forgets the
 * thread. */
static void end_raw(struct worker *worker)
{
    cp_store_release(&worker->stop, 1); /* pairs with the acquire in await() */
    CHECK_EQ(pthread_join(worker->thread, NULL), 0);
    for (struct patience patience = {.looks = 0}; syscall(SYS_tgkill, getpid(), worker->tid, 0) == 0;) {
        CHECKF(has_patience(&patience), "thread %d is still there", (int)worker->tid);
        usleep(NAP_US);
    }
}

static unsigned count_ms(void)
{
    unsigned n = 0;

    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next)
        n += !cp__m_is_gone(m);
    return n;
}

/* ---- While a slot runs ----------------------------------------------------------------------- */

/* Whoever looks at the thread first, a pass of a reader or the stop, finds it gone. */
static void check_ended_in_session(const char *event, bool is_found_by_pass, struct cp_slot_stats *stats)
{
    const struct cp_slot_request made = request(event, MS);
    const uint64_t ns = 10 * MS + MS / 2;
    struct profile profile = {.n = 0};
    struct worker worker;

    start_raw(&worker, &ns);
    start_unread(&profile, &made, 1);
    end_raw(&worker);
    CHECK_EQ(count_ms(), 1);
    if (is_found_by_pass) {
        read_profile(&profile);
        CHECK_EQ(count_ms(), 0);
    }
    stop_profile(&profile);
    CHECK(cp__ms == NULL);
    CHECK_EQ(resources_now().perf_fds, 0);
    CHECK_EQ(resources_now().timers, 0);
    CHECK_EQ(profile.stats[0].ms, 1);
    CHECK_EQ(profile.stats[0].ms_unsettled, 0);
    CHECK_EQ(profile.seen[0].leaf[IN_A], profile.stats[0].samples);
    CHECK_EQ(profile.seen[0].weight, profile.stats[0].samples);
    CHECK_EQ(profile.stats[0].lost + profile.stats[0].late, 0);
    CHECK_EQ(profile.stats[0].ms_ns, profile.stats[0].count);
    CHECK_EQ(profile.stats[0].unarmed_ns + profile.stats[0].unsampled + profile.stats[0].overloaded_ns, 0);
    CHECK(sigprof_is(SIG_DFL));
    *stats = profile.stats[0];
}

/* The thread's CPU clock has ended with it, and the event has not. */
static void check_ended_with_event(bool is_found_by_pass)
{
    struct cp_slot_stats stats;

    check_ended_in_session("taskClock", is_found_by_pass, &stats);
    CHECK_EQ(stats.samples, 10);
    CHECK_EQ(stats.count, 10 * MS + MS / 2);
}

SIM_TEST(a_thread_that_ends_while_an_event_counts_is_found_gone_by_a_stop)
{
    check_ended_with_event(false);
}

SIM_TEST(a_thread_that_ends_while_an_event_counts_is_found_gone_by_a_pass)
{
    check_ended_with_event(true);
}

/* A timer's first tick comes within its period. What the thread has run since the last tick is known to
 * nobody. */
static void check_ended_with_timer(bool is_found_by_pass)
{
    struct cp_slot_stats stats;

    check_ended_in_session("timer", is_found_by_pass, &stats);
    CHECK(stats.samples == 10 || stats.samples == 11);
    CHECKF(stats.count > (stats.samples - 1) * MS && stats.count <= stats.samples * MS &&
               stats.count <= 10 * MS + MS / 2,
           "%llu ns", (unsigned long long)stats.count);
}

SIM_TEST(a_thread_that_ends_while_its_timer_runs_is_found_gone_by_a_stop)
{
    check_ended_with_timer(false);
}

SIM_TEST(a_thread_that_ends_while_its_timer_runs_is_found_gone_by_a_pass)
{
    check_ended_with_timer(true);
}

/* ---- Before a slot runs ---------------------------------------------------------------------- */

static void run_stranger(const int *begins)
{
    uint64_t token;

    if (read(*begins, &token, sizeof token) <= 0)
        _exit(2);
    SIM_RUN(10 * MS);
    _exit(0);
}

static pid_t start_stranger(int begins[2])
{
    pid_t stranger;

    CHECK_EQ(pipe(begins), 0);
    stranger = fork();
    CHECK(stranger >= 0);
    if (stranger == 0)
        run_stranger(begins);
    return stranger;
}

static void let_stranger_run(pid_t stranger, const int begins[2])
{
    const uint64_t token = 1;

    CHECK_EQ(write(begins[1], &token, sizeof token), sizeof token);
    await_child(stranger);
    close(begins[0]);
    close(begins[1]);
}

/* The kernel may give the thread's id to another process, which a start must leave alone. */
static void check_ended_before(enum cp_engine engine)
{
    const uint64_t ns = 0;
    struct cp_slot_request made = request("taskClock", MS);
    struct profile profile = {.n = 0};
    struct worker worker;
    pid_t stranger;
    int begins[2];

    made.config.engine = engine;
    start_raw(&worker, &ns);
    end_raw(&worker);
    CHECK_EQ(count_ms(), 1);
    stranger = start_stranger(begins);
    ((struct cp__m *)worker.m)->tid = stranger;
    start_unread(&profile, &made, 1);
    CHECK_EQ(count_ms(), 0);
    CHECK_EQ(resources_now().perf_fds, 0);
    let_stranger_run(stranger, begins);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms, 0);
    CHECK_EQ(profile.stats[0].ms_refused, 0);
}

SIM_TEST(a_stranger_with_the_id_of_a_thread_that_ended_gets_no_sigprof)
{
    check_ended_before(CP_ENGINE_SIGNAL);
}

SIM_TEST(a_stranger_with_the_id_of_a_thread_that_ended_gets_no_sigtrap)
{
    check_ended_before(CP_ENGINE_TRAP);
}

/* ---- What it leaves behind ------------------------------------------------------------------- */

static bool is_m;

static void *look_for_m(void *arg)
{
    is_m = cp_m_self() != NULL;
    return arg;
}

/* The C library gives the stack of a thread that ended so to the next thread, with the thread's data, whose
 * destructor would detach an M. */
SIM_TEST(a_thread_with_the_stack_of_one_that_ended_is_not_its_m)
{
    const struct cp_slot_request timer = request("timer", MS);
    const uint64_t ns = 0;
    struct profile profile = {.n = 0};
    struct worker worker;
    struct cp__m *m;
    pthread_t next;

    start_raw(&worker, &ns);
    m = (struct cp__m *)worker.m;
    end_raw(&worker);
    CHECK_EQ(pthread_create(&next, NULL, look_for_m, NULL), 0);
    pthread_join(next, NULL);
    CHECK(!is_m);
    CHECK(cp__ms == m && cp_load_relaxed(&m->life) == CP__M_LIVE); /* nobody has looked */
    start_unread(&profile, &timer, 1);
    CHECK(cp__ms == NULL);
    CHECK_EQ(pthread_create(&next, NULL, look_for_m, NULL), 0);
    pthread_join(next, NULL);
    CHECK(!is_m);
    stop_profile(&profile);
}

/* The alternate stack of such a thread is nobody's. */
SIM_TEST(the_memory_of_threads_that_ended_is_given_back)
{
    const struct cp_slot_request clock = request("taskClock", MS);
    const uint64_t ns = 2 * MS;
    struct resources before, after;

    if (TEST_ASAN)
        SKIP("the memory is that of AddressSanitizer, which gives nothing back");
    CHECK_EQ(mallopt(M_ARENA_MAX, 1), 1); /* the C library gives no thread's arena back that ends so */
    for (int i = 0; i < 12; i++) {
        struct profile profile = {.n = 0};
        struct worker worker;

        if (i == 2)
            before = resources_now();
        start_unread(&profile, &clock, 1);
        start_raw(&worker, &ns);
        end_raw(&worker);
        stop_profile(&profile);
    }
    after = resources_now();
    check_resources(&after, &before, 0);
}
