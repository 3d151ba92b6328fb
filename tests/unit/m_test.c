/* The registry of Ms: who is in it, for how long, and what is refused. */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <limits.h>
#include <semaphore.h>
#include <sys/syscall.h>

#include "runtime/m.h"

/* Counts the Ms that are registered, including those whose threads have ended. */
static int registered(void)
{
    int n = 0;

    cp__lock(&cp__runtime_lock);
    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next)
        n++;
    cp__unlock(&cp__runtime_lock);
    return n;
}

static void *comes_and_goes(void *arg)
{
    struct worker worker = {.body = NULL};

    attach(&worker);
    if (sim_is_on())
        SIM_FAULT(&worker);
    return arg;
}

static void let_threads_come_and_go(int n)
{
    for (int i = 0; i < n; i++) {
        pthread_t thread;

        CHECK_EQ(pthread_create(&thread, NULL, comes_and_goes, NULL), 0);
        pthread_join(thread, NULL);
    }
}

/* ---- Ms that stay registered ----------------------------------------------------------------- */

SIM_TEST(threads_that_end_after_a_stop_that_nobody_reads_leave_nothing)
{
    CHECK_EQ(cp_set_cpu_profile_rate(100, NULL), 0);
    CHECK_EQ(cp_set_cpu_profile_rate(0, NULL), 0);
    let_threads_come_and_go(20);
    CHECK_EQ(registered(), 0);
}

/* The events are armed, but no thread ever has a sample. */
SIM_TEST(threads_without_samples_leave_nothing_to_a_reader_that_does_not_come)
{
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_slot_request rare = request("pageFaults", 1000000000);
    int slot;

    CHECK_EQ(cp_slots_start(&rare, 1, &slot, NULL), 0);
    let_threads_come_and_go(20);
    CHECK_EQ(registered(), 0);
    cp_slots_stats(slot, &stats);
    CHECK_EQ(stats.ms, 20);
    CHECK_EQ(stats.count, 20);
    CHECK_EQ(stats.samples, 0);
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
}

/* The Ms leave the list from its middle, its end and its beginning. */
CP_TEST(ms_go_in_any_order)
{
    struct worker workers[5];
    static const int order[] = {2, 0, 4, 1, 3};
    int before = registered();

    for (int i = 0; i < 5; i++)
        start_worker(&workers[i], body_c, NULL);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(registered(), before + 5 - i);
        stop_worker(&workers[order[i]]);
    }
    CHECK_EQ(registered(), before);
}

/* ---- Ms that a lister looks at --------------------------------------------------------------- */

static bool is_registered(const struct cp_m_info *info)
{
    bool found = false;

    cp__lock(&cp__runtime_lock);
    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next)
        found = found || m->creators == info->frames;
    cp__unlock(&cp__runtime_lock);
    return found;
}

struct look {
    struct worker *worker;
    bool seen;
};

/* The thread ends while a lister looks at its M: the M stays registered until the lister has gone on. */
static int end_it(void *context, const struct cp_m_info *info)
{
    struct look *look = context;

    if (look->seen)
        return 0;
    look->seen = true;
    stop_worker(look->worker);
    CHECK(is_registered(info));
    CHECK(info->depth > 0 && info->frames[0] != 0);
    return 0;
}

CP_TEST(an_m_stays_while_it_is_listed)
{
    struct worker worker;
    struct look look = {.worker = &worker};

    start_worker(&worker, body_c, NULL);
    cp_m_each(end_it, &look);
    CHECK(look.seen);
    CHECK_EQ(registered(), 0);
}

/* ---- The end of a thread --------------------------------------------------------------------- */

/* Uses up the keys for thread-specific data; the first key has a value of the test's. */
static pthread_key_t first, last;
static int mine;

static void use_up_keys(void)
{
    pthread_key_t key;

    CHECK_EQ(pthread_key_create(&first, NULL), 0);
    CHECK_EQ(pthread_setspecific(first, &mine), 0);
    while (pthread_key_create(&key, NULL) == 0)
        last = key;
}

CP_TEST(a_thread_whose_end_would_not_be_noticed_is_no_m)
{
    struct cp_error err = {0};
    struct cp_m *m;

    use_up_keys();
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(cp_m_attach(&m, &err), -EAGAIN);
        CHECK_CONTAINS(err.message, "This thread cannot become an M: its end would not be noticed");
        CHECK(cp_m_self() == NULL);
    }
    CHECK_EQ(pthread_key_delete(last), 0);
    CHECKF(cp_m_attach(&m, &err) == 0, "%s", err.message);
    CHECK(pthread_getspecific(first) == &mine);
    let_threads_come_and_go(1);
    CHECK_EQ(registered(), 1);
    cp_m_detach(m);
    CHECK(pthread_getspecific(first) == &mine);
    CHECK_EQ(registered(), 0);
}

/* Ends the thread by the system call, so that no destructor runs and the library does not notice. */
static void *end_without_destructors(void *arg)
{
    struct worker worker = {.body = NULL};

    attach(&worker);
    sem_post(arg);
    syscall(SYS_exit, 0);
    return NULL;
}

/* A key whose destructor attaches the thread again after the library's own destructor has run. */
static pthread_key_t late;

static void attach_again(void *arg)
{
    struct worker worker = {.body = NULL};

    attach(&worker);
    burn_a(MS);
    CHECK_EQ(pthread_setspecific(late, arg), 0); /* calls this destructor again in the next round */
}

static void *end_as_an_m(void *arg)
{
    CHECK_EQ(pthread_setspecific(late, arg), 0);
    return comes_and_goes(arg);
}

SIM_TEST(a_thread_that_ends_unnoticed_harms_nobody)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};
    struct worker self = {.body = NULL};
    pthread_t thread;
    sem_t ended;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer does not survive threads that go on after its own destructor");
    sem_init(&ended, 0, 0);
    attach(&self);
    CHECK_EQ(pthread_create(&thread, NULL, end_without_destructors, &ended), 0);
    sem_wait(&ended);
    CHECK_EQ(pthread_key_create(&late, attach_again), 0);
    for (int i = 0; i < 2; i++) {
        start_profile(&profile, &clock, 1);
        CHECK_EQ(pthread_create(&thread, NULL, end_as_an_m, &ended), 0);
        pthread_join(thread, NULL);
        burn_b(30 * MS);
        stop_profile(&profile);
        CHECK_EQ(profile.seen[0].leaf[IN_B], 30);
        CHECK_EQ(profile.seen[0].leaf[IN_A], PTHREAD_DESTRUCTOR_ITERATIONS);
        CHECK_EQ(profile.stats[0].count, (30 + PTHREAD_DESTRUCTOR_ITERATIONS) * MS);
        CHECK_EQ(profile.stats[0].ms, 2 + PTHREAD_DESTRUCTOR_ITERATIONS);
    }
    cp_m_detach(self.m);
}

/* ---- Samples that wait for a reader ---------------------------------------------------------- */

/* Runs three threads, each of which leaves 20 samples. */
static void leave_samples(struct profile *profile)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    uint64_t ns = 20 * MS;

    start_unread(profile, requests, 1);
    for (int i = 0; i < 3; i++) {
        struct worker worker;

        run_attached(&worker, body_a, &ns);
    }
    CHECK_EQ(registered(), 3);
}

SIM_TEST(an_m_stays_until_its_samples_were_read)
{
    struct profile profile = {.n = 0};

    leave_samples(&profile);
    read_profile(&profile);
    CHECK_EQ(profile.seen[0].weight, 60);
    CHECK_EQ(registered(), 0);
    stop_profile(&profile);
}

SIM_TEST(an_m_goes_at_the_release_if_nobody_has_read_its_samples)
{
    struct profile profile = {.n = 0};

    leave_samples(&profile);
    cp_slots_stop(profile.slots, 1);
    CHECK_EQ(registered(), 3);
    cp_slots_release(profile.slots, 1);
    CHECK_EQ(registered(), 0);
}
