/* SIGPROFs that are not the profiler's, SIGPROF blocked, and samples that find no room: the statistics have
 * what was lost. */
#include "tests/support/burn.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>

#include "tests/support/inside.h"

#define PERIOD 100000
/* For one of two clocks. */
#define SHORT 125000

static void need_prompt_signals(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: what they count means nothing");
}

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

/* Profiles this thread while cause() runs. Checks that each foreign SIGPROF reaches the host's handler and is
 * counted as no sample. */
static void profile_foreign(void (*cause)(void))
{
    struct cp_slot_request requests[] = {request("taskClock", 2 * PERIOD), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};
    uint64_t cpu;

    attach(&worker);
    start_unread(&profile, requests, 2); /* the buffers have room for all samples */
    cpu = cpu_ns();
    cause();
    cpu = cpu_ns() - cpu;
    stop_profile(&profile);
    cp_m_detach(worker.m);
    printf("%d foreign signals, code %d\n", host_calls, last_code);
    CHECK_EQ(profile.stats[0].foreign, host_calls);
    CHECK_EQ(profile.stats[1].foreign, host_calls);
    check_told(&profile, 0, 2 * PERIOD);
    CHECK(profile.stats[1].samples <= cpu / (10 * MS) + 1);
}

#define TIMES 20

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

static bool undisturbed = true;

static void with_timer(clockid_t clock, int notify)
{
    const struct itimerspec every = {.it_value = {.tv_nsec = 8 * MS}, .it_interval = {.tv_nsec = 8 * MS}};
    struct sigevent event = {.sigev_notify = notify, .sigev_signo = SIGPROF};
    timer_t timer;

    event.sigev_value.sival_ptr = &host_calls;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    CHECK_EQ(timer_create(clock, &event, &timer), 0);
    undisturbed = run_undisturbed();
    timer_settime(timer, 0, &every, NULL);
    burn_a(20 * 8 * MS);
    timer_delete(timer);
}

static void by_timer(void)
{
    with_timer(CLOCK_MONOTONIC, SIGEV_SIGNAL);
}

static void by_thread_timer(void)
{
    with_timer(CLOCK_THREAD_CPUTIME_ID, SIGEV_THREAD_ID);
}

static void by_itimer(void)
{
    const struct itimerval every = {.it_value = {.tv_usec = 8000}, .it_interval = {.tv_usec = 8000}};
    const struct itimerval never = {.it_value = {.tv_usec = 0}};

    undisturbed = run_undisturbed();
    setitimer(ITIMER_PROF, &every, NULL);
    burn_a(20 * 8 * MS);
    setitimer(ITIMER_PROF, &never, NULL);
}

static void check_foreign(void (*cause)(void), int least, int most, int code)
{
    need_prompt_signals();
    install_action(host_action);
    profile_foreign(cause);
    if (!undisturbed && host_calls < least)
        SKIP("others use this thread's CPU, and a real-time priority is not allowed");
    CHECKF(host_calls >= least && host_calls <= most, "%d", host_calls);
    CHECK_EQ(last_code, code);
}

CP_TEST(kill_is_foreign)
{
    check_foreign(by_kill, TIMES, TIMES, SI_USER);
}

CP_TEST(pthread_kill_is_foreign)
{
    /* a signal is lost if another SIGPROF is pending */
    check_foreign(by_pthread_kill, TIMES - 3, TIMES, SI_TKILL);
}

CP_TEST(sigqueue_is_foreign)
{
    check_foreign(by_sigqueue, TIMES, TIMES, SI_QUEUE);
    CHECK(last_value == &host_calls);
}

CP_TEST(the_programs_own_timer_is_foreign)
{
    check_foreign(by_timer, 10, 2000, SI_TIMER);
    CHECK(last_value == &host_calls);
}

CP_TEST(the_programs_own_thread_timer_is_foreign)
{
    check_foreign(by_thread_timer, 10, 100, SI_TIMER);
    CHECK(last_value == &host_calls);
}

CP_TEST(setitimer_is_foreign)
{
    check_foreign(by_itimer, 5, 200, SI_KERNEL);
}

CP_TEST(a_plain_handler_gets_foreign_signals)
{
    need_prompt_signals();
    install(host_handler);
    profile_foreign(by_kill);
    CHECK_EQ(host_calls, TIMES);
}

/* Without a handler of the program's, a SIGPROF would end the process. While profiling runs, it does not. */
CP_TEST(foreign_signals_without_a_handler_are_counted)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD)};
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
    }
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
CP_TEST(handlers_that_hand_on_to_each_other_do_not_go_round)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD)};
    struct worker worker = {.body = NULL};

    need_prompt_signals();
    attach(&worker);
    for (int round = 0; round < 3; round++) {
        struct profile profile = {.n = 0};

        start_unread(&profile, requests, 1);
        if (round == 0) {
            sigaction(SIGPROF, NULL, &under);
            install_action(over);
        }
        raise(SIGPROF);
        burn_a(20 * MS);
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].handler_replaced, round == 0);
        CHECK(profile.stats[0].foreign >= 1);
        CHECK(profile.stats[0].samples > 0);
    }
    CHECK(host_calls >= 3);
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

/* For how long SIGPROF must be blocked so that the ring is too small for the records. The ring has a page or
 * more, and a record has 40 bytes or more. */
static uint64_t long_ns(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE) / 40 * 4 * PERIOD;
}

CP_TEST(sigprof_blocked_shortly_loses_nothing)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 4 * MS; /* a ring of one page holds 51 records */

    need_prompt_signals();
    start_profile(&profile, requests, 2);
    run_attached(&worker, body_blocks_for_a_while, &ns);
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
    CHECK_EQ(profile.stats[0].lost, 0);
    CHECK(profile.stats[0].late >= 30); /* one signal brought many samples */
    CHECK(profile.seen[0].in[IN_B] >= 30);
}

CP_TEST(sigprof_blocked_for_long_loses_records_and_says_so)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = long_ns();

    need_prompt_signals();
    start_profile(&profile, requests, 2);
    run_attached(&worker, body_blocks_for_a_while, &ns);
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
    CHECK(profile.stats[0].lost > 0);
    CHECKF(profile.stats[1].samples > 0, "%llu", (unsigned long long)profile.stats[1].samples);
}

/* Before Linux 6.0, only the next record that finds room tells how many records a full ring did not take, and
 * it tells the sum for all events of the ring. */
static void need_lost_count(void)
{
    if (!kernel_counts_losses())
        SKIP("this kernel does not count what an event has lost: Linux 6.0 does");
}

/* The records that one event lost are not counted as another event's. */
CP_TEST(losses_are_told_of_each_event)
{
    need_lost_count();
    struct cp_slot_request requests[] = {request("taskClock", SHORT), request("cpuClock", 4 * SHORT)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = long_ns();

    need_prompt_signals();
    start_profile(&profile, requests, 2);
    run_attached(&worker, body_blocks_for_a_while, &ns);
    stop_profile(&profile);
    check_told(&profile, 0, SHORT);
    check_told(&profile, 1, 4 * SHORT);
    CHECK(profile.stats[0].lost > 0);
    CHECK(profile.stats[1].lost > 0);
}

static void body_blocks_to_the_end(struct worker *worker)
{
    burn_a(20 * MS);
    block_sigprof(SIG_BLOCK);
    burn_b(*(const uint64_t *)worker->arg);
}

static void check_blocked_to_the_end(uint64_t ns)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    struct worker worker;

    need_prompt_signals();
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_blocks_to_the_end, &ns);
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
    CHECK(profile.stats[0].late >= 30);
    CHECK_EQ(profile.stats[0].foreign, 0);
    CHECK(profile.seen[0].in[IN_B] >= 30); /* burn_b() has returned by the time that they are recorded */
}

CP_TEST(sigprof_blocked_to_the_end_is_told)
{
    check_blocked_to_the_end(5 * MS);
}

CP_TEST(sigprof_blocked_for_long_to_the_end_is_told)
{
    need_lost_count();
    check_blocked_to_the_end(long_ns());
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

CP_TEST(a_signal_that_is_pending_goes_with_its_event)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    struct worker worker;

    need_prompt_signals();
    install_action(host_action);
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_takes_its_own_along, NULL);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].foreign, 0);
}

/* All other threads have SIGPROF blocked, too, so the signal stays pending for this thread. */
CP_TEST(a_foreign_signal_that_is_pending_stays_so)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    struct worker worker;

    need_prompt_signals();
    install_action(host_action);
    block_sigprof(SIG_BLOCK);
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_keeps_a_foreign_one, &profile);
    stop_profile(&profile);
    CHECK_EQ(last_code, SI_QUEUE);
    CHECK(last_value == &profile);
    CHECK_EQ(profile.stats[0].foreign, 0);
    CHECK(profile.stats[0].late >= 15);
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

    burn_until_sampled(profile->slots[0], 20);
    fill_buffer(profile->slots[0]);
    burn_until_sampled(profile->slots[0], 20);
    burn_until_sampled(profile->slots[1], 1); /* comes later if time in the kernel has no samples */
}

CP_TEST(samples_that_find_no_room_are_counted)
{
    struct cp_slot_request requests[] = {request("taskClock", SHORT), request("taskClock", 10 * SHORT)};
    struct profile profile = {.n = 0};
    struct worker worker;

    need_prompt_signals();
    start_unread(&profile, requests, 2);
    run_attached(&worker, body_runs_out_of_room, &profile);
    stop_profile(&profile);
    check_told(&profile, 0, SHORT);
    CHECK(profile.stats[0].dropped >= 20 && profile.stats[0].samples >= 20);
    check_told(&profile, 1, 10 * SHORT);
    CHECK_EQ(profile.stats[1].dropped, 0);
}

/* ---- errno ----------------------------------------------------------------------------------- */

static void body_errno(struct worker *worker)
{
    int wrong = 0;

    (void)worker;
    for (uint64_t end = cpu_ns() + 300 * MS; cpu_ns() < end;) {
        errno = 12345;
        for (int i = 0; i < 100000; i++)
            wrong += *(volatile int *)&errno != 12345;
    }
    CHECK_EQ(wrong, 0);
}

CP_TEST(errno_is_left_alone)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000), request("timer", MS)};
    struct worker worker;
    int rounds = 0;

    start_worker(&worker, body_errno, NULL);
    while (cp_load_acquire(&worker.running) == 1 && rounds < 10) { /* pairs with the release in attach() */
        struct profile profile = {.n = 0};

        start_profile(&profile, requests, 2); /* a kick makes the M configure itself in its handler */
        sleep_ms(25);
        stop_profile(&profile);
        rounds++;
    }
    join_worker(&worker);
}
