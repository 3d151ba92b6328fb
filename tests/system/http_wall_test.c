/* The endpoint's profile of what green threads do, whatever it is: the event wall. */
#include "tests/support/gs.h"
#include "tests/support/http_tools.h"
#include "tests/support/pprof_lines.h"

/* So many Gs sleep, wait for a lock, and are runnable, while one computes: ten in all. */
enum { SLEEPERS = 4, LOCKERS = 3, READY = 2 };

static struct cp_mutex *lock;
static uint32_t computes, has_profile; /* shared, atomic */

__attribute__((noinline)) static void sleep_here(void)
{
    CHECK_EQ(cp_sleep(MS), 0);
    __asm__ volatile("");
}

__attribute__((noinline)) static void lock_here(void)
{
    CHECK_EQ(cp_mutex_lock(lock), 0);
    __asm__ volatile("");
}

__attribute__((noinline)) static void yield_here(void)
{
    cp_yield();
    __asm__ volatile("");
}

__attribute__((noinline)) static void compute_here(void)
{
    while (cp_load_acquire(&has_profile) == 0) /* pairs with the release in ask_while_it_runs() */
        burn_here(100000);
    __asm__ volatile("");
}

static void be_sleeper(void *arg)
{
    (void)arg;
    CP_LABEL_SCOPE("role", "sleeper");
    sleep_here();
}

static void be_locker(void *arg)
{
    (void)arg;
    CP_LABEL_SCOPE("role", "locker");
    lock_here();
    cp_mutex_unlock(lock);
}

static void be_ready(void *arg)
{
    (void)arg;
    CP_LABEL_SCOPE("role", "ready");
    yield_here();
}

/* The only M does not leave this G while it computes. So each of the others stays in its state, a sleeper
 * also after its time. */
static void be_computer(void *arg)
{
    (void)arg;
    CP_LABEL_SCOPE("role", "computer");
    CHECK_EQ(cp_mutex_lock(lock), 0);
    for (int i = 0; i < SLEEPERS; i++)
        go(be_sleeper, NULL);
    for (int i = 0; i < LOCKERS; i++)
        go(be_locker, NULL);
    for (int i = 0; i < READY; i++)
        go(be_ready, NULL);
    cp_yield();
    cp_store_release(&computes, 1); /* pairs with the acquire in ask_while_it_runs() */
    compute_here();
    cp_mutex_unlock(lock);
}

static void *run_gs(void *arg)
{
    run(1, be_computer, arg);
    return NULL;
}

/* ---- Its profile ----------------------------------------------------------------------------- */

/* Writes what the endpoint answers to a file in the test's directory, and returns the path. *ms receives how
 * long the answer took. */
static const char *ask_while_it_runs(const char *query, double *ms)
{
    const char *path = file_in_dir("wall.pb.gz");
    struct cp_http *http = start_http(NULL);
    pthread_t thread;
    uint64_t begin;

    lock = cp_mutex_new();
    CHECK_EQ(pthread_create(&thread, NULL, run_gs, NULL), 0);
    while (cp_load_acquire(&computes) == 0) /* pairs with the release in be_computer() */
        usleep(1000);
    begin = wall_ns();
    free(test_command(NULL, "curl -sSf --max-time 60 -o %s 'http://%s" PPROF "/profile?%s'", path,
                      cp_http_address(http), query));
    *ms = (double)(wall_ns() - begin) / 1e6;
    cp_store_release(&has_profile, 1); /* pairs with the acquire in compute_here() */
    pthread_join(thread, NULL);
    cp_mutex_free(lock);
    cp_http_stop(http);
    return path;
}

/* All Gs are drawn in each look, so that the sums are in proportion exactly, but for what the tool rounds.
 * How long the looks go on, the machine decides: a look may come late, and what is after the last one is in
 * no sample. */
static void check_sum(const char *tags, const char *value, unsigned gs, double running)
{
    const double ms = ms_of_tag(tags, value);

    CHECKF(ms > 0.99 * gs * running && ms < 1.01 * gs * running, "%s: %f ms of %u times %f: %s", value, ms,
           gs, running, tags);
}

CP_TEST(each_state_has_its_time)
{
    double ms, running;
    const char *path = ask_while_it_runs("event=wall&seconds=1", &ms);
    char *tags = pprof("-symbolize=none -tags -sample_index=wall -unit=ms", path);

    running = ms_of_tag(tags, "running");
    printf("%f ms of %f\n%s", running, ms, tags);
    CHECK(running >= 50 && running <= ms);
    check_sum(tags, "runnable", READY, running);
    check_sum(tags, "waiting", SLEEPERS + LOCKERS, running);
    check_sum(tags, "sleep", SLEEPERS, running);
    check_sum(tags, "lock", LOCKERS, running);
    check_sum(tags, "sleeper", SLEEPERS, running);
    check_sum(tags, "locker", LOCKERS, running);
    check_sum(tags, "ready", READY, running);
    check_sum(tags, "computer", 1, running);
    free(tags);
}

static char *top_of(const char *path, const char *options)
{
    char arguments[200];

    snprintf(arguments, sizeof arguments, "-symbolize=none -top -cum -sample_index=wall -unit=ms %s",
             options);
    return pprof(arguments, path);
}

/* A G that stands still has its own stack in each sample. */
CP_TEST(each_g_stands_in_its_own_function)
{
    double ms, running;
    const char *path = ask_while_it_runs("event=wall:2ms&seconds=1", &ms);
    char *tags = pprof("-symbolize=none -tags -sample_index=wall -unit=ms", path);
    char *top = top_of(path, "-tagfocus=state=waiting"), *ready = top_of(path, "-tagfocus=state=runnable");
    char *runs = top_of(path, "-tagfocus=state=running"), *raw = pprof("-symbolize=none -raw", path);

    running = ms_of_tag(tags, "running");
    printf("%s%s%s%s", raw, top, ready, runs);
    CHECK_CONTAINS(raw, "PeriodType: wall nanoseconds\nPeriod: 2000000\n");
    CHECK_CONTAINS(raw, "samples/count wall/nanoseconds[dflt]\n");
    CHECK(ms_in(top, "sleep_here") > 0.99 * SLEEPERS * running);
    CHECK(ms_in(top, "lock_here") > 0.99 * LOCKERS * running);
    CHECK(ms_in(ready, "yield_here") > 0.99 * READY * running);
    CHECK(ms_in(top, "yield_here") + ms_in(top, "compute_here") + ms_in(ready, "lock_here") == 0);
    CHECK(ms_in(runs, "sleep_here") + ms_in(runs, "lock_here") + ms_in(runs, "yield_here") == 0);
    if (!TEST_TSAN) /* which hands signals on when the program calls something */
        CHECK(ms_in(runs, "compute_here") > 0);
    free(tags);
    free(top);
    free(ready);
    free(runs);
    free(raw);
}
