/* A SIGPROF that is not the library's reaches the host's handler. */
#include "tests/support/burn.h"

#include <setjmp.h>
#include <stdint.h>

#include "runtime/base/os.h"
#include "runtime/slot.h"
#include "tests/support/switching.h"

/* ---- The host's handler ---------------------------------------------------------------------- */

static struct {
    int calls;
    int code;
    uintptr_t local; /* the address of the handler's locals */
    sigset_t mask;   /* the signals that were blocked */
    int errno_was;
    sigjmp_buf *leave_by; /* NULL: the handler returns */
} host;

static void look_around(int code)
{
    int local = 0;

    host.calls++;
    host.code = code;
    host.local = (uintptr_t)&local;
    host.errno_was = errno;
    pthread_sigmask(SIG_SETMASK, NULL, &host.mask);
    errno = 99;
    if (host.leave_by != NULL)
        siglongjmp(*host.leave_by, 1);
}

static void host_action(int signal, siginfo_t *info, void *ucontext)
{
    (void)signal;
    (void)ucontext;
    look_around(info->si_code);
}

static void host_handler(int signal)
{
    (void)signal;
    look_around(0);
}

/* Installs the host's handler, which blocks SIGUSR1, and starts an event that never happens, so that the
 * library's handler replaces the host's. */
static int start_over(const struct sigaction *action)
{
    struct cp_slot_request made = request("taskClock", 1000000000);
    struct cp_error err;
    int slot;

    CHECK_EQ(sigaction(SIGPROF, action, NULL), 0);
    CHECKF(cp_slots_start(&made, 1, &slot, &err) == 0, "%s", err.message);
    return slot;
}

static void stop(int slot)
{
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
}

static struct sigaction action_of_host(int flags)
{
    struct sigaction action = {.sa_flags = flags};

    if ((flags & SA_SIGINFO) != 0)
        action.sa_sigaction = host_action;
    else
        action.sa_handler = host_handler;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    return action;
}

/* ---- What is blocked ------------------------------------------------------------------------- */

/* Otherwise a host that switches contexts in a handler of its own would leave the library's handler half
 * done. */
SIM_TEST(the_librarys_handler_has_all_signals_blocked)
{
    struct sigaction host_wants = action_of_host(SA_SIGINFO);
    struct sigaction ours;
    int slot = start_over(&host_wants);

    CHECK_EQ(sigaction(SIGPROF, NULL, &ours), 0);
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        if (signal != SIGKILL && signal != SIGSTOP)
            CHECKF(sigismember(&ours.sa_mask, signal) != 0, "signal %d", signal);
    stop(slot);
}

static void check_mask(int flags)
{
    struct sigaction host_wants = action_of_host(flags);
    int slot = start_over(&host_wants);
    sigset_t set, old;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    raise(SIGPROF);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    CHECK_EQ(host.calls, 1);
    CHECK(sigismember(&host.mask, SIGUSR1)); /* by its sa_mask */
    CHECK(sigismember(&host.mask, SIGUSR2)); /* by the thread */
    CHECK_EQ(sigismember(&host.mask, SIGPROF), (flags & SA_NODEFER) == 0);
    CHECK(!sigismember(&host.mask, SIGALRM));
    host.calls = 0;
    stop(slot);
}

SIM_TEST(the_hosts_handler_has_blocked_what_it_asked_for)
{
    check_mask(SA_SIGINFO);
    check_mask(SA_SIGINFO | SA_NODEFER);
    check_mask(0);
    check_mask(SA_NODEFER);
}

/* ---- Where it runs, and how it leaves -------------------------------------------------------- */

/* The stack of a green thread may be too small for the host's handler. */
SIM_TEST(the_hosts_handler_runs_on_the_alternate_stack)
{
    struct sigaction host_wants = action_of_host(SA_SIGINFO);
    struct worker worker = {.body = NULL};
    stack_t stack;
    int slot;

    attach(&worker);
    slot = start_over(&host_wants);
    raise(SIGPROF);
    CHECK_EQ(host.calls, 1);
    CHECK_EQ(sigaltstack(NULL, &stack), 0);
    CHECK(host.local - (uintptr_t)stack.ss_sp < stack.ss_size);
    stop(slot);
    cp_m_detach(worker.m);
}

SIM_TEST(errno_is_the_programs_before_and_after_the_hosts_handler)
{
    struct sigaction host_wants = action_of_host(SA_SIGINFO);
    struct worker worker = {.body = NULL};
    int slot, after;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer changes errno before it calls a handler");
    attach(&worker);
    slot = start_over(&host_wants);
    errno = 4711;
    raise(SIGPROF);
    after = errno;
    CHECK_EQ(host.calls, 1);
    CHECK_EQ(host.errno_was, 4711);
    CHECK_EQ(after, 4711);
    stop(slot);
    cp_m_detach(worker.m);
}

static void leave(int times)
{
    sigjmp_buf here;

    host.leave_by = &here;
    for (volatile int i = 0; i < times; i++)
        if (sigsetjmp(here, 1) == 0)
            raise(SIGPROF);
    host.leave_by = NULL;
}

/* Each signal reaches the host's handler, and so do the next samples of an event that stops counting in the
 * library's handler. */
SIM_TEST(the_hosts_handler_may_leave_by_siglongjmp)
{
    struct sigaction host_wants = action_of_host(SA_SIGINFO);
    struct cp_slot_request made;
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    sim->pmu.is_there = true;
    sim->clock_ns = 1000; /* for the start's trial */
    made = request("cycles", 150000);
    attach(&worker);
    CHECK_EQ(sigaction(SIGPROF, &host_wants, NULL), 0);
    start_unread(&profile, &made, 1);
    sim->clock_ns = 0;
    take_switchings(); /* the start's */
    leave(20);
    CHECK_EQ(host.calls, 20);
    CHECK_EQ(take_switchings(), 2 * 20); /* the event was stopped and started again */
    raise(SIGPROF);
    CHECK_EQ(host.calls, 21);
    burn_a(20 * 150000);
    stop_profile(&profile);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 20);
    CHECK_EQ(profile.stats[0].samples, 20);
    CHECK_EQ(profile.stats[0].foreign, 21); /* those that were the host's */
    cp_m_detach(worker.m);
}

/* ---- Handlers over ours ---------------------------------------------------------------------- */

static struct sigaction below; /* the handler that host_over() replaced */

/* Passes the signal on to the previous handler, as a program's handler may do. */
static void host_over(int signal, siginfo_t *info, void *ucontext)
{
    look_around(info->si_code);
    if ((below.sa_flags & SA_SIGINFO) != 0 && below.sa_sigaction != host_over)
        below.sa_sigaction(signal, info, ucontext);
}

/* The host's handler stays when the library's goes, and the library's is installed over it again. So each
 * handler passes signals on to the other one. */
SIM_TEST(handlers_that_hand_on_to_each_other_end)
{
    const struct sigaction over = {.sa_sigaction = host_over, .sa_flags = SA_SIGINFO};
    struct cp_slot_request made = request("taskClock", 1000000000);
    struct cp_error err;
    int slot;

    CHECKF(cp_slots_start(&made, 1, &slot, &err) == 0, "%s", err.message);
    CHECK_EQ(sigaction(SIGPROF, &over, &below), 0);
    stop(slot);
    CHECKF(cp_slots_start(&made, 1, &slot, &err) == 0, "%s", err.message);
    for (int i = 1; i <= 5; i++) {
        raise(SIGPROF);
        CHECK_EQ(host.calls, i);
    }
    stop(slot);
}

/* ---- Signals of ours that come late ---------------------------------------------------------- */

/* Sends a tick of the timer that was pending when the thread was detached, because the thread had SIGPROF
 * blocked. */
static void send_tick(uint64_t seq)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_code = SI_TIMER;
    info.si_value.sival_ptr = (void *)(uintptr_t)seq;
    CHECK_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), cp__os_tid(), SIGPROF, &info), 0);
    SIM_RUN(1); /* ThreadSanitizer delivers the signal here */
}

static void *body_was_an_m(void *arg)
{
    struct worker worker = {.body = NULL};

    attach(&worker);
    cp_m_detach(worker.m);
    send_tick(*(const uint64_t *)arg);
    return NULL;
}

SIM_TEST(a_tick_of_ours_on_a_thread_that_is_no_m_is_not_handed_on)
{
    struct sigaction host_wants = action_of_host(SA_SIGINFO);
    struct cp_slot_request made = request("timer", 1000 * MS);
    struct cp_error err;
    pthread_t thread;
    uint64_t seq;
    int slot;

    CHECK_EQ(sigaction(SIGPROF, &host_wants, NULL), 0);
    CHECKF(cp_slots_start(&made, 1, &slot, &err) == 0, "%s", err.message);
    seq = cp__slot_seq_from_handler(slot);
    CHECK(seq != 0);
    CHECK_EQ(pthread_create(&thread, NULL, body_was_an_m, &seq), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(host.calls, 0);
    seq = 12345; /* a timer of the program itself */
    CHECK_EQ(pthread_create(&thread, NULL, body_was_an_m, &seq), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(host.calls, 1);
    CHECK_EQ(host.code, SI_TIMER);
    stop(slot);
}
