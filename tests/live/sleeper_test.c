/* Threads that sleep in a system call are armed, and are left alone otherwise: tests/system/arming_test.c has
 * the rest. */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <sys/epoll.h>

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

/* Waits for the first sample of the clock. */
static void await_samples(const struct profile *profile)
{
    for (int tries = 0; sampled(profile->slots[0]) == 0; tries++) {
        CHECKF(tries < 20000, "no thread has been profiled");
        usleep(500);
    }
}

/* Checks a thread that sleeps from before the start until after the stop. Returns false if this machine was
 * too busy for the thread to sleep through both. */
static bool check_asleep_for(void (*body)(struct worker *), unsigned ms)
{
    struct sleeper sleeper = {.ms = ms, .result = -1};
    struct worker busy, worker;
    struct profile profile = {.may_be_throttled = true}; /* one sample is enough */
    uint64_t start = wall_ns();
    bool slept_on;
    long before, after;
    struct cp_slot_request requests[] = {request("taskClock", test_period(200000, 1)),
                                         request("timer", 10 * MS)};

    start_worker(&busy, body_c, NULL);
    start_worker(&worker, body, &sleeper);
    await_sleep(worker.tid);
    before = switches_of(&worker);
    start_profile(&profile, requests, 2);
    await_samples(&profile);
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
        CHECK_EQ(profile.stats[0].ms, 2);
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
