/*
 * A signal handler forks. The signal may come between any two instructions of cp__fork_delay() and
 * cp__fork_allow(), or while another fork of the same thread has begun. A fork that has no thread to wait for
 * does not wait, neither in the parent nor in the child.
 */
#include "tests/support/burn.h"

#include <linux/futex.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "runtime/base/fork_gate.h"
#include "tests/support/step.h"
#include "tests/support/stub_syscall.h"

static unsigned waits;    /* how often a thread waited on a futex */
static bool is_blocked;   /* the thread has blocked all signals */
static bool is_forked;    /* this process is a child */
static unsigned children; /* the number of children that a handler has forked */

/* Only pretends to block signals: with SIGTRAP blocked, the single steps would end the process. The SIGTRAP
 * handler does nothing meanwhile. */
static long stub_syscall(long number, const long a[6])
{
    const uint64_t *set = (const uint64_t *)a[1];

    if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
        waits++;
    if (number == SYS_rt_sigprocmask && set != NULL && (a[0] == SIG_SETMASK || *set == UINT64_MAX)) {
        uint64_t *old = (uint64_t *)a[2];

        if (old != NULL)
            *old = is_blocked ? UINT64_MAX : 0;
        is_blocked = *set == UINT64_MAX;
        return 0;
    }
    return hand_on(number, a);
}

/* Ends a child; status 2: a fork has waited. */
static void leave_child(void)
{
    _exit(waits == 0 ? 0 : 2);
}

static void reap(pid_t child)
{
    int status;

    CHECK(child > 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECKF(status == 0, "child %u ended with %#x", children, (unsigned)status);
}

/* The child continues where the parent was interrupted, and forks itself. */
static void on_step(int signo, siginfo_t *info, void *ucontext)
{
    pid_t child;

    (void)signo, (void)info;
    if (!step_arrive(ucontext))
        return;
    if (is_blocked) {
        step_on(ucontext);
        return;
    }
    child = fork();
    if (child == 0) {
        alarm(5);
        is_forked = true;
        step_off(ucontext);
        return;
    }
    children++;
    reap(child);
    step_on(ucontext);
}

static void delay_and_allow(void)
{
    cp__fork_delay();
    cp__fork_allow();
}

static void fork_again(void)
{
    pid_t child = fork();

    if (child == 0)
        leave_child();
    reap(child);
}

CP_TEST(a_handler_may_fork_in_the_midst_of_a_delay)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

    if (!STEP_IS_KNOWN)
        SKIP("how to run one instruction at a time is not known here");
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer's own code takes too many steps");
    delay_and_allow(); /* binds the functions that it calls */
    fork_again();
    step_prepare();
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
    step_from_here();
    delay_and_allow();
    step_to_here();
    fork_again();
    if (is_forked)
        leave_child();
    printf("%u children\n", children);
    CHECK(children > 20);
    CHECK_EQ(waits, 0);
}

/* ---- A fork in a fork ------------------------------------------------------------------------ */

static bool is_to_fork; /* the handler forks in the middle of the next fork */

static void program_prepares(void)
{
    if (is_to_fork)
        raise(SIGUSR1);
}

/* Registered before all others, so that this prepare handler runs after all others. */
__attribute__((constructor(101))) static void register_program(void)
{
    pthread_atfork(program_prepares, NULL, NULL);
}

static void on_usr1(int signo)
{
    pid_t child;

    (void)signo;
    is_to_fork = false;
    child = fork();
    is_forked = child == 0;
    if (!is_forked)
        reap(child);
}

static void check_mended(void)
{
    sigset_t blocked;

    delay_and_allow();
    CHECK_EQ(waits, 0);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
    CHECK(!sigismember(&blocked, SIGPROF));
}

CP_TEST(a_handler_may_fork_in_the_midst_of_a_fork)
{
    pid_t child;

    CHECK(signal(SIGUSR1, on_usr1) != SIG_ERR);
    is_to_fork = true;
    child = fork();
    check_mended();
    if (child == 0)
        leave_child();
    reap(child);
    fork_again();
    if (is_forked)
        leave_child();
}
