/* Trying an instruction in a process of its own, and the cycles of the core. */
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/watch/core_cycles.h"
#include "tests/support/test.h"

static void do_nothing(void)
{
}

static void raise_sigill(void)
{
    __builtin_trap();
}

static void raise_sigsegv(void)
{
    static int *volatile nowhere;

    *nowhere = 1;
}

CP_TEST(what_raises_a_signal_does_not_survive)
{
    CHECK(cp__survives(do_nothing));
    CHECK(!cp__survives(raise_sigill));
    CHECK(!cp__survives(raise_sigsegv));
    CHECK(cp__survives(do_nothing));
}

/* The kernel ends a process that blocks such a signal, and may end all that share its memory. */
static void need_open_signals(void)
{
    sigset_t blocked;

    sigprocmask(SIG_BLOCK, NULL, &blocked);
    if (sigismember(&blocked, SIGILL) != 0 || sigismember(&blocked, SIGSEGV) != 0)
        __builtin_trap();
}

CP_TEST(the_process_has_a_handler_for_the_signals)
{
    sigset_t before, after;

    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    CHECK(cp__survives(need_open_signals));
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    for (int signal = 1; signal < SIGRTMIN; signal++)
        CHECK_EQ(sigismember(&before, signal), sigismember(&after, signal));
}

/* Two processes on one stack would overwrite each other's words. */
static void use_the_stack(void)
{
    volatile long words[512];
    const long own = syscall(SYS_gettid);

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 512; i++)
            words[i] = own + i;
        for (int i = 0; i < 512; i++) {
            if (words[i] != own + i)
                __builtin_trap();
        }
    }
}

static void *try_often(void *failures)
{
    for (int i = 0; i < 300; i++)
        *(int *)failures += !cp__survives(use_the_stack);
    return NULL;
}

CP_TEST(threads_may_try_at_once)
{
    enum { THREADS = 4 };
    int failures[THREADS] = {0};
    pthread_t threads[THREADS];

    if (TEST_TSAN)
        SKIP("ThreadSanitizer takes what clone() makes for the child of a fork");
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, try_often, &failures[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(failures[i], 0);
    }
}

CP_TEST(the_cycles_are_counted_or_the_reason_is_told)
{
    struct cp_error err = {0};

    if (cp__core_cycles_probe(&err) < 0)
        CHECK_CONTAINS(err.message, "coreCycles cannot be counted");
}
