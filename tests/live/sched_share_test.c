/* The scheduler: each G's share of the time. */
#include "tests/support/gs.h"

#include <stdio.h>
#include <string.h>

#define RUNNERS 10
#define RACE_MS 4u /* the largest number of Ms */
#define LAPS_ON_EACH 100

static uint64_t laps[RUNNERS][RACE_MS]; /* of each G, on each M */
static struct cp_m *race_ms[RACE_MS];
static unsigned race_is_over;
static bool are_equal; /* the Gs were, when the race ended */

/* Returns the number of the calling M; an M that calls for the first time gets the next number. */
static unsigned m_number(void)
{
    struct cp_m *m = cp_m_self(), *none;

    for (unsigned i = 0; i < RACE_MS; i++) {
        none = NULL;
        if (cp_load_acquire(&race_ms[i]) == m || cp_compare_exchange(&race_ms[i], &none, m) || none == m)
            return i;
    }
    CHECK(!"more Ms than there should be");
    return 0;
}

static void runs_laps(void *arg)
{
    uint64_t *own = arg;

    while (cp_load_relaxed(&race_is_over) == 0) {
        for (volatile int i = 0; i < 2000; i++) {
        }
        cp_add_single_writer(&own[m_number()], 1u);
        cp_yield();
    }
}

static bool all_have_been_everywhere(unsigned threads)
{
    for (unsigned g = 0; g < RUNNERS; g++) {
        for (unsigned m = 0; m < threads; m++) {
            if (cp_load_relaxed(&laps[g][m]) < LAPS_ON_EACH)
                return false;
        }
    }
    return true;
}

/* Returns the number of laps of the Gs that have the least and the most of them. */
static void count_laps(uint64_t *least, uint64_t *most)
{
    *least = UINT64_MAX;
    *most = 0;
    for (int g = 0; g < RUNNERS; g++) {
        uint64_t all = 0;

        for (unsigned m = 0; m < RACE_MS; m++)
            all += cp_load_relaxed(&laps[g][m]);
        *least = all < *least ? all : *least;
        *most = all > *most ? all : *most;
    }
}

/* A system that treats the Ms differently for a while, because other processes run too, makes the Gs progress
 * differently. Then the race goes on for longer. */
static bool may_end(unsigned threads, unsigned naps)
{
    uint64_t least, most;

    count_laps(&least, &most);
    are_equal = most < 3 * least;
    return all_have_been_everywhere(threads) && (are_equal || naps >= 60);
}

static void race(void *arg)
{
    unsigned naps = 0;

    for (int i = 0; i < RUNNERS; i++)
        go(runs_laps, laps[i]);
    do {
        cp_sleep(300 * MS);
    } while (!may_end(*(unsigned *)arg, ++naps));
    cp_store_relaxed(&race_is_over, 1u);
}

static void check_race(unsigned threads)
{
    uint64_t least, most;

    memset(laps, 0, sizeof laps);
    memset(race_ms, 0, sizeof race_ms);
    race_is_over = 0;
    run(threads, race, &threads);
    count_laps(&least, &most);
    printf("%u Ms: %llu to %llu laps\n", threads, (unsigned long long)least, (unsigned long long)most);
    CHECK(are_equal);
}

/*
 * On several Ms a G's progress depends on how the system treats each M, and becomes equal in the long run
 * because Gs move between Ms even if all Ms are busy. So the test waits until each G has run on each M.
 */
CP_TEST(equal_gs_progress_equally)
{
    for (unsigned threads = 2; threads <= RACE_MS; threads++)
        check_race(threads);
}

/* ---- One M ----------------------------------------------------------------------------------- */

#define ROUNDS 1000

static unsigned turns[RUNNERS]; /* of each G */
static unsigned all_turns;

/* Checks that each of the others has had its turn since this G's last one. */
static void takes_turns(void *arg)
{
    unsigned *own = arg;

    for (; *own < ROUNDS; ++*own) {
        CHECK_EQ(all_turns++, *own * RUNNERS + (unsigned)(own - turns));
        cp_yield();
    }
}

static void start_turns(void *arg)
{
    (void)arg;
    for (int i = 0; i < RUNNERS; i++)
        go(takes_turns, &turns[i]);
}

CP_TEST(gs_of_one_m_take_turns)
{
    run(1, start_turns, NULL);
    CHECK_EQ(all_turns, ROUNDS * RUNNERS);
}
