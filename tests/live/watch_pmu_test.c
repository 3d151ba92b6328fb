/*
 * Watches of the PMU's events. tests/vm runs these tests in an emulated machine that has a PMU, on which the
 * numbers of instructions and cycles are known; CP_TEST_CPI is then the number of cycles that an instruction
 * takes, and an event that does not open is a failure.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sched.h"
#include "tests/support/green.h"
#include "tests/support/instructions.h"
#include "tests/support/stopwatch.h"

/* Opens a watch of the PMU's events, or skips the test if they cannot be opened. */
static struct cp_watch *open_pmu_watch(const char *name, const char *quantities)
{
    const struct cp_watch_options options = {.size = sizeof options, .name = name, .quantities = quantities};
    struct cp_watch *watch;
    struct cp_error err = {0};

    test_need_events();
    if (cp_watch_open(&watch, &options, &err) == 0)
        return watch;
    CHECKF(getenv("CP_TEST_CPI") == NULL, "%s", err.message);
    SKIP("there is no PMU to be used (%s)", err.reason);
}

/* ---- A G among others ------------------------------------------------------------------------ */

/* A G that the scheduler has not moved after so many slices goes on, up to LONGEST. */
enum { NEIGHBOURS = 100, THREADS = 4, SLICES = 60, LONGEST = 600 };
#define SLICE ((uint64_t)1000000)
#define NEIGHBOURS_SLICE ((uint64_t)100000)

struct crowd {
    struct cp_watch *watch;
    uint64_t slices;     /* of the G in a round; atomic */
    uint64_t neighbours; /* of all others; atomic */
    uint32_t is_done;    /* atomic */
    unsigned ms;         /* on how many Ms the G ran ... */
    unsigned moves;      /* ... and how often on another than before */
    pid_t seen[THREADS], last;
};

static void compute_beside(struct crowd *crowd)
{
    run_instructions(NEIGHBOURS_SLICE);
    cp_fetch_add_relaxed(&crowd->neighbours, (uint64_t)1); /* relaxed: a number of its own */
}

/* Runs a slice of the G, and notes on which M. */
static void compute(struct crowd *crowd)
{
    const pid_t tid = gettid();
    unsigned i = 0;

    while (i < crowd->ms && crowd->seen[i] != tid)
        i++;
    CHECK(i < THREADS);
    if (i == crowd->ms)
        crowd->seen[crowd->ms++] = tid;
    crowd->moves += crowd->last != 0 && crowd->last != tid;
    crowd->last = tid;
    run_instructions(SLICE);
}

static void check_cpi(const struct cp_watch *watch)
{
    const char *cpi = getenv("CP_TEST_CPI");

    printf("%.3f cycles per instruction\n", find_row(watch, "cpi").sum);
    if (cpi != NULL)
        CHECK_NEAR(1000 * find_row(watch, "cpi").sum, 1000 * strtod(cpi, NULL), 0.005);
}

/* The instructions of switches, and those that read the PMU, are far fewer than a slice. */
static void check_crowd(const struct crowd *crowd)
{
    const struct found found = find_row(crowd->watch, "instructions");

    printf("%.0f of %llu instructions, %u Ms, %u moves; the others ran %llu slices\n", found.sum,
           (unsigned long long)(crowd->slices * SLICE), crowd->ms, crowd->moves,
           (unsigned long long)crowd->neighbours);
    if (state_of_watch(crowd->watch).partial > 0 && getenv("CP_TEST_CPI") == NULL)
        SKIP("others use the PMU, too");
    CHECK_EQ(found.count, 1);
    CHECKF(crowd->ms >= 2, "the G ran on %u Ms", crowd->ms);
    /* many times the tolerance below, however the scheduler has shared the Ms out */
    CHECK(crowd->neighbours * NEIGHBOURS_SLICE > crowd->slices * SLICE / 4);
    CHECK_NEAR(found.sum, crowd->slices * SLICE, TEST_TSAN || TEST_ASAN ? 0.1 : 0.005);
    check_cpi(crowd->watch);
}

static void yields(void *arg)
{
    struct crowd *crowd = arg;

    while (cp_load_relaxed(&crowd->is_done) == 0) { /* relaxed: a flag of its own */
        compute_beside(crowd);
        cp_yield();
    }
}

static void yields_in_a_round(void *arg)
{
    struct crowd *crowd = arg;
    struct cp_watch_round round;

    for (int i = 0; i < NEIGHBOURS; i++)
        CHECK_EQ(cp_go(yields, crowd), 0);
    cp_yield();
    CHECK_EQ(cp_watch_begin(crowd->watch, &round), 0);
    for (; crowd->slices < SLICES || (crowd->ms < 2 && crowd->slices < LONGEST); crowd->slices++) {
        compute(crowd);
        cp_yield();
    }
    CHECK_EQ(cp_watch_end(&round), 0);
    cp_store_relaxed(&crowd->is_done, 1u); /* relaxed: a flag of its own */
}

CP_TEST(instructions_are_those_of_the_g_alone)
{
    const struct cp_sched_options options = {.size = sizeof options, .threads = THREADS};
    struct crowd crowd = {.watch = open_pmu_watch("crowd", "instructions,cpi")};
    struct cp_error err = {0};

    CHECKF(cp_sched_run(&options, yields_in_a_round, &crowd, &err) == 0, "%s", err.message);
    check_crowd(&crowd);
    cp_watch_close(crowd.watch);
}

/* ---- Moved at every switch ------------------------------------------------------------------- */

/* Threads that hand a G on after each slice, and meanwhile run Gs of their own. */
static struct crowd handed;
static struct green traveller;
static struct cp_g neighbours[NEIGHBOURS];

static void travel(void)
{
    struct cp_watch_round round;

    CHECK_EQ(cp_watch_begin(handed.watch, &round), 0);
    for (int i = 0; i < SLICES; i++) {
        compute(&handed);
        swapcontext(&traveller.context, &traveller.back);
    }
    CHECK_EQ(cp_watch_end(&round), 0);
}

static void run_traveller(struct cp_m *m)
{
    cp_execute(m, &traveller.g);
    swapcontext(&traveller.back, &traveller.context);
    cp_execute(m, NULL);
}

/* The last turn ends the round. */
static void *take_turns(void *number)
{
    const uint64_t own = (uintptr_t)number;
    struct cp_m *m = attach_m();
    uint64_t turn;

    for (unsigned i = 0; (turn = cp_load_acquire(&handed.slices)) <= SLICES;
         i++) { /* pairs with the release */
        if (turn % THREADS == own) {
            run_traveller(m);
            cp_store_release(&handed.slices, turn + 1); /* pairs with the acquire: the G's stack goes on */
            continue;
        }
        cp_execute(m, &neighbours[own * NEIGHBOURS / THREADS + i % (NEIGHBOURS / THREADS)]);
        compute_beside(&handed);
        cp_execute(m, NULL);
    }
    cp_m_detach(m);
    return NULL;
}

static void hand_on(void)
{
    pthread_t threads[THREADS];

    if (TEST_TSAN)
        SKIP("ThreadSanitizer does not know a stack that goes from thread to thread");
    handed = (struct crowd){.watch = open_pmu_watch("handed on", "instructions,cpi")};
    make_green(&traveller, NULL, travel);
    cp_g_init(&traveller.g, traveller.stack, traveller.stack + STACK_SIZE, NULL);
    for (int i = 0; i < NEIGHBOURS; i++)
        cp_g_init(&neighbours[i], NULL, NULL, NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, take_turns, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    handed.slices = SLICES;
    CHECK_EQ(handed.ms, THREADS);
    CHECK_EQ(handed.moves, SLICES - 1);
    check_crowd(&handed);
    cp_g_fini(&traveller.g);
    cp_watch_close(handed.watch);
}

CP_TEST(instructions_follow_a_g_that_moves_at_every_switch)
{
    hand_on();
}

/* ---- Without a call -------------------------------------------------------------------------- */

#define USER_ACCESS "/proc/sys/kernel/perf_user_access"

static void let_programs_read(const char *value)
{
    int fd = open(USER_ACCESS, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        SKIP("this kernel has no kernel.perf_user_access");
    CHECK_EQ(write(fd, value, 1), 1);
    close(fd);
}

/* Returns how many instructions a round counts that has nothing in it. */
static double of_an_empty_round(const char *name)
{
    struct cp_watch *watch = open_pmu_watch(name, "instructions");
    struct found found;

    for (int i = 0; i < 100; i++)
        CP_WATCH(watch)
        {
        }
    found = find_row(watch, "instructions");
    CHECK_EQ(found.count, 100);
    cp_watch_close(watch);
    return found.min;
}

/* A call takes its own instructions, and those that prepare it. */
CP_TEST(a_program_that_may_read_the_pmu_makes_no_calls)
{
    struct cp_m *m = attach_m();
    double by_calls, without;

    if (!test_is_emulated())
        SKIP("the test changes kernel.perf_user_access");
    let_programs_read("0");
    by_calls = of_an_empty_round("calls");
    let_programs_read("1");
    without = of_an_empty_round("no calls");
    let_programs_read("0");
    printf("%.0f instructions with calls, %.0f without\n", by_calls, without);
    CHECK(without > 0 && without + 100 < by_calls);
    cp_m_detach(m);
}

CP_TEST(what_is_read_without_calls_is_the_same)
{
    if (!test_is_emulated())
        SKIP("the test changes kernel.perf_user_access");
    let_programs_read("1");
    hand_on();
    let_programs_read("0");
}
