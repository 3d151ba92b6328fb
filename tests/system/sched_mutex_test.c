/* The scheduler: mutexes. */
#include "tests/support/gs.h"

#include <errno.h>
#include <stdint.h>

static struct cp_mutex *mutex;
static unsigned done;

static void give_way(unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        cp_yield();
}

/* ---- Who is next ----------------------------------------------------------------------------- */

#define WAITERS 5

static uintptr_t owners[WAITERS + 1]; /* in the order in which they had the mutex */

static void notes_itself(void *arg)
{
    CHECK_EQ(cp_mutex_lock(mutex), 0);
    owners[done++] = (uintptr_t)arg;
    cp_yield(); /* an owner may */
    cp_mutex_unlock(mutex);
}

/* The only M runs the Gs in the order in which they were started, so they wait in that order. */
static void keeps_others_out(void *arg)
{
    (void)arg;
    CHECK_EQ(cp_mutex_lock(mutex), 0);
    for (uintptr_t i = 0; i < WAITERS; i++)
        go(notes_itself, (void *)i);
    give_way(3);
    CHECK_EQ(done, 0);
    cp_mutex_unlock(mutex);
    notes_itself((void *)WAITERS); /* comes after those that wait, although it is the one that runs */
}

CP_TEST(who_waits_first_is_next)
{
    mutex = cp_mutex_new();
    run(1, keeps_others_out, NULL);
    CHECK_EQ(done, WAITERS + 1);
    for (uintptr_t i = 0; i <= WAITERS; i++)
        CHECK_EQ(owners[i], i);
    cp_mutex_free(mutex);
    cp_mutex_free(NULL);
}

/* ---- One at a time --------------------------------------------------------------------------- */

#define GS 8u
#define TURNS (TEST_TSAN ? 500u : 3000u)

static uint64_t turns; /* under the mutex */
static unsigned inside;

static void takes_turns(void *arg)
{
    for (unsigned i = 0; i < TURNS; i++) {
        CHECK_EQ(cp_mutex_lock(mutex), 0);
        CHECK_EQ(inside++, 0);
        turns++;
        if (i % 16 == (uintptr_t)arg)
            cp_yield();
        if (i % 512 == 0)
            cp_sleep(MS / 10);
        inside--;
        cp_mutex_unlock(mutex);
    }
}

static void starts_all(void *arg)
{
    (void)arg;
    for (uintptr_t i = 0; i < GS; i++)
        go(takes_turns, (void *)i);
}

static void check_exclusion(void)
{
    mutex = cp_mutex_new();
    for (unsigned threads = 1; threads <= 4; threads++) {
        turns = 0;
        run(threads, starts_all, NULL);
        CHECK_EQ(turns, GS * TURNS);
    }
    cp_mutex_free(mutex);
}

CP_TEST(one_owns_a_mutex_at_a_time)
{
    check_exclusion();
}

CP_TEST(signals_interrupt_no_lock)
{
    begin_storm();
    check_exclusion();
    end_storm();
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static void unlocks_as_first(void *arg)
{
    cp_mutex_unlock(arg);
}

static void frees_after_the_last_lock(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 1000; i++) {
        struct cp_mutex *own = cp_mutex_new();

        CHECK_EQ(cp_mutex_lock(own), 0);
        go(unlocks_as_first, own);
        CHECK_EQ(cp_mutex_lock(own), 0);
        cp_mutex_unlock(own);
        cp_mutex_free(own);
        add_one(&done);
    }
}

CP_TEST(the_last_owner_frees_the_mutex)
{
    run(3, frees_after_the_last_lock, NULL);
    CHECK_EQ(done, 1000);
}

CP_TEST(threads_lock_without_waiting)
{
    mutex = cp_mutex_new();
    CHECK_EQ(cp_mutex_lock(mutex), 0);
    CHECK_EQ(cp_mutex_lock(mutex), -EAGAIN);
    cp_mutex_unlock(mutex);
    CHECK_EQ(cp_mutex_lock(mutex), 0);
    cp_mutex_unlock(mutex);
    cp_mutex_free(mutex);
}

/* ---- Where the time goes --------------------------------------------------------------------- */

static void owns_for_a_while(void *arg)
{
    (void)arg;
    CHECK_EQ(cp_mutex_lock(mutex), 0);
    cp_yield(); /* to the G that waits from then on */
    cp_sleep(20 * MS);
    cp_mutex_unlock(mutex);
}

static void waits_once(void *arg)
{
    struct cp_account account = {.size = sizeof account};

    (void)arg;
    go(owns_for_a_while, NULL);
    cp_yield();
    CHECK_EQ(cp_mutex_lock(mutex), 0);
    CHECK_EQ(cp_g_stats(cp_sched_self(), &account), 0);
    CHECK_EQ(account.waits[CP_WAIT_LOCK], 1);
    CHECK(account.waited_ns[CP_WAIT_LOCK] >= 19 * MS); /* clocks may differ by a little */
    CHECK_EQ(account.waited_ns[CP_WAIT_LOCK], account.waiting_ns);
    cp_mutex_unlock(mutex);
    CHECK_EQ(cp_mutex_lock(mutex), 0); /* which waits for nobody */
    cp_mutex_unlock(mutex);
    CHECK_EQ(cp_g_stats(cp_sched_self(), &account), 0);
    CHECK_EQ(account.waits[CP_WAIT_LOCK], 1);
    CHECK_EQ(account.lifetime_ns, account.running_ns + account.runnable_ns + account.waiting_ns);
}

CP_TEST(a_wait_for_a_mutex_is_one_for_a_lock)
{
    mutex = cp_mutex_new();
    run(1, waits_once, NULL);
    cp_mutex_free(mutex);
}
