/* What samples may cost: at most half of a CPU. tests/live/sample_cost_test.c measures the cost. */
#include "tests/support/burn.h"
#include "tests/support/puppet.h"
#include "tests/support/resources.h"

#include <sys/syscall.h>

#include "pprof.h"
#include "runtime/base/os.h"
#include "runtime/cost.h"
#include "runtime/m.h"

/* The cost that the tests set; no real cost is near it. */
#define COST_NS 1000000

static void body_execute(struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) { /* pairs with the release in stop_worker() */
        SPIN();
        cp_execute(worker->m, NULL);
    }
}

SIM_TEST(an_unknown_cost_refuses_nothing)
{
    struct cp_slot_request requests[] = {request("taskClock", 10000)};
    struct cp_error err = {0};

    sim_fail(SYS_perf_event_open, 1, EPERM, true);
    cp__cost_set(0);
    CHECK_EQ(cp_sample_cost_ns(&err), 0);
    CHECK_EQ(err.code, -EPERM);
    CHECK_CONTAINS(err.message, "cannot be measured");
    CHECK_EQ(cp__cost_check(requests, 1, 0, NULL), 0);
    CHECK(sigprof_is(SIG_DFL));
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void check_allowed(const struct cp_slot_request *requests, size_t n, double running)
{
    struct cp_error err = {0};

    CHECKF(cp__cost_check(requests, n, running, &err) == 0, "%s", err.message);
}

static void check_refused(const struct cp_slot_request *requests, size_t n, double running, const char *says)
{
    struct cp_error err = {0};

    CHECK_EQ(cp__cost_check(requests, n, running, &err), -EINVAL);
    CHECK_EQ(err.code, -EINVAL);
    CHECK_CONTAINS(err.message, says);
    CHECK_CONTAINS(err.message, " 1000000 ns "); /* the cost in the message */
}

SIM_TEST(a_period_below_two_samples_is_refused)
{
    struct cp_slot_request slow = request("taskClock", 2 * COST_NS);
    struct cp_slot_request fast = request("cpuClock", 2 * COST_NS - 1);

    cp__cost_set(COST_NS);
    check_allowed(&slow, 1, 0);
    check_refused(&fast, 1, 0, "A sample of cpuClock every 1999999 may take more than half of a CPU");
    check_refused(&fast, 1, 0, "Take a period of 2000000 or more.");
}

SIM_TEST(all_events_count_together)
{
    struct cp_slot_request requests[] = {request("taskClock", 8 * COST_NS), request("timer", MS),
                                         request("cpuClock", 4 * COST_NS), request("cpuClock", 8 * COST_NS)};

    cp__cost_set(COST_NS);
    check_allowed(requests, ARRAY_SIZE(requests), 0);
    check_refused(requests, ARRAY_SIZE(requests), 1, "A sample of cpuClock every 4000000");
    check_refused(requests, ARRAY_SIZE(requests), 1e9 / (8 * COST_NS), "Take a period of 8000000 or more.");
    check_refused(requests, 1, 1e9 / (2 * COST_NS), "may take half of a CPU already");
}

SIM_TEST(cycles_count_by_the_highest_frequency)
{
    const double ns = 1e9 / (double)cp__os_highest_hz();
    struct cp_slot_request slow = request("cycles", (uint64_t)(2.01 * COST_NS / ns));
    struct cp_slot_request fast = request("instructions", (uint64_t)(1.99 * COST_NS / ns));
    struct cp_slot_request unknown = request("cacheMisses", 1000);

    CHECK(ns > 0.05 && ns < 10.1);
    cp__cost_set(COST_NS);
    check_allowed(&slow, 1, 0);
    check_refused(&fast, 1, 0, "A sample of instructions every ");
    check_allowed(&unknown, 1, 0);
}

/* ---- Starts ---------------------------------------------------------------------------------- */

/* A start counts the events that run, and not those that were stopped. A refused start leaves nothing
 * open. */
SIM_TEST(a_start_counts_what_runs)
{
    struct cp_slot_request requests[] = {request("taskClock", 4 * COST_NS)};
    struct cp_slot_request more[] = {request("timer", MS), request("cpuClock", 3 * COST_NS)};
    struct profile profile = {.n = 0};
    struct cp_error err = {0};
    int slots[2];

    cp__cost_set(COST_NS);
    CHECKF(cp_slots_start(requests, 1, slots, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_slots_start(more, 2, slots, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "with the events beside it");
    CHECK_CONTAINS(err.message, "Take a period of 4000000 or more.");
    CHECK_EQ(resources_now().perf_fds, 0);
    slots[0] = 0;
    cp_slots_stop(slots, 1);
    start_unread(&profile, more, 2);
    stop_profile(&profile);
    cp_slots_release(slots, 1);
    CHECK(sigprof_is(SIG_DFL));
}

/* ---- Events that cost too much --------------------------------------------------------------- */

/* A reader looks at what an M's samples cost after so much of its thread's CPU time. The first look only
 * notes how many samples there are. */
#define WINDOW (100 * MS)

/* The thread runs, and a reader passes by. */
static void run_and_read(struct puppet *puppet, struct profile *profile, uint64_t ns)
{
    run_puppet(puppet, burn_a, ns);
    read_profile(profile);
}

static unsigned overloaded(const struct profile *profile, size_t i)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    cp_slots_stats(profile->slots[i], &stats);
    return stats.ms_overloaded;
}

/* The cost is set so high that the samples of one event take longer than its period. That event is stopped,
 * and the thread's other event goes on. */
SIM_TEST(an_event_that_costs_over_half_of_the_time_is_stopped)
{
    struct cp_slot_request requests[] = {request("taskClock", MS), request("taskClock", 50 * MS)};
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_unread(&profile, requests, 2);
    cp__cost_set(10 * MS);
    start_puppet(&puppet);
    run_and_read(&puppet, &profile, WINDOW);
    run_and_read(&puppet, &profile, WINDOW - 1);
    CHECK_EQ(overloaded(&profile, 0), 0);
    run_and_read(&puppet, &profile, 1);
    CHECK_EQ(overloaded(&profile, 0), 1);
    run_and_read(&puppet, &profile, WINDOW);
    run_and_read(&puppet, &profile, WINDOW / 2);
    end_puppet(&puppet);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_overloaded, 1);
    CHECK_EQ(profile.stats[0].overloaded_ns, 150 * MS);
    CHECK_EQ(profile.stats[0].samples, 200);
    CHECK_EQ(profile.stats[0].count, 200 * MS);
    CHECK_EQ(profile.stats[1].ms_overloaded, 0);
    CHECK_EQ(profile.stats[1].overloaded_ns, 0);
    CHECK_EQ(profile.stats[1].samples, 7);
    CHECK_EQ(profile.stats[1].count, 350 * MS);
}

/* The samples of both events together cost three quarters of the time: the costlier one is stopped, and the
 * rest is a quarter. */
SIM_TEST(what_costs_half_of_the_time_goes_on)
{
    struct cp_slot_request requests[] = {request("cpuClock", 4 * MS), request("taskClock", 2 * MS)};
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_unread(&profile, requests, 2);
    cp__cost_set(MS);
    start_puppet(&puppet);
    for (int i = 0; i < 5; i++)
        run_and_read(&puppet, &profile, WINDOW);
    end_puppet(&puppet);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_overloaded, 0);
    CHECK_EQ(profile.stats[0].samples, 125);
    CHECK_EQ(profile.stats[1].ms_overloaded, 1);
    CHECK_EQ(profile.stats[1].samples, 100);
    CHECK_EQ(profile.stats[1].overloaded_ns, 300 * MS);
}

static void block_sigprof(uint64_t unused)
{
    (void)unused;
    cp__os_block_from_handler();
}

/* The thread blocks SIGPROF, so the test can make its handler look as if it never ended. The second look
 * finds the handler in the run in which the first one has found it, and the third one knows what the event
 * has counted meanwhile. */
SIM_TEST(events_are_stopped_if_the_handler_gets_no_time)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_unread(&profile, requests, 1);
    cp__cost_set(MS);
    start_puppet(&puppet);
    run_puppet(&puppet, block_sigprof, 0);
    cp_store_relaxed(&((struct cp__m *)puppet.worker.m)->runs, 1); /* relaxed: the handler does not run */
    run_and_read(&puppet, &profile, WINDOW);
    run_and_read(&puppet, &profile, WINDOW);
    run_and_read(&puppet, &profile, WINDOW - 1);
    CHECK_EQ(overloaded(&profile, 0), 0);
    run_and_read(&puppet, &profile, 1);
    CHECK_EQ(overloaded(&profile, 0), 1);
    run_and_read(&puppet, &profile, WINDOW);
    end_puppet(&puppet);
    stop_profile(&profile);
    check_told(&profile, 0, MS);
    CHECK_EQ(profile.stats[0].count, 300 * MS);
    CHECK_EQ(profile.stats[0].overloaded_ns, 100 * MS);
}

/* The M's own figures show that the handler takes most of the time. The test writes these figures, because
 * the thread blocks SIGPROF. The cost of a sample is unknown, so the event with the most samples is
 * stopped. */
SIM_TEST(an_event_is_stopped_if_the_cost_is_unknown)
{
    struct cp_slot_request requests[] = {request("taskClock", MS), request("cpuClock", MS)};
    struct profile profile = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;

    start_unread(&profile, requests, 2);
    cp__cost_set(0);
    start_puppet(&puppet);
    m = (struct cp__m *)puppet.worker.m;
    run_puppet(&puppet, block_sigprof, 0);
    run_and_read(&puppet, &profile, WINDOW);
    cp_add_single_writer(&m->stats[profile.slots[0]].interrupts, 1);
    cp_add_single_writer(&m->stats[profile.slots[1]].interrupts, 3);
    cp_add_single_writer(&m->handler_ns, WINDOW / 2);
    run_and_read(&puppet, &profile, WINDOW);
    CHECK_EQ(overloaded(&profile, 1), 0);
    cp_add_single_writer(&m->stats[profile.slots[0]].interrupts, 1);
    cp_add_single_writer(&m->stats[profile.slots[1]].interrupts, 3);
    cp_add_single_writer(&m->handler_ns, WINDOW / 2 + 1);
    run_and_read(&puppet, &profile, WINDOW);
    CHECK_EQ(overloaded(&profile, 0), 0);
    CHECK_EQ(overloaded(&profile, 1), 1);
    cp__cost_set(1);
    end_puppet(&puppet);
    stop_profile(&profile);
}

/* The profile has a comment about the stopped event, and a frame with the weight of the samples that the
 * event would have had. */
SIM_TEST(a_profile_tells_that_its_event_was_stopped)
{
    struct cp_memory memory = {.size = 0};
    struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "taskClock", MS);
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_session *session;
    struct cp_error err = {0};
    struct puppet puppet;
    char *text;

    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    cp__cost_set(10 * MS);
    start_puppet(&puppet);
    for (int passes = 0; stats.ms_overloaded == 0; passes++) {
        CHECK(passes < 1000);
        run_puppet(&puppet, burn_a, 10 * MS);
        sleep_ms(10); /* the session's reader passes by now and then */
        CHECK_EQ(cp_session_stats(session, 0, &stats), 0);
    }
    run_puppet(&puppet, burn_a, 10 * MS);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_session_write_text(session, 0, cp_writer_memory(&memory), &err), 0);
    text = calloc(1, memory.size + 1); /* strict sanitizers see strndup() look at what follows */
    memcpy(text, memory.data, memory.size);
    CHECK_CONTAINS(text, "# stopped: 1 # threads");
    CHECK_CONTAINS(text, "[stopped: samples took more than half of the time]");
    CHECK_CONTAINS(text, "stopped,stopped_ns"); /* the list of limits */
    end_puppet(&puppet);
    cp_session_close(session);
    free(memory.data);
    free(text);
}

static void switch_and_burn(uint64_t switches)
{
    SIM_SWITCH(switches);
    burn_a(WINDOW);
}

/* An event of an unknown rate at the start is stopped, too. */
SIM_TEST(an_event_of_an_unknown_rate_is_stopped)
{
    struct cp_slot_request requests[] = {request("contextSwitches", 1)};
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_unread(&profile, requests, 1);
    cp__cost_set(10 * MS);
    start_puppet(&puppet);
    for (int i = 0; i < 2; i++) { /* samples of half of the time */
        run_puppet(&puppet, switch_and_burn, 5);
        read_profile(&profile);
        CHECK_EQ(overloaded(&profile, 0), 0);
    }
    run_puppet(&puppet, switch_and_burn, 6);
    read_profile(&profile);
    CHECK_EQ(overloaded(&profile, 0), 1);
    run_puppet(&puppet, switch_and_burn, 7);
    end_puppet(&puppet);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_overloaded, 1);
    CHECK_EQ(profile.stats[0].samples, 16);
    CHECK_EQ(profile.stats[0].overloaded_ns, WINDOW);
}

/* A sample takes longer than the period, so the thread does not come forward until another one stops the
 * event. */
SIM_TEST(a_stop_ends_an_event_that_leaves_its_thread_no_time)
{
    struct cp_slot_request requests[] = {request("taskClock", 20000)};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = body_a};
    uint64_t ns = MS;

    worker.arg = &ns;
    start_unread(&profile, requests, 1);
    sim->cost_ns = 30000;
    CHECK_EQ(pthread_create(&worker.thread, NULL, run_worker, &worker), 0);
    for (int naps = 0; sampled(profile.slots[0]) < 200; naps++) { /* of the 50 that the thread's work has */
        CHECK(naps < ENOUGH_NAPS);
        usleep(NAP_US);
    }
    cp_slots_stop(profile.slots, 1);
    join_worker(&worker);
    CHECK(worker.cpu >= 200 * sim->cost_ns);
    CHECK(sigprof_is(SIG_DFL));
    cp_slots_release(profile.slots, 1);
}

/* No machine has time for eight clocks of 10 us. The thread runs only because the kernel throttles the events
 * and the reader disables them. */
CP_TEST(a_stop_ends_what_leaves_its_thread_no_time)
{
    struct cp_slot_request requests[CP_EV_MAX];
    struct cp_error err = {0};
    struct worker worker;
    int slots[CP_EV_MAX];
    uint64_t start;

    if (!test_is_emulated())
        SKIP("eight clocks of 10 us may take a CPU for as long as the machine runs: see make test-vm");
    for (int i = 0; i < CP_EV_MAX; i++)
        requests[i] = request(i % 2 == 0 ? "taskClock" : "cpuClock", 10000);
    start_worker(&worker, body_execute, NULL);
    cp__cost_set(1);
    if (cp_slots_start(requests, CP_EV_MAX, slots, &err) < 0)
        SKIP("%s", err.message);
    for (struct cp_slot_stats stats = {.size = sizeof stats}; stats.ms == 0; usleep(NAP_US))
        cp_slots_stats(slots[0], &stats);
    start = wall_ns();
    cp_slots_stop(slots, CP_EV_MAX);
    printf("the stop took %.1f ms\n", (double)(wall_ns() - start) / 1e6);
    stop_worker(&worker); /* the worker must get to notice the stop */
    cp_slots_release(slots, CP_EV_MAX);
    CHECK(sigprof_is(SIG_DFL));
}
