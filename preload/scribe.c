/*
 * The thread that writes the profile. A process ends at any place: in a signal handler, with a lock of
 * malloc() held, or on a stack that has no room. So whoever ends it only wakes this thread, and waits until
 * the profile is written. This thread has its own stack, blocks all signals, and takes no lock that a thread
 * of the program holds for long.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "atomic.h"
#include "process.h"
#include "runtime/base/clock.h"
#include "runtime/base/os.h"
#include "runtime/base/signals.h"
#include "runtime/base/thread.h"

/*
 * Sessions are counted, because a thread that waits for the end of one may find the next: another thread has
 * failed to execute a program. Each step is a store by one side that the other side waits for, with a release
 * that pairs with the acquire of whoever waits: wanted: whoever ends the session to await_wish(); ended:
 * scribe_work() to all who wait.
 */
static struct {
    uint32_t wanted; /* how the session is to be ended: BY_EXEC or FOR_GOOD; 0: it goes on */
    uint32_t begun;  /* how many sessions have begun; stored while there is none */
    uint32_t ended;  /* how many of them have ended */
    uint32_t signal; /* what ends the process: the first one; 0: no signal */
} scribe;
enum { BY_EXEC = 1, FOR_GOOD };

#define A_WHILE_MS 1000 /* in which a thread ends the process that has waited for its profile */

/* How often the scribe looks whether the program has threads still. A thread may end without having been
 * counted: by a system call of its own, or if it is cancelled while the C library ends it. */
#define LOOK_MS 500

/* Waits until the session is to be ended, its time is over, or the program has no thread any more, by two
 * looks in a row. Returns true in the last case. */
static bool await_wish(double seconds)
{
    const uint64_t end = cp__clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    unsigned looks = 0;

    /* acquire: pairs with the release in ask_from_handler() */
    while (cp_load_acquire(&scribe.wanted) == 0) {
        const uint64_t now = cp__clock_ns(CLOCK_MONOTONIC);
        const bool is_soon = seconds > 0 && end - now < LOOK_MS * 1000000u;

        if (seconds > 0 && now >= end)
            return false;
        cp__os_futex_wait(&scribe.wanted, 0, is_soon ? (int)((end - now) / 1000000) + 1 : LOOK_MS);
        looks = cp__threads_have_ended() ? looks + 1 : 0;
        if (looks == 2)
            return true;
    }
    return false;
}

/* Ends the process as the signal would have without this library. */
static void die(int number)
{
    const uint64_t bit = (uint64_t)1 << (number - 1);

    cp__signal_take_default_from_handler(number);
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &bit, NULL, sizeof bit);
}

static void *scribe_work(void *unused)
{
    const bool is_left_alone = await_wish(cp__process_seconds());
    uint32_t number;

    cp__process_end();
    cp_store_release(&scribe.ended, scribe.begun); /* pairs with the acquire in has_ended_from_handler() */
    cp__os_futex_wake_from_handler(&scribe.ended);
    number = cp_load_acquire(&scribe.signal); /* pairs with cp__scribe_first_signal_from_handler() */
    if (number != 0) {
        usleep(A_WHILE_MS * 1000);
        die((int)number);
    }
    if (is_left_alone)
        exit(0); /* as the C library does with the last thread */
    return unused;
}

static void *run_scribe(void *unused)
{
    return cp__thread_own(scribe_work, unused);
}

/* In a child of a fork its parent's session has ended. */
int cp__scribe_start(void)
{
    pthread_t thread;
    int result;

    /* relaxed: the store of the process's id releases them to those that ask */
    cp_store_relaxed(&scribe.wanted, 0u);
    cp_store_relaxed(&scribe.signal, 0u);
    cp_store_relaxed(&scribe.ended, scribe.begun);
    cp_store_relaxed(&scribe.begun, scribe.begun + 1);
    result = cp__thread_start(&thread, CP__DEEP_STACK, run_scribe, NULL);
    if (result == 0)
        pthread_detach(thread);
    else
        cp_store_relaxed(&scribe.ended, scribe.begun); /* relaxed: the same */
    return result;
}

/* ---- Whoever ends the process ---------------------------------------------------------------- */

/* A child of vfork() has its parent's memory, and a signal of its own. */
int cp__scribe_first_signal_from_handler(int number)
{
    uint32_t first = 0;

    if (!cp__process_has_handlers_from_handler())
        return number;
    /* pairs with itself, in other handlers, and with the acquire in scribe_work() */
    return cp_compare_exchange(&scribe.signal, &first, (uint32_t)number) ? number : (int)first;
}

/* Whoever is to execute a program takes nothing back from one that ends the process. */
static void ask_from_handler(uint32_t how)
{
    uint32_t before = 0;

    /* pairs with the acquire in await_wish(), both */
    if (how == BY_EXEC)
        cp_compare_exchange(&scribe.wanted, &before, how);
    else
        cp_store_release(&scribe.wanted, how);
    cp__os_futex_wake_from_handler(&scribe.wanted);
}

/* Returns whether so many sessions have ended; *ended is how many have. */
static bool has_ended_from_handler(uint32_t session, uint32_t *ended)
{
    *ended = cp_load_acquire(&scribe.ended); /* pairs with the release in scribe_work() */
    return (int32_t)(*ended - session) >= 0;
}

static bool finish_from_handler(uint32_t how, int wait_ms)
{
    const uint64_t end = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + (uint64_t)wait_ms * 1000000;
    uint32_t session, ended;
    int saved_errno = errno;

    if (!cp__process_is_profiled_from_handler())
        return true;
    session = cp_load_relaxed(&scribe.begun); /* relaxed: ordered by the acquire of the process's id */
    ask_from_handler(how);
    while (!has_ended_from_handler(session, &ended)) {
        uint64_t now = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);

        if (now >= end)
            break;
        cp__os_futex_wait(&scribe.ended, ended, (int)((end - now) / 1000000) + 1);
    }
    errno = saved_errno;
    return has_ended_from_handler(session, &ended);
}

bool cp__scribe_finish_from_handler(int wait_ms)
{
    return finish_from_handler(FOR_GOOD, wait_ms);
}

bool cp__scribe_finish_for_exec_from_handler(int wait_ms)
{
    return finish_from_handler(BY_EXEC, wait_ms);
}

bool cp__scribe_is_asked_from_handler(void)
{
    return cp_load_relaxed(&scribe.wanted) != 0; /* relaxed: who waits for the profile acquires `ended` */
}

bool cp__scribe_lets_begin(void)
{
    uint32_t how = BY_EXEC, ended;

    return has_ended_from_handler(cp_load_relaxed(&scribe.begun), &ended) && /* relaxed: see above */
           cp_compare_exchange(&scribe.wanted, &how, 0); /* pairs with itself, in another thread */
}
