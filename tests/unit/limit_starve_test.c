/* Threads that sampling events leave no time, on the simulated kernel, which lets an overflow take longer
 * than a clock's period. starve_test.c does the same to an emulated machine. */
#include "tests/support/burn.h"

#include <sched.h>

#include "runtime/base/os.h"
#include "runtime/cost.h"

#define OVERFLOW_NS 25000 /* what an overflow takes on the simulated kernel */

static int is_done; /* atomic */

static void body_works(struct worker *worker)
{
    if (worker->arg != NULL)
        cp__os_hold_samples();
    burn_a(MS);
    cp_store_release(&is_done, 1); /* pairs with the acquire in starve() */
    cp__os_open_samples(0);
}

/* How a thread is made to starve. */
struct way {
    size_t clocks; /* of 10 us */
    enum cp_engine engine;
    bool is_blocked; /* the thread blocks all signals */
    bool is_read;    /* a reader passes by every 100 ms */
    uint64_t cost;   /* what the library believes */
};

/* Returns how much CPU time a thread takes for 1 ms of work. */
static uint64_t starve(struct way way)
{
    const size_t n = way.clocks;
    struct cp_slot_request requests[CP_EV_MAX];
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t read_at = 0;

    for (size_t i = 0; i < n; i++) {
        requests[i] = request(i % 2 == 0 ? "taskClock" : "cpuClock", 10000);
        requests[i].config.engine = way.engine;
    }
    cp__cost_set(1); /* no start is refused */
    start_unread(&profile, requests, n);
    cp__cost_set(way.cost);
    sim->cost_ns = OVERFLOW_NS;
    start_worker(&worker, body_works, way.is_blocked ? &is_done : NULL);
    while (cp_load_acquire(&is_done) == 0) { /* pairs with the release in body_works() */
        CHECK(sim_thread_ns(worker.tid) < 3000 * MS);
        if (way.is_read && sim_thread_ns(worker.tid) >= read_at + 100 * MS) {
            read_at = sim_thread_ns(worker.tid);
            read_profile(&profile);
        }
        sched_yield();
    }
    join_worker(&worker);
    stop_profile(&profile);
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(profile.stats[i].ms_overloaded, 1);
    return worker.cpu;
}

/* All limits of a thread together are 0.4 s of overflows. */
SIM_TEST(eight_clocks_that_leave_no_time_end)
{
    uint64_t ns = starve((struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_SIGNAL, .cost = OVERFLOW_NS});

    CHECKF(ns > 300 * MS && ns < 450 * MS, "%llu ns", (unsigned long long)ns);
}

SIM_TEST(eight_clocks_that_trap_end)
{
    uint64_t ns = starve((struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_TRAP, .cost = OVERFLOW_NS});

    CHECKF(ns > 300 * MS && ns < 450 * MS, "%llu ns", (unsigned long long)ns);
}

SIM_TEST(eight_clocks_end_on_a_thread_that_blocks_all_signals)
{
    uint64_t ns = starve((struct way){
        .clocks = CP_EV_MAX, .engine = CP_ENGINE_SIGNAL, .is_blocked = true, .cost = OVERFLOW_NS});

    CHECKF(ns > 300 * MS && ns < 450 * MS, "%llu ns", (unsigned long long)ns);
}

SIM_TEST(one_clock_that_leaves_no_time_ends)
{
    CHECK(starve((struct way){.clocks = 1, .engine = CP_ENGINE_SIGNAL, .cost = OVERFLOW_NS}) < 100 * MS);
}

/* By the cost that is set, the samples take a tenth of each period. The records tell otherwise: each
 * stands for several periods, and the next one follows at once. */
SIM_TEST(a_clock_that_leaves_no_time_ends_whatever_the_cost_is_said_to_be)
{
    CHECK(starve((struct way){.clocks = 1, .engine = CP_ENGINE_SIGNAL, .cost = 1000}) < 300 * MS);
}

/* The reader restarts it with longer periods. */
SIM_TEST(a_clock_that_leaves_no_time_is_restarted_more_slowly_whatever_the_cost_is_said_to_be)
{
    CHECK(starve((struct way){.clocks = 1, .engine = CP_ENGINE_SIGNAL, .is_read = true, .cost = 1000}) <
          1000 * MS);
}

/* The reader does not hear of what the thread does, and takes each event for as frequent as the others. */
SIM_TEST(eight_clocks_end_although_a_reader_passes_by)
{
    for (uint64_t cost = OVERFLOW_NS; cost >= OVERFLOW_NS * 8 / 10; cost -= OVERFLOW_NS / 10) {
        cp_store_relaxed(&is_done, 0); /* relaxed: no other thread runs */
        CHECK(starve((struct way){.clocks = CP_EV_MAX,
                                  .engine = CP_ENGINE_SIGNAL,
                                  .is_blocked = true,
                                  .is_read = true,
                                  .cost = cost}) < 1500 * MS);
    }
}
