/* What only the machine's kernel can tell about SIGPROF: timers of the program's on other clocks than its
 * threads', a system call that a signal interrupts, and a change of privileges. */
#include "tests/support/burn.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>

#define PERIOD test_period(200000, 1)

static void need_prompt_signals(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: what they count means nothing");
}

/* ---- The program's timers -------------------------------------------------------------------- */

#define CALLS 5

static int host_calls; /* atomic */
static int last_code;
static void *last_value;

static void host_action(int signal, siginfo_t *info, void *ucontext)
{
    (void)signal;
    (void)ucontext;
    cp_fetch_add_relaxed(&host_calls, 1); /* relaxed: this thread's own */
    last_code = info->si_code;
    last_value = info->si_value.sival_ptr;
}

static void burn_until_called(void)
{
    while (cp_load_relaxed(&host_calls) < CALLS) /* relaxed: this thread's own */
        burn_a(MS);
}

/* Profiles this thread while cause() runs. Checks that each foreign SIGPROF reaches the host's handler and is
 * counted as no sample. */
static void profile_foreign(void (*cause)(void))
{
    const struct sigaction action = {.sa_sigaction = host_action, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};
    uint64_t cpu;

    need_prompt_signals();
    CHECK_EQ(sigaction(SIGPROF, &action, NULL), 0);
    attach(&worker);
    start_profile(&profile, requests, 2);
    cpu = cpu_ns();
    cause();
    cpu = cpu_ns() - cpu;
    stop_profile(&profile);
    cp_m_detach(worker.m);
    printf("%d foreign signals, code %d\n", host_calls, last_code);
    CHECK_EQ(profile.stats[0].foreign, host_calls);
    CHECK_EQ(profile.stats[1].foreign, host_calls);
    check_told(&profile, 0, PERIOD);
    CHECK(profile.stats[1].samples <= cpu / (10 * MS) + 1);
}

static void by_timer(void)
{
    const struct itimerspec every = {.it_value = {.tv_nsec = 8 * MS}, .it_interval = {.tv_nsec = 8 * MS}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
    timer_t timer;

    event.sigev_value.sival_ptr = &host_calls;
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    timer_settime(timer, 0, &every, NULL);
    burn_until_called();
    timer_delete(timer);
}

static void by_itimer(void)
{
    const struct itimerval every = {.it_value = {.tv_usec = 8000}, .it_interval = {.tv_usec = 8000}};
    const struct itimerval never = {.it_value = {.tv_usec = 0}};

    setitimer(ITIMER_PROF, &every, NULL);
    burn_until_called();
    setitimer(ITIMER_PROF, &never, NULL);
}

CP_TEST(the_programs_own_timer_is_foreign)
{
    profile_foreign(by_timer);
    CHECK_EQ(last_code, SI_TIMER);
    CHECK(last_value == &host_calls);
}

CP_TEST(setitimer_is_foreign)
{
    profile_foreign(by_itimer);
    CHECK_EQ(last_code, SI_KERNEL);
}

/* ---- A system call --------------------------------------------------------------------------- */

static int ends[2];

static void body_reads(struct worker *worker)
{
    char c;

    do
        cp_execute(worker->m, NULL);
    while (read(ends[0], &c, 1) == 1);
}

/* The kernel sets the program counter back to the system call, to make the call again. */
CP_TEST(a_restarted_system_call_is_not_late)
{
    struct cp_slot_request made = kernel_request("contextSwitches", 1);
    struct profile profile = {.n = 0};
    struct worker worker;

    need_prompt_signals();
    CHECK_EQ(pipe(ends), 0);
    start_worker(&worker, body_reads, NULL);
    start_unread(&profile, &made, 1);
    while (profile.seen[0].samples < 50) {
        CHECK_EQ(write(ends[1], "x", 1), 1);
        sleep_ms(1);
        read_profile(&profile);
    }
    close(ends[1]);
    join_worker(&worker);
    stop_profile(&profile);
    printf("%llu of %llu\n", (unsigned long long)profile.stats[0].late,
           (unsigned long long)profile.stats[0].samples);
    CHECK(profile.stats[0].late <= profile.stats[0].samples / 10);
}

/* ---- Privileges ------------------------------------------------------------------------------ */

static void body_gives_up(struct worker *worker)
{
    burn_a(50 * MS);
    if (setresuid(65534, 65534, 65534) < 0)
        SKIP("another user cannot be had");
    burn_b(*(const uint64_t *)worker->arg);
}

/* The kernel notes the sender of an event's signals when the event gets its owner, so later changes of
 * privileges do not matter. */
CP_TEST(privileges_may_be_given_up_meanwhile)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 200 * MS;

    need_prompt_signals();
    if (geteuid() != 0)
        SKIP("only root can become another user");
    start_profile(&profile, requests, 2);
    run_attached(&worker, body_gives_up, &ns);
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
    CHECK_EQ(profile.stats[0].lost, 0);
    CHECK(profile.seen[0].in[IN_B] >= 10); /* fewer if the CPU stands still */
    CHECK(profile.seen[1].in[IN_B] >= 1);
}
