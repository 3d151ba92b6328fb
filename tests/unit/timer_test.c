/* The end of a timer: what its pending signal tells, and timers that the kernel refuses to end. */
#include "tests/support/burn.h"

#include <sys/wait.h>

#define PERIOD (10 * MS)

static void block_sigprof(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(how, &set, NULL);
}

/* ---- The program's own handler --------------------------------------------------------------- */

static volatile sig_atomic_t host_signals; /* how many signals the program's own handler has got */

static void on_host_signal(int signal)
{
    (void)signal;
    host_signals++;
}

static bool is_given_back(void)
{
    struct sigaction current;

    CHECK_EQ(sigaction(SIGPROF, NULL, &current), 0);
    return current.sa_handler == on_host_signal;
}

static void start_timer(struct profile *profile, struct worker *worker)
{
    struct cp_slot_request timer = request("timer", PERIOD);

    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    attach(worker);
    start_unread(profile, &timer, 1);
    cp_execute(worker->m, NULL);
}

/* Stops the timer, which has ticked for so many periods; the first tick came at any time of the first one. */
static void stop_timer(struct profile *profile, struct worker *worker, uint64_t periods)
{
    cp_slots_stop(profile->slots, 1);
    cp_execute(worker->m, NULL);
    stop_profile(profile);
    CHECK_EQ(profile->stats[0].count, periods * PERIOD);
    CHECK_EQ(profile->stats[0].samples, periods);
    CHECK_EQ(profile->seen[0].weight, periods);
    CHECK_EQ(profile->stats[0].lost + profile->stats[0].foreign, 0);
}

/* ---- What is pending ------------------------------------------------------------------------- */

SIM_TEST(a_thread_that_blocks_sigprof_and_stops_its_timer_keeps_its_ticks)
{
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    start_timer(&profile, &worker);
    burn_a(2 * PERIOD);
    block_sigprof(SIG_BLOCK);
    burn_b(19 * PERIOD);
    stop_timer(&profile, &worker, 21);
    CHECK_EQ(profile.stats[0].late, 19);
    CHECK_EQ(profile.stats[0].overruns, 18);
    block_sigprof(SIG_UNBLOCK);
    CHECK_EQ(host_signals, 0);
    cp_m_detach(worker.m);
    CHECK(is_given_back());
}

/* ---- Timers that the kernel refuses to end --------------------------------------------------- */

SIM_TEST(a_timer_that_cannot_be_deleted_is_disarmed)
{
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    start_timer(&profile, &worker);
    sim_fail(SYS_timer_delete, 1, EPERM, true);
    burn_a(2 * PERIOD);
    stop_timer(&profile, &worker, 2);
    CHECK_EQ(sim_failed(), 1);
    CHECK(is_given_back());
    burn_a(5 * PERIOD);
    CHECK_EQ(host_signals, 0);
    cp_m_detach(worker.m);
}

/* As a filter of system calls does that was installed when the timer ran. */
static long refuse_to_end_timers(long number, const long arguments[6])
{
    static const struct timespec zero;
    const struct itimerspec *when = (const struct itimerspec *)arguments[2];

    if (number == SYS_timer_delete ||
        (number == SYS_timer_settime && memcmp(&when->it_value, &zero, sizeof zero) == 0)) {
        errno = EPERM;
        return -1;
    }
    return sim_hand_on(number, arguments);
}

/* Profiles this thread once more, for 50 ms. */
static void check_next_profile(const struct worker *worker)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};

    start_unread(&profile, &clock, 1);
    cp_execute(worker->m, NULL);
    burn_a(5 * PERIOD);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 5 * PERIOD / MS);
    CHECK_EQ(profile.stats[0].foreign, 0);
}

/* A child has none of its parent's timers. */
static void check_child(const struct worker *worker)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        CHECK(is_given_back());
        check_next_profile(worker);
        CHECK(is_given_back());
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

/* Ticks that come after the stop are no samples, are not the program's, and do not end the program. */
SIM_TEST(a_timer_that_goes_on_keeps_the_handler)
{
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    start_timer(&profile, &worker);
    sim_hook(refuse_to_end_timers);
    burn_a(2 * PERIOD);
    stop_timer(&profile, &worker, 2);
    burn_a(5 * PERIOD);
    CHECK(!is_given_back());
    check_child(&worker);
    check_next_profile(&worker);
    cp_m_detach(worker.m);
    burn_a(5 * PERIOD); /* the thread is no M any more */
    CHECK(!is_given_back());
    CHECK_EQ(host_signals, 0);
}
