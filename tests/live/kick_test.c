/* Ms that reach no scheduling point: a kick reaches those that run, and those that sleep are left alone. */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define ROUNDS 5
/* "Soon" is far less than the 2 seconds after which a stop gives up, and more than any machine takes. */
#define SOON (1000 * MS)

static struct cp_slot_request clock_and_timer[2];

static void make_requests(void)
{
    clock_and_timer[0] = request("taskClock", 200000);
    clock_and_timer[1] = request("timer", 10 * MS);
}

/* Returns the shortest time. The machine may be busy in most rounds, but hardly in all. */
static uint64_t shortest(const uint64_t *times)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < ROUNDS; i++) {
        printf("%.2f ms\n", (double)times[i] / 1e6);
        least = times[i] < least ? times[i] : least;
    }
    return least;
}

static uint64_t samples_of(const struct profile *profile, size_t i)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    cp_slots_stats(profile->slots[i], &stats);
    return stats.samples;
}

/* Waits for the first sample of the clock, and returns how long that took. The timer would not do: it looks
 * at the time at ticks only, and the thread may not have the CPU at a tick. */
static uint64_t await_samples(const struct profile *profile, uint64_t start)
{
    for (int tries = 0; samples_of(profile, 0) == 0; tries++) {
        CHECKF(tries < 20000, "no thread has been profiled");
        usleep(500);
    }
    return wall_ns() - start;
}

/* ---- Ms that run ----------------------------------------------------------------------------- */

static int stray; /* SIGPROFs that came while nothing was profiled */

static void on_stray(int signal)
{
    (void)signal;
    cp_fetch_add_relaxed(&stray, 1); /* relaxed: read after all threads have ended */
}

CP_TEST(an_m_without_scheduling_points_is_profiled_soon_and_let_go_soon)
{
    uint64_t start_times[ROUNDS], stop_times[ROUNDS];
    struct resources before, after;
    struct worker worker;

    make_requests();
    signal(SIGPROF, on_stray);
    start_worker(&worker, body_c, NULL);
    before = resources_now();
    for (int i = 0; i < ROUNDS; i++) {
        struct profile profile = {.n = 0};
        uint64_t start = wall_ns();

        start_profile(&profile, clock_and_timer, 2);
        start_times[i] = await_samples(&profile, start);
        start = wall_ns();
        stop_profile(&profile);
        for (int tries = 0; tries < 5000; tries++) {
            after = resources_now();
            if (after.perf_fds + after.timers == 0)
                break;
            usleep(1000);
        }
        stop_times[i] = wall_ns() - start;
        CHECK_EQ(after.perf_fds + after.timers, 0);
        CHECK(profile.stats[0].ms == 1 && profile.stats[1].ms == 1);
        sleep_ms(30); /* without a profile, no signal comes */
    }
    CHECK(shortest(start_times) < SOON);
    CHECK(shortest(stop_times) < SOON);
    stop_worker(&worker);
    CHECK_EQ(stray, 0);
    check_resources(&after, &before, 12);
}

/* Waits like a thread that slept or had no CPU at the start. */
static void body_wait_then_burn(struct worker *worker)
{
    uint64_t token;

    CHECK_EQ(read(*(const int *)worker->arg, &token, sizeof token), sizeof token);
    burn_c(&worker->stop);
}

CP_TEST(an_m_that_slept_at_the_start_is_profiled_soon_after_it_wakes)
{
    uint64_t times[ROUNDS];
    int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

    make_requests();
    for (int i = 0; i < ROUNDS; i++) {
        struct profile profile = {.n = 0};
        struct worker worker;
        uint64_t start, token = 1;

        start_worker(&worker, body_wait_then_burn, &fd);
        start_profile(&profile, clock_and_timer, 2);
        sleep_ms(100);
        CHECK_EQ(samples_of(&profile, 0), 0);
        start = wall_ns();
        CHECK_EQ(write(fd, &token, sizeof token), sizeof token);
        times[i] = await_samples(&profile, start);
        stop_profile(&profile);
        stop_worker(&worker);
    }
    CHECK(shortest(times) < SOON);
    close(fd);
}

static void body_execute(struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) { /* pairs with the release in stop_worker() */
        SPIN();
        cp_execute(worker->m, NULL);
    }
}

/* No thread reads the profile, so no thread kicks. */
CP_TEST(an_m_with_scheduling_points_needs_no_kick)
{
    struct profile profile = {.n = 0};
    struct worker with, without;

    make_requests();
    start_worker(&with, body_execute, NULL);
    start_worker(&without, body_c, NULL);
    start_unread(&profile, clock_and_timer, 2);
    await_samples(&profile, wall_ns());
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms, 1);
    CHECK(profile.stats[0].samples > 0);
    stop_worker(&with);
    stop_worker(&without);
}

/* The profile is started by another thread than the M that reads it. */
static void *start_elsewhere(void *profile)
{
    start_unread(profile, clock_and_timer, 2);
    return NULL;
}

CP_TEST(an_m_may_read_profiles_itself)
{
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};
    pthread_t thread;

    make_requests();
    attach(&worker);
    pthread_create(&thread, NULL, start_elsewhere, &profile);
    pthread_join(thread, NULL);
    for (int tries = 0; tries < 1000 && samples_of(&profile, 0) == 0; tries++) {
        read_profile(&profile);
        burn_a(5 * MS);
    }
    stop_profile(&profile);
    if (!TEST_TSAN) /* ThreadSanitizer holds signals back until the next call that waits */
        CHECK(profile.seen[0].in[IN_A] > 0 && profile.stats[1].ms == 1);
}

/* ---- Ms that sleep --------------------------------------------------------------------------- */

#define ASLEEP_MS 300

/* How long a thread sleeps, and what it found. */
struct sleeper {
    unsigned ms;
    int result;
    int error;
    uint64_t slept;
};

/* Waits until the test has looked at the thread. */
static void stay(const struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) /* pairs with the release in stop_worker() */
        usleep(NAP_US);
}

static void body_nanosleep(struct worker *worker)
{
    struct sleeper *sleeper = worker->arg;
    const struct timespec time = {.tv_sec = sleeper->ms / 1000, .tv_nsec = (long)(sleeper->ms % 1000 * MS)};
    uint64_t start = wall_ns();

    sleeper->result = nanosleep(&time, NULL);
    sleeper->error = errno;
    sleeper->slept = wall_ns() - start;
    stay(worker);
}

static void body_epoll(struct worker *worker)
{
    struct sleeper *sleeper = worker->arg;
    struct epoll_event event;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    uint64_t start = wall_ns();

    sleeper->result = epoll_wait(fd, &event, 1, (int)sleeper->ms);
    sleeper->error = errno;
    sleeper->slept = wall_ns() - start;
    close(fd);
    stay(worker);
}

static long switches_of(const struct worker *worker)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)worker->tid);
    return number_in(path, "voluntary_ctxt_switches:");
}

/* Checks a thread that sleeps from before the start until after the stop. Returns false if this machine was
 * too busy for the thread to sleep through both. */
static bool check_asleep_for(void (*body)(struct worker *), unsigned ms)
{
    struct sleeper sleeper = {.ms = ms, .result = -1};
    struct worker busy, worker;
    struct profile profile = {.n = 0};
    uint64_t start = wall_ns();
    bool slept_on;
    long before, after;

    make_requests();
    start_worker(&busy, body_c, NULL);
    start_worker(&worker, body, &sleeper);
    await_sleep(worker.tid);
    before = switches_of(&worker);
    start_profile(&profile, clock_and_timer, 2);
    await_samples(&profile, start);
    sleep_ms(50); /* time for the reader to look for Ms that have no profile yet */
    stop_profile(&profile);
    after = switches_of(&worker);
    slept_on = wall_ns() - start < ms * MS;
    stop_worker(&worker);
    stop_worker(&busy);
    CHECK_EQ(sleeper.result, 0);
    CHECKF(sleeper.slept >= ms * MS, "%.1f ms", (double)sleeper.slept / 1e6);
    if (slept_on) {
        CHECK_EQ(after, before);
        CHECK_EQ(profile.stats[0].ms, 1);
    }
    return slept_on;
}

static void check_asleep(void (*body)(struct worker *))
{
    for (unsigned ms = ASLEEP_MS; !check_asleep_for(body, ms); ms *= 2)
        continue;
}

CP_TEST(a_thread_in_nanosleep_is_left_alone)
{
    check_asleep(body_nanosleep);
}

CP_TEST(a_thread_in_epoll_wait_is_left_alone)
{
    check_asleep(body_epoll);
}

/* The descriptor that wakes the threads, and how often their sleep was interrupted. */
static struct {
    int fd; /* an eventfd */
    int interrupted;
} wake;

/* Has samples, sleeps during the stop, and then runs on. */
static void body_burn_then_sleep(struct worker *worker)
{
    struct pollfd waited = {.fd = wake.fd, .events = POLLIN};

    burn_a(20 * MS);
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await() */
    while (poll(&waited, 1, -1) < 0) {
        /* a sample on the way into the call, before the thread sleeps, interrupts the call */
        CHECK_EQ(errno, EINTR);
        cp_fetch_add_relaxed(&wake.interrupted, 1); /* relaxed: only a figure */
    }
    burn_a(20 * MS); /* runs on with the timer and the event of a profile that has ended */
}

CP_TEST(a_stop_leaves_armed_sleepers_alone)
{
    struct worker workers[4];
    struct profile profile = {.n = 0};
    uint64_t token = 1;
    int before;

    make_requests();
    wake.fd = eventfd(0, EFD_CLOEXEC);
    start_profile(&profile, clock_and_timer, 2);
    for (int i = 0; i < 4; i++)
        start_worker(&workers[i], body_burn_then_sleep, NULL);
    for (int i = 0; i < 4; i++) {
        await(&workers[i].running, 2);
        await_sleep(workers[i].tid);
    }
    before = cp_load_relaxed(&wake.interrupted); /* relaxed: only a figure */
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms, 4);
    CHECK_EQ(cp_load_relaxed(&wake.interrupted), before); /* relaxed: only a figure */
    CHECK_EQ(write(wake.fd, &token, sizeof token), sizeof token);
    for (int i = 0; i < 4; i++)
        join_worker(&workers[i]);
    close(wake.fd);
}

/* ---- Stop ------------------------------------------------------------------------------------ */

static void body_eventfd(struct worker *worker)
{
    uint64_t token;

    burn_a(3 * MS);
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await() */
    CHECK_EQ(read(*(const int *)worker->arg, &token, sizeof token), sizeof token);
}

CP_TEST(a_stop_does_not_wait_for_sleepers)
{
    enum { SLEEPERS = 64 };
    struct worker *workers = calloc(SLEEPERS, sizeof *workers);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    uint64_t token = SLEEPERS;
    uint64_t times[ROUNDS];

    make_requests();
    for (int i = 0; i < ROUNDS; i++) {
        struct profile profile = {.n = 0};
        uint64_t start;

        start_profile(&profile, clock_and_timer, 2);
        for (int w = 0; w < SLEEPERS; w++)
            start_worker(&workers[w], body_eventfd, &fd);
        for (int w = 0; w < SLEEPERS; w++) {
            await(&workers[w].running, 2);
            await_sleep(workers[w].tid);
        }
        start = wall_ns();
        cp_slots_stop(profile.slots, 2);
        times[i] = wall_ns() - start;
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].ms, SLEEPERS);
        CHECK_EQ(write(fd, &token, sizeof token), sizeof token);
        for (int w = 0; w < SLEEPERS; w++)
            join_worker(&workers[w]);
    }
    CHECK(shortest(times) < SOON);
    close(fd);
    free(workers);
}

static void block_sigprof(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(how, &set, NULL);
}

/* Spins with SIGPROF blocked until stop, and then with SIGPROF unblocked for a while. */
static void body_blocks(struct worker *worker)
{
    burn_a(20 * MS);
    block_sigprof(SIG_BLOCK);
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await() */
    burn_c(&worker->stop);
    block_sigprof(SIG_UNBLOCK);
    burn_a(50 * MS);
}

CP_TEST(an_m_that_blocks_sigprof_delays_a_stop_for_two_seconds_at_most)
{
    struct worker worker, other;
    struct profile profile = {.n = 0}, next = {.n = 0};
    uint64_t start;

    make_requests();
    start_profile(&profile, clock_and_timer, 2);
    start_worker(&worker, body_blocks, NULL);
    await(&worker.running, 2);
    start = wall_ns();
    stop_profile(&profile);
    printf("%.1f ms\n", (double)(wall_ns() - start) / 1e6);
    CHECK(wall_ns() - start < 10000 * MS * TEST_SLOWDOWN);

    start_profile(&next, clock_and_timer, 2); /* the other thread is profiled meanwhile */
    start_worker(&other, body_c, NULL);
    await_samples(&next, wall_ns());
    stop_worker(&other);
    stop_worker(&worker); /* the thread goes on and is profiled again */
    stop_profile(&next);
    CHECK_EQ(next.stats[0].ms, 2);
    if (!TEST_TSAN)
        CHECK(next.seen[0].in[IN_A] > 0);
}

/* ---- Kicks that do not arrive ---------------------------------------------------------------- */

/* While a SIGPROF is pending, the kernel drops a kick. */
static void body_swallows(struct worker *worker)
{
    block_sigprof(SIG_BLOCK);
    pthread_kill(pthread_self(), SIGPROF);
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await() */
    burn_a(200 * MS);
    block_sigprof(SIG_UNBLOCK);
    burn_c(&worker->stop);
}

CP_TEST(a_swallowed_kick_is_not_the_last)
{
    struct worker worker;

    make_requests();
    signal(SIGPROF, on_stray);
    start_worker(&worker, body_swallows, NULL);
    await(&worker.running, 2);
    for (int i = 0; i < 3; i++) {
        struct profile profile = {.n = 0};

        start_profile(&profile, clock_and_timer, 2);
        await_samples(&profile, wall_ns());
        stop_profile(&profile);
        CHECK(sigprof_is(on_stray));
    }
    stop_worker(&worker);
}

/* Many starts and stops under many signals, so that by chance kicks meet the signals of records. */
CP_TEST(kicks_among_many_signals_all_arrive)
{
    struct cp_slot_request fast[] = {request("taskClock", 200000), request("cpuClock", 230000)};
    struct worker workers[3];

    for (size_t i = 0; i < ARRAY_SIZE(workers); i++)
        start_worker(&workers[i], body_c, NULL);
    for (int i = 0; i < 60; i++) {
        struct profile profile = {.n = 0};

        start_profile(&profile, fast, 2);
        sleep_ms(5);
        stop_profile(&profile);
    }
    struct profile last = {.n = 0};
    struct cp_slot_stats stats = {.size = sizeof stats};

    start_profile(&last, fast, 1);
    for (int tries = 0; tries < 5000 && stats.ms < ARRAY_SIZE(workers); tries++) {
        sleep_ms(1);
        cp_slots_stats(last.slots[0], &stats);
    }
    stop_profile(&last);
    CHECK_EQ(stats.ms, ARRAY_SIZE(workers));
    CHECK(sigprof_is(SIG_DFL));
    for (size_t i = 0; i < ARRAY_SIZE(workers); i++)
        stop_worker(&workers[i]);
}
