/* A program that waits for its SIGTRAPs has all of them, although the library unblocks SIGTRAP on threads so
 * that traps come there. engine_test.c has the SIGTRAPs for which a program has a handler. */
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/support/burn.h"

#define PERIOD 100000
#define TIMES 10

/* Tests of traps are the same whatever the environment asks for. */
static struct cp_slot_request take_default_traps(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer runs the handler of a SIGTRAP at once, in the middle of its own runtime");
    unsetenv("CP_ENGINE");
    return request("taskClock", PERIOD);
}

static sigset_t mask_now(void)
{
    sigset_t now;

    pthread_sigmask(SIG_SETMASK, NULL, &now);
    return now;
}

static bool blocks_traps(void)
{
    sigset_t now = mask_now();

    return sigismember(&now, SIGTRAP);
}

static void set_blocked(int how, int signal)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(how, &set, NULL);
}

/* ---- A thread that waits for SIGTRAPs -------------------------------------------------------- */

struct waiter {
    pthread_t thread;
    int got; /* atomic */
    int stop;
};

/* Hardly ever waits at the moment at which a signal is sent, when the kernel would choose this thread. */
static void *wait_for_traps(void *arg)
{
    struct waiter *waiter = arg;
    const struct timespec now = {0, 0};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    while (cp_load_acquire(&waiter->stop) == 0) { /* pairs with the release in end_waiter() */
        usleep(2000);
        if (sigtimedwait(&set, NULL, &now) == SIGTRAP)
            cp_fetch_add_acq_rel(&waiter->got, 1); /* release: pairs with the acquire in await(), burn.h */
    }
    return NULL;
}

static void start_waiter(struct waiter *waiter)
{
    *waiter = (struct waiter){.got = 0};
    CHECK_EQ(pthread_create(&waiter->thread, NULL, wait_for_traps, waiter), 0);
}

static void end_waiter(struct waiter *waiter)
{
    cp_store_release(&waiter->stop, 1); /* pairs with the acquire in wait_for_traps() */
    pthread_join(waiter->thread, NULL);
}

static void send_traps(struct waiter *waiter)
{
    for (int i = 0; i < TIMES; i++) {
        int before = cp_load_relaxed(&waiter->got); /* relaxed: nothing else depends on the number */

        kill(getpid(), SIGTRAP);
        await(&waiter->got, before + 1);
    }
}

/* All threads have SIGTRAP blocked, and one of them waits for it. The library unblocks SIGTRAP on the Ms, and
 * leaves the program's SIGTRAPs to that thread all the same: before the first event that traps, while one
 * runs, and afterwards. */
SIM_TEST(a_thread_that_waits_for_traps_of_the_program_gets_them)
{
    struct cp_slot_request made = take_default_traps();
    struct waiter waiter;
    struct worker workers[2];
    struct profile profile = {.n = 0};

    set_blocked(SIG_BLOCK, SIGTRAP);
    start_waiter(&waiter);
    for (size_t i = 0; i < ARRAY_SIZE(workers); i++)
        start_worker(&workers[i], body_c, NULL);
    send_traps(&waiter);
    start_profile(&profile, &made, 1);
    send_traps(&waiter);
    stop_profile(&profile);
    send_traps(&waiter);
    for (size_t i = 0; i < ARRAY_SIZE(workers); i++)
        stop_worker(&workers[i]);
    end_waiter(&waiter);
    CHECK_EQ(waiter.got, 3 * TIMES);
}

/* The thread that waits has the mask of the M that created it, with SIGTRAP unblocked. What is sent to the
 * process ends nobody. */
SIM_TEST(a_thread_that_an_m_has_created_gets_the_traps_that_it_waits_for)
{
    struct waiter waiter;
    struct worker worker = {.body = NULL};

    signal(SIGTRAP, SIG_DFL);
    take_default_traps();
    set_blocked(SIG_BLOCK, SIGTRAP);
    attach(&worker);
    CHECK(!blocks_traps());
    start_waiter(&waiter);
    send_traps(&waiter);
    end_waiter(&waiter);
    CHECK_EQ(waiter.got, TIMES);
    cp_m_detach(worker.m);
}

static void body_unblocks_another(struct worker *worker)
{
    set_blocked(SIG_UNBLOCK, SIGUSR1);
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await(), burn.h */
    burn_c(&worker->stop);
}

/* The program blocks SIGTRAP and SIGUSR1, and unblocks SIGUSR1 on a thread: SIGTRAP would still be blocked
 * there. */
SIM_TEST(a_thread_that_unblocks_another_signal_leaves_sigtraps_to_who_waits_for_them)
{
    struct cp_slot_request made = take_default_traps();
    struct waiter waiter;
    struct profile profile = {.n = 0};
    struct worker worker;

    set_blocked(SIG_BLOCK, SIGUSR1);
    set_blocked(SIG_BLOCK, SIGTRAP);
    start_waiter(&waiter);
    start_profile(&profile, &made, 1);
    start_worker(&worker, body_unblocks_another, NULL);
    await(&worker.running, 2);
    send_traps(&waiter);
    stop_worker(&worker);
    stop_profile(&profile);
    end_waiter(&waiter);
    CHECK_EQ(waiter.got, TIMES);
}

/* Checks that a SIGTRAP is in this thread's queue, and not in the process's. */
static void check_pending_for_thread(void)
{
    char *text =
        test_command(NULL, "grep SigPnd /proc/%ld/task/%ld/status", (long)getpid(), syscall(SYS_gettid));

    CHECK_CONTAINS(text, "SigPnd:\t0000000000000010");
    free(text);
}

/* The first SIGTRAP leaves SIGTRAP blocked on the thread, and the next look at the slots unblocks it. */
SIM_TEST(a_thread_that_has_given_a_trap_back_is_sampled_by_traps_again)
{
    struct cp_slot_request made = take_default_traps();
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    set_blocked(SIG_BLOCK, SIGTRAP);
    attach(&worker);
    CHECK(!blocks_traps());
    raise(SIGTRAP);
    CHECK(blocks_traps());
    check_pending_for_thread();
    CHECK_EQ(sigwaitinfo(&set, NULL), SIGTRAP);
    start_unread(&profile, &made, 1);
    cp_execute(worker.m, NULL);
    CHECK(!blocks_traps());
    burn_a(5 * PERIOD);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].signals, 5);
    CHECK_EQ(profile.stats[0].late, 0);
    cp_m_detach(worker.m);
    CHECK(blocks_traps());
}

/* ---- A runtime that unblocks its signals on new threads -------------------------------------- */

static int host_calls; /* atomic */

static void on_trap(int signal)
{
    (void)signal;
    cp_fetch_add_relaxed(&host_calls, 1); /* relaxed: looked at on the same thread */
}

/* Go's runtime starts its threads so. A preload attaches them before they have unblocked their signals. */
static void *start_as_runtimes_do(void *unused)
{
    struct worker worker = {.body = NULL};
    sigset_t none;

    (void)unused;
    attach(&worker);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < TIMES; i++) {
        raise(SIGTRAP);
        CHECK_EQ(host_calls, i + 1);
    }
    burn_a(5 * PERIOD);
    CHECK(!blocks_traps());
    cp_m_detach(worker.m);
    CHECK(!blocks_traps());
    return NULL;
}

SIM_TEST(a_thread_that_unblocks_its_signals_has_its_own_sigtraps)
{
    struct cp_slot_request made;
    struct profile profile = {.n = 0};
    sigset_t all;
    pthread_t thread;

    signal(SIGTRAP, on_trap);
    made = take_default_traps();
    start_profile(&profile, &made, 1);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    CHECK_EQ(pthread_create(&thread, NULL, start_as_runtimes_do, NULL), 0);
    pthread_join(thread, NULL);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].foreign, TIMES);
    CHECK_EQ(profile.stats[0].samples, 5);
    CHECK_EQ(profile.stats[0].late, 0);
}

#if defined(__x86_64__)
/* A runtime may use the instruction for itself. Nobody else waits for what an instruction raises. */
SIM_TEST(what_an_instruction_raises_reaches_the_programs_handler)
{
    struct cp_slot_request made = take_default_traps();
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    signal(SIGTRAP, on_trap);
    set_blocked(SIG_BLOCK, SIGTRAP);
    attach(&worker);
    start_unread(&profile, &made, 1);
    cp_execute(worker.m, NULL);
    for (int i = 0; i < TIMES; i++) {
        __asm__ volatile("int3");
        CHECK_EQ(host_calls, i + 1);
        burn_a(PERIOD);
    }
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].foreign, TIMES);
    CHECK_EQ(profile.stats[0].signals, TIMES);
    CHECK_EQ(profile.stats[0].late, 0);
    cp_m_detach(worker.m);
}
#endif

/* ---- What is left as it was ------------------------------------------------------------------ */

static bool keeps_traps_blocked(void)
{
    struct worker worker = {.body = NULL};
    bool are_blocked;

    attach(&worker);
    are_blocked = blocks_traps();
    cp_m_detach(worker.m);
    CHECK(blocks_traps());
    return are_blocked;
}

SIM_TEST(sigtrap_is_left_alone_if_the_engine_is_sigprof)
{
    struct sigaction before, after;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer keeps handlers of its own");
    sigaction(SIGTRAP, NULL, &before);
    set_blocked(SIG_BLOCK, SIGTRAP);
    setenv("CP_ENGINE", "signal", 1);
    CHECK(keeps_traps_blocked());
    sigaction(SIGTRAP, NULL, &after);
    CHECK(after.sa_handler == before.sa_handler);
    unsetenv("CP_ENGINE");
    sim->no_sigtrap = true;
    CHECK(keeps_traps_blocked());
    sim->no_sigtrap = false;
    CHECK(!keeps_traps_blocked());
}

/* A handler that the program took away must be back before SIGTRAP is unblocked. */
SIM_TEST(sigtrap_is_unblocked_after_its_handler_is_back)
{
    struct sigaction current;

    take_default_traps();
    set_blocked(SIG_BLOCK, SIGTRAP);
    CHECK(!keeps_traps_blocked());
    signal(SIGTRAP, SIG_DFL);
    CHECK(!keeps_traps_blocked());
    sigaction(SIGTRAP, NULL, &current);
    CHECK(current.sa_handler != SIG_DFL);
}

/* Sends the process a SIGTRAP while the thread is in a section of the library's. */
static long send_trap_in_section(long number, const long arguments[6])
{
    if (number == SYS_rt_sigpending) {
        sim_hook(sim_hand_on);
        kill(getpid(), SIGTRAP);
    }
    return sim_hand_on(number, arguments);
}

SIM_TEST(a_sigtrap_that_comes_during_a_detach_stays_pending)
{
    struct worker worker = {.body = NULL};
    const struct timespec now = {0, 0};
    sigset_t set;

    signal(SIGTRAP, on_trap);
    take_default_traps();
    set_blocked(SIG_BLOCK, SIGTRAP);
    attach(&worker);
    CHECK(!blocks_traps());
    sim_hook(send_trap_in_section);
    cp_m_detach(worker.m);
    CHECK_EQ(host_calls, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    CHECK_EQ(sigtimedwait(&set, NULL, &now), SIGTRAP);
}

/* A child of a fork and a new program have the mask that the program has set. */
SIM_TEST(children_have_the_programs_mask)
{
    struct worker worker = {.body = NULL};
    int status = 0;
    pid_t child;

    take_default_traps();
    set_blocked(SIG_BLOCK, SIGTRAP);
    attach(&worker);
    cp_before_exec();
    CHECK(blocks_traps());
    cp_after_exec();
    CHECK(!blocks_traps());
    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(blocks_traps() ? 0 : 1);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK(!blocks_traps());
    cp_m_detach(worker.m);
}
