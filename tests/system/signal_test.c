/* SIGPROFs that are not the profiler's, SIGPROF blocked, and samples that find no room: the statistics have
 * what was lost. */
#include "tests/support/burn.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "tests/support/inside.h"
#include "tests/support/resources.h"

#define PERIOD 100000
/* For one of two clocks. */
#define SHORT 125000

/* ---- The program's own SIGPROF handler ------------------------------------------------------- */

static int host_calls; /* atomic */
static int last_code;
static void *last_value;

static void host_action(int signal, siginfo_t *info, void *ucontext)
{
    (void)ucontext;
    if (signal == SIGPROF)
        cp_fetch_add_relaxed(&host_calls, 1); /* relaxed: read after all threads have ended */
    last_code = info->si_code;
    last_value = info->si_value.sival_ptr;
}

static void host_handler(int signal)
{
    if (signal == SIGPROF)
        cp_fetch_add_relaxed(&host_calls, 1); /* relaxed: read after all threads have ended */
}

static void install(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    sigaction(SIGPROF, &action, NULL);
}

static void install_action(void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};

    sigaction(SIGPROF, &action, NULL);
}

#define TIMES 20

/* Profiles this thread while cause() runs, for TIMES * 2 ms. Checks that each foreign SIGPROF reaches the
 * host's handler and is counted as no sample. */
static void profile_foreign(void (*cause)(void))
{
    struct cp_slot_request requests[] = {signal_request("taskClock", 2 * PERIOD), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    attach(&worker);
    start_unread(&profile, requests, 2); /* the buffers have room for all samples */
    cause();
    stop_profile(&profile);
    cp_m_detach(worker.m);
    CHECK_EQ(host_calls, TIMES);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(profile.stats[i].foreign, TIMES);
        CHECK_EQ(profile.stats[i].late, 0);
        CHECK_EQ(profile.seen[i].leaf[IN_A], profile.seen[i].weight);
    }
    check_told(&profile, 0, 2 * PERIOD);
    CHECK_EQ(profile.stats[0].samples, TIMES * 2 * MS / (2 * PERIOD));
    CHECK_EQ(profile.stats[1].samples, TIMES * 2 * MS / (10 * MS));
}

static void by_kill(void)
{
    for (int i = 0; i < TIMES; i++) {
        kill(getpid(), SIGPROF);
        burn_a(2 * MS);
    }
}

static void by_pthread_kill(void)
{
    for (int i = 0; i < TIMES; i++) {
        pthread_kill(pthread_self(), SIGPROF);
        burn_a(2 * MS);
    }
}

static void by_sigqueue(void)
{
    for (int i = 0; i < TIMES; i++) {
        sigqueue(getpid(), SIGPROF, (union sigval){.sival_ptr = &host_calls});
        burn_a(2 * MS);
    }
}

/* On the thread's CPU clock: its signals have the code of the library's own timers. */
static void by_thread_timer(void)
{
    const struct itimerspec every = {.it_value = {.tv_nsec = 2 * MS}, .it_interval = {.tv_nsec = 2 * MS}};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    int timer;

    event.sigev_value.sival_ptr = &host_calls;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    CHECK_EQ(syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &timer), 0);
    CHECK_EQ(syscall(SYS_timer_settime, timer, 0, &every, NULL), 0);
    burn_a(TIMES * 2 * MS);
    CHECK_EQ(syscall(SYS_timer_delete, timer), 0);
}

static void check_foreign(void (*cause)(void), int code)
{
    install_action(host_action);
    profile_foreign(cause);
    CHECK_EQ(last_code, code);
}

SIM_TEST(kill_is_foreign)
{
    check_foreign(by_kill, SI_USER);
}

SIM_TEST(pthread_kill_is_foreign)
{
    check_foreign(by_pthread_kill, SI_TKILL);
}

SIM_TEST(sigqueue_is_foreign)
{
    check_foreign(by_sigqueue, SI_QUEUE);
    CHECK(last_value == &host_calls);
}

SIM_TEST(the_programs_own_thread_timer_is_foreign)
{
    check_foreign(by_thread_timer, SI_TIMER);
    CHECK(last_value == &host_calls);
}

SIM_TEST(a_plain_handler_gets_foreign_signals)
{
    install(host_handler);
    profile_foreign(by_kill);
}

/* Without a handler of the program's, a SIGPROF would end the process. While profiling runs, it does not. */
SIM_TEST(foreign_signals_without_a_handler_are_counted)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD)};
    struct worker worker = {.body = NULL};

    attach(&worker);
    for (int ignored = 0; ignored < 2; ignored++) {
        struct profile profile = {.n = 0};

        install(ignored ? SIG_IGN : SIG_DFL);
        start_unread(&profile, requests, 1);
        raise(SIGPROF);
        burn_a(MS);
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].foreign, 1);
        CHECK_EQ(profile.stats[0].samples, MS / PERIOD);
    }
    cp_m_detach(worker.m);
}

/* ---- Handlers over handlers ------------------------------------------------------------------ */

static struct sigaction under; /* the handler that the program's handler replaced */

static void over(int signal, siginfo_t *info, void *ucontext)
{
    cp_fetch_add_relaxed(&host_calls, 1); /* relaxed: read after all threads have ended */
    if ((under.sa_flags & SA_SIGINFO) != 0)
        under.sa_sigaction(signal, info, ucontext);
}

/* The program replaces the library's handler by one that calls it. The second start finds the program's
 * handler in place. The two must not hand a foreign signal to each other without end. */
SIM_TEST(handlers_that_hand_on_to_each_other_do_not_go_round)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD)};
    struct worker worker = {.body = NULL};

    attach(&worker);
    for (int round = 0; round < 3; round++) {
        struct profile profile = {.n = 0};

        start_unread(&profile, requests, 1);
        if (round == 0) {
            sigaction(SIGPROF, NULL, &under);
            install_action(over);
        }
        host_calls = 0;
        raise(SIGPROF);
        CHECK_EQ(host_calls, 1);
        burn_a(20 * MS);
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].handler_replaced, round == 0);
        CHECK(profile.stats[0].foreign >= 1); /* the program's handler hands it on to the library's again */
        CHECK_EQ(profile.stats[0].samples, 20 * MS / PERIOD);
    }
    cp_m_detach(worker.m);
}

static void run_unread_session(void)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};

    start_unread(&profile, requests, 1);
    burn_a(20 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 20 * MS / PERIOD);
}

/* Another profiler puts its handler over the library's, and after the stop gives SIGPROF back: it puts there
 * what it has found, or nothing. Then SIGPROF is the program's after the next session, too. */
static void check_given_back(bool puts_back)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD)};
    struct worker worker = {.body = NULL};
    struct profile profile = {.n = 0};

    attach(&worker);
    start_unread(&profile, requests, 1);
    sigaction(SIGPROF, NULL, &under);
    install_action(over);
    stop_profile(&profile);
    if (puts_back)
        sigaction(SIGPROF, &under, NULL);
    else
        signal(SIGPROF, SIG_DFL);
    for (int i = 0; i < 2; i++)
        run_unread_session();
    CHECK(sigprof_is(SIG_DFL));
    cp_m_detach(worker.m);
}

SIM_TEST(sigprof_is_given_back_after_another_profiler_has_reset_it)
{
    check_given_back(false);
}

/* A start that is refused takes no handler. */
SIM_TEST(sigprof_stays_reset_after_a_start_that_is_refused)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    int slot;

    start_unread(&profile, requests, 1);
    install_action(over);
    stop_profile(&profile);
    signal(SIGPROF, SIG_DFL);
    sim_fail(SYS_perf_event_open, 1, EACCES, true);
    CHECK_EQ(cp_slots_start(requests, 1, &slot, NULL), -EACCES);
    CHECK(sigprof_is(SIG_DFL));
}

SIM_TEST(sigprof_is_given_back_after_another_profiler_has_put_the_librarys_handler_back)
{
    check_given_back(true);
}

/* ---- SIGPROF kept waiting -------------------------------------------------------------------- */

static void block_sigprof(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(how, &set, NULL);
}

static void body_blocks_for_a_while(struct worker *worker)
{
    burn_a(20 * MS);
    block_sigprof(SIG_BLOCK);
    burn_b(*(const uint64_t *)worker->arg);
    block_sigprof(SIG_UNBLOCK);
    burn_a(20 * MS);
}

/* How many records find room in a ring: the kernel keeps one byte of the ring's page free. */
static uint64_t room(void)
{
    return ((uint64_t)sysconf(_SC_PAGESIZE) - 1) / 80;
}

/* For how long SIGPROF is blocked so that the ring is too small for the records. A multiple of 10 ms. */
static uint64_t long_ns(void)
{
    return room() * 10 / 100 * 10 * MS;
}

/* Runs body, which burns for ns with SIGPROF blocked, beside n events. */
static void profile_blocked(struct profile *profile, const struct cp_slot_request *requests, size_t n,
                            void (*body)(struct worker *), uint64_t ns)
{
    struct worker worker;

    start_profile(profile, requests, n);
    run_attached(&worker, body, &ns);
    stop_profile(profile);
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(profile->stats[i].foreign, 0);
}

SIM_TEST(sigprof_blocked_shortly_loses_nothing)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD), request("timer", 4 * MS)};
    struct profile profile = {.n = 0};

    profile_blocked(&profile, requests, 2, body_blocks_for_a_while, 4 * MS);
    check_told(&profile, 0, PERIOD);
    CHECK_EQ(profile.stats[0].samples, 44 * MS / PERIOD);
    CHECK_EQ(profile.stats[0].late, 4 * MS / PERIOD);
    CHECK_EQ(profile.seen[0].in[IN_B], 4 * MS / PERIOD);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 40 * MS / PERIOD);
    CHECK_EQ(profile.stats[1].samples, 44 / 4);
    CHECK_EQ(profile.stats[1].late, 0);
}

/* The timer's signal comes when SIGPROF is unblocked, and tells of all expiries since. */
SIM_TEST(sigprof_blocked_for_long_loses_records_and_says_so)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    uint64_t ns = long_ns();

    profile_blocked(&profile, requests, 2, body_blocks_for_a_while, ns);
    check_told(&profile, 0, PERIOD);
    CHECK_EQ(profile.stats[0].lost, ns / PERIOD - room());
    CHECK_EQ(profile.stats[0].late, room());
    CHECK_EQ(profile.seen[0].in[IN_B], room());
    CHECK_EQ(profile.stats[0].samples, 40 * MS / PERIOD + room());
    CHECK_EQ(profile.stats[1].samples, (40 * MS + ns) / (10 * MS));
    CHECK_EQ(profile.stats[1].overruns, ns / (10 * MS) - 1);
    CHECK_EQ(profile.stats[1].lost, 0);
}

/* The records that one event lost are not counted as another event's. Of five records in the ring, one is
 * the second event's. */
SIM_TEST(losses_are_told_of_each_event)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", SHORT),
                                         signal_request("cpuClock", 4 * SHORT)};
    struct profile profile = {.n = 0};
    uint64_t ns = long_ns();

    profile_blocked(&profile, requests, 2, body_blocks_for_a_while, ns);
    check_told(&profile, 0, SHORT);
    check_told(&profile, 1, 4 * SHORT);
    CHECK_EQ(profile.stats[0].late, room() - room() / 5);
    CHECK_EQ(profile.stats[1].late, room() / 5);
    CHECK_EQ(profile.stats[0].lost, ns / SHORT - profile.stats[0].late);
    CHECK_EQ(profile.stats[1].lost, ns / (4 * SHORT) - profile.stats[1].late);
    CHECK_EQ(profile.stats[0].samples, 40 * MS / SHORT + profile.stats[0].late);
    CHECK_EQ(profile.stats[1].samples, 40 * MS / (4 * SHORT) + profile.stats[1].late);
}

static void body_blocks_to_the_end(struct worker *worker)
{
    burn_a(20 * MS);
    block_sigprof(SIG_BLOCK);
    burn_b(*(const uint64_t *)worker->arg);
}

/* burn_b() has returned by the time that its samples are recorded. */
static void check_blocked_to_the_end(uint64_t ns, uint64_t late)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};

    profile_blocked(&profile, requests, 1, body_blocks_to_the_end, ns);
    check_told(&profile, 0, PERIOD);
    CHECK_EQ(profile.stats[0].samples, 20 * MS / PERIOD + late);
    CHECK_EQ(profile.stats[0].signals, 20 * MS / PERIOD + 1); /* the last one brought many samples */
    CHECK_EQ(profile.stats[0].late, late);
    CHECK_EQ(profile.seen[0].in[IN_B], late);
    CHECK_EQ(profile.stats[0].lost, ns / PERIOD - late);
}

SIM_TEST(sigprof_blocked_to_the_end_is_told)
{
    check_blocked_to_the_end(5 * MS, 5 * MS / PERIOD);
}

SIM_TEST(sigprof_blocked_for_long_to_the_end_is_told)
{
    check_blocked_to_the_end(long_ns(), room());
}

static void body_keeps_a_foreign_one(struct worker *worker)
{
    block_sigprof(SIG_BLOCK);
    burn_b(2 * MS);
    sigqueue(getpid(), SIGPROF, (union sigval){.sival_ptr = worker->arg});
    cp_m_detach(worker->m); /* removes the library's own pending signal */
    CHECK_EQ(host_calls, 0);
    block_sigprof(SIG_UNBLOCK);
    CHECK_EQ(host_calls, 1);
    attach(worker); /* because run_worker() detaches the M */
}

static void body_takes_its_own_along(struct worker *worker)
{
    block_sigprof(SIG_BLOCK);
    burn_b(2 * MS);
    cp_m_detach(worker->m);
    block_sigprof(SIG_UNBLOCK);
    CHECK_EQ(host_calls, 0);
    attach(worker); /* because run_worker() detaches the M */
}

SIM_TEST(a_signal_that_is_pending_goes_with_its_event)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    struct worker worker;

    install_action(host_action);
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_takes_its_own_along, NULL);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].foreign, 0);
    CHECK_EQ(profile.stats[0].late, 2 * MS / PERIOD);
}

/* All other threads have SIGPROF blocked, too, so the signal stays pending for this thread. */
SIM_TEST(a_foreign_signal_that_is_pending_stays_so)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    struct worker worker;

    install_action(host_action);
    block_sigprof(SIG_BLOCK);
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_keeps_a_foreign_one, &profile);
    stop_profile(&profile);
    CHECK_EQ(last_code, SI_QUEUE);
    CHECK(last_value == &profile);
    CHECK_EQ(profile.stats[0].foreign, 0);
    CHECK_EQ(profile.stats[0].late, 2 * MS / PERIOD);
}

static void body_lets_its_event_go(struct worker *worker)
{
    block_sigprof(SIG_BLOCK);
    burn_b(2 * MS);
    sigqueue(getpid(), SIGPROF, (union sigval){.sival_ptr = worker->arg});
    cp_m_detach(worker->m); /* removes the library's own pending signal */
    attach(worker);         /* because run_worker() detaches the M */
}

/* A signal that was sent to the process stays where any of its threads can wait for it. */
SIM_TEST(a_foreign_signal_that_is_pending_for_the_process_stays_so)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", PERIOD)};
    const struct timespec now = {0, 0};
    struct profile profile = {.n = 0};
    struct worker worker;
    sigset_t set;
    siginfo_t info;

    block_sigprof(SIG_BLOCK);
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_lets_its_event_go, &profile);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    CHECK_EQ(sigtimedwait(&set, &info, &now), SIGPROF);
    CHECK(info.si_code == SI_QUEUE && info.si_value.sival_ptr == &profile);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].late, 2 * MS / PERIOD);
    CHECK_EQ(profile.stats[0].foreign, 0);
}

/* ---- No room --------------------------------------------------------------------------------- */

/* Fills the buffer of the calling M's slot with samples of another config, which a late M may leave there. */
static void fill_buffer(int slot)
{
    block_sigprof(SIG_BLOCK);
    while (append_foreign_sample(slot))
        continue;
    block_sigprof(SIG_UNBLOCK);
}

static void body_runs_out_of_room(struct worker *worker)
{
    const struct profile *profile = worker->arg;

    burn_a(5 * MS);
    fill_buffer(profile->slots[0]);
    burn_a(10 * MS);
}

SIM_TEST(samples_that_find_no_room_are_counted)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", SHORT),
                                         signal_request("taskClock", 10 * SHORT)};
    struct profile profile = {.n = 0};
    struct worker worker;

    start_unread(&profile, requests, 2);
    run_attached(&worker, body_runs_out_of_room, &profile);
    stop_profile(&profile);
    check_told(&profile, 0, SHORT);
    CHECK_EQ(profile.stats[0].samples, 5 * MS / SHORT);
    CHECK_EQ(profile.stats[0].dropped, 10 * MS / SHORT);
    check_told(&profile, 1, 10 * SHORT);
    CHECK_EQ(profile.stats[1].samples, 15 * MS / (10 * SHORT));
    CHECK_EQ(profile.stats[1].dropped, 0);
}

/* ---- errno ----------------------------------------------------------------------------------- */

/* As if each call of the library's had tried in vain something first. */
static long spoil_errno(long number, const long arguments[6])
{
    long result = sim_hand_on(number, arguments);

    if (result >= 0)
        errno = 4711;
    return result;
}

static void body_errno(struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) { /* pairs with the release in stop_worker() */
        errno = 12345;
        SPIN_HERE(); /* as in burn_c(); most signals of others come here */
        SIM_RUN(SPIN_NS);
        CHECK_EQ(errno, 12345);
    }
}

/* The worker opens, samples and closes its events in its handler, which stops and starts the PMU's event. */
SIM_TEST(errno_is_left_alone)
{
    struct cp_slot_request requests[3];
    struct worker worker;

    sim->pmu.is_there = true;
    sim_hook(spoil_errno);
    requests[0] = signal_request("taskClock", PERIOD);
    requests[1] = request("timer", MS);
    requests[2] = request("cycles", PERIOD);
    start_worker(&worker, body_errno, NULL);
    for (int round = 0; round < 10; round++) {
        struct profile profile = {.looks = true};

        start_profile(&profile, requests, 3);
        while (sampled(profile.slots[1]) < 2 || sampled(profile.slots[2]) < 20)
            sleep_ms(1);
        stop_profile(&profile);
    }
    stop_worker(&worker);
}
