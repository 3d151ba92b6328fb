/* Threads in a function of a known number of instructions, for watch_command_pmu_test.c. */
#include <pthread.h>
#include <unistd.h>

#include "instructions.h"
#include "watched_sample.h"

static uint32_t is_done; /* atomic */

/* Leaves its CPU in the middle. */
static __attribute__((noinline)) void watched_loop(void)
{
    run_instructions(WATCHED_INSTRUCTIONS / 2);
    usleep(500);
    run_instructions(WATCHED_INSTRUCTIONS / 2);
}

static void *call_watched_loop(void *unused)
{
    (void)unused;
    for (int i = 0; i < WATCHED_CALLS / WATCHED_THREADS; i++)
        watched_loop();
    return NULL;
}

/* Computes on the same CPUs, in no function that is watched. */
static void *compute_beside(void *unused)
{
    (void)unused;
    while (cp_load_relaxed(&is_done) == 0) /* relaxed: a flag alone */
        run_instructions(10000);
    return NULL;
}

CP_TEST(computes)
{
    pthread_t threads[WATCHED_THREADS], neighbour;

    CHECK_EQ(pthread_create(&neighbour, NULL, compute_beside, NULL), 0);
    for (int i = 0; i < WATCHED_THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, call_watched_loop, NULL), 0);
    for (int i = 0; i < WATCHED_THREADS; i++)
        pthread_join(threads[i], NULL);
    cp_store_relaxed(&is_done, 1); /* the same */
    pthread_join(neighbour, NULL);
}

CP_TEST_MAIN()
