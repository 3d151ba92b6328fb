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
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "atomic.h"
#include "process.h"
#include "runtime/base/clock.h"
#include "runtime/base/os.h"
#include "runtime/base/signals.h"
#include "runtime/base/thread.h"

/* Each step is a store by one side that the other side waits for, with a release that pairs with the acquire
 * of whoever waits: wanted: whoever ends the process to await_wish(); done: scribe_work() to all who wait. */
static struct {
    uint32_t wanted; /* 1: the session is to be ended */
    uint32_t done;   /* 1: it has been, or there is none */
    uint32_t signal; /* what ends the process: the first one; 0: no signal */
} scribe = {.done = 1};

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

    /* acquire: pairs with the release in cp__scribe_finish_from_handler() */
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
    cp_store_release(&scribe.done, 1u); /* pairs with the acquires of whoever waits */
    cp__os_futex_wake_from_handler(&scribe.done);
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

int cp__scribe_start(void)
{
    pthread_t thread;
    int result;

    memset(&scribe, 0, sizeof scribe);
    result = cp__thread_start(&thread, CP__DEEP_STACK, run_scribe, NULL);
    if (result == 0)
        pthread_detach(thread);
    else
        scribe.done = 1;
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

bool cp__scribe_finish_from_handler(int wait_ms)
{
    const uint64_t end = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + (uint64_t)wait_ms * 1000000;
    int saved_errno = errno;

    if (!cp__process_is_profiled_from_handler())
        return true;
    cp_store_release(&scribe.wanted, 1u); /* pairs with the acquire in await_wish() */
    cp__os_futex_wake_from_handler(&scribe.wanted);
    while (cp_load_acquire(&scribe.done) == 0) { /* pairs with the release in scribe_work() */
        uint64_t now = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);

        if (now >= end)
            break;
        cp__os_futex_wait(&scribe.done, 0, (int)((end - now) / 1000000) + 1);
    }
    errno = saved_errno;
    return cp_load_acquire(&scribe.done) != 0; /* the same */
}

bool cp__scribe_is_asked_from_handler(void)
{
    return cp_load_relaxed(&scribe.wanted) != 0; /* relaxed: who waits for the profile acquires `done` */
}
