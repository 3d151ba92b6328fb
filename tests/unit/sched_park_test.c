/* The scheduler: parking, and wake-ups that must not be lost. */
#include "runtime/sched/internal.h"
#include "tests/support/gs.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

static unsigned ended;
static struct cp_g *observed;

static unsigned others;

static void readies_itself(void *arg)
{
    (void)arg;
    go(add_one, &others);
    cp_ready(cp_sched_self());
    cp_ready(cp_sched_self());
    CHECK_EQ(cp_park(), 0); /* one cp_park() uses up both calls of cp_ready() */
    CHECK_EQ(others, 0);
    add_one(&ended);
    cp_park();
    CHECK_EQ(others, 1);
    add_one(&ended);
}

static void ready_late(void *arg)
{
    struct cp__task *task;

    go(readies_itself, arg);
    task = cp__sched.workers[0].queue.slots[(cp__sched.workers[0].queue.tail - 1) % CP__QUEUE_SIZE];
    cp_sleep(20 * MS);
    CHECK_EQ(ended, 1);
    cp_ready(&task->g);
}

CP_TEST(a_permit_is_kept_and_there_is_one)
{
    run(1, ready_late, NULL);
    CHECK_EQ(ended, 2);
}

static void sleeps_with_permit(void *arg)
{
    uint64_t start = wall_ns();

    (void)arg;
    cp_store_release(&observed, cp_sched_self());
    cp_sleep(50 * MS);
    CHECK(wall_ns() - start >= 50 * MS);
    cp_park();
    add_one(&ended);
}

static void ready_the_sleeper(void *arg)
{
    (void)arg;
    go(sleeps_with_permit, NULL);
    while (cp_load_acquire(&observed) == NULL)
        cp_yield();
    cp_sleep(5 * MS);
    cp_ready(observed);
}

CP_TEST(a_sleep_neither_ends_by_a_permit_nor_takes_it)
{
    run(2, ready_the_sleeper, NULL);
    CHECK_EQ(ended, 1);
}

#define RING 64
#define TOKENS 8
#define ROUNDS (TEST_TSAN ? 300 : 10000)
static struct cp_g *ring[RING];
static unsigned holds[RING];
static unsigned joined;

/* Waits until it holds a token, takes it away, and gives it to its neighbour. */
static void passes_on(void *arg)
{
    unsigned i = (unsigned)(uintptr_t)arg, next = (i + 1) % RING;

    cp_store_release(&ring[i], cp_sched_self());
    cp_fetch_add_acq_rel(&joined, 1u);
    while (cp_load_acquire(&joined) < RING)
        cp_yield();
    for (int round = 0; round < ROUNDS; round++) {
        while (cp_load_acquire(&holds[i]) == 0)
            cp_park();
        cp_fetch_sub_acq_rel(&holds[i], 1u);
        cp_fetch_add_acq_rel(&holds[next], 1u);
        cp_ready(ring[next]);
    }
    add_one(&ended);
    /* The neighbour may still make this G ready once more, so this G must not end before. */
    while (cp_load_relaxed(&ended) < RING)
        cp_yield();
}

static void start_ring(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < TOKENS; i++)
        holds[i * (RING / TOKENS)] = 1;
    for (uintptr_t i = 0; i < RING; i++)
        go(passes_on, (void *)i);
}

CP_TEST(no_wakeup_is_lost_between_gs)
{
    run(8, start_ring, NULL);
    CHECK_EQ(ended, RING);
}

#define CALLS (TEST_TSAN ? 1000 : 5000)
static struct cp_g *answers;
static unsigned asked, answered;

static void answers_calls(void *arg)
{
    (void)arg;
    cp_store_release(&answers, cp_sched_self());
    for (unsigned i = 1; i <= (unsigned)CALLS; i++) {
        while (cp_load_acquire(&asked) < i)
            cp_park();
        cp_store_release(&answered, i);
    }
    while (cp_load_acquire(&asked) < CALLS + 1u) /* the last cp_ready() may still be running */
        cp_park();
}

/* Each call comes when all Ms are idle. */
static void *calls(void *arg)
{
    struct cp_g *task;

    (void)arg;
    while ((task = cp_load_acquire(&answers)) == NULL)
        sched_yield();
    for (unsigned i = 1; i <= (unsigned)CALLS; i++) {
        cp_store_release(&asked, i);
        cp_ready(task);
        while (cp_load_acquire(&answered) < i)
            sched_yield();
    }
    CHECK_EQ(cp_go(add_one, &ended), 0);
    cp_store_release(&asked, CALLS + 1u);
    cp_ready(task);
    return NULL;
}

CP_TEST(no_wakeup_is_lost_from_a_thread)
{
    for (unsigned threads = 1; threads <= 3; threads++) {
        pthread_t caller;

        answers = NULL;
        asked = answered = 0;
        CHECK_EQ(pthread_create(&caller, NULL, calls, NULL), 0);
        run(threads, answers_calls, NULL);
        pthread_join(caller, NULL);
        CHECK_EQ(ended, threads);
    }
}
