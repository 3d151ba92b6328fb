/* What samples cost, and that samples take at most half of a CPU. */
#include "tests/support/burn.h"
#include "tests/support/refuse.h"

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

static void body_switches(struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) {
        burn_a(MS);
        usleep(100);
    }
}

/* ---- The cost -------------------------------------------------------------------------------- */

CP_TEST(the_cost_is_measured_once)
{
    struct cp_error err = {0};
    uint64_t cost;

    cp__cost_set(0);
    cost = cp_sample_cost_ns(&err);
    if (cost == 0)
        SKIP("%s", err.message);
    printf("a sample costs %llu ns\n", (unsigned long long)cost);
    CHECK_EQ(cp_sample_cost_ns(NULL), cost);
    CHECK(sigprof_is(SIG_DFL));
}

CP_TEST(an_unknown_cost_refuses_nothing)
{
    struct cp_slot_request requests[] = {request("taskClock", 10000)};
    struct cp_error err = {0};

    refuse_call(SYS_perf_event_open, EPERM);
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

CP_TEST(a_period_below_two_samples_is_refused)
{
    struct cp_slot_request slow = request("taskClock", 2 * COST_NS);
    struct cp_slot_request fast = request("cpuClock", 2 * COST_NS - 1);

    cp__cost_set(COST_NS);
    check_allowed(&slow, 1, 0);
    check_refused(&fast, 1, 0, "A sample of cpuClock every 1999999 may take more than half of a CPU");
    check_refused(&fast, 1, 0, "Take a period of 2000000 or more.");
}

CP_TEST(all_events_count_together)
{
    struct cp_slot_request requests[] = {request("taskClock", 8 * COST_NS), request("timer", MS),
                                         request("cpuClock", 4 * COST_NS), request("cpuClock", 8 * COST_NS)};

    cp__cost_set(COST_NS);
    check_allowed(requests, ARRAY_SIZE(requests), 0);
    check_refused(requests, ARRAY_SIZE(requests), 1, "A sample of cpuClock every 4000000");
    check_refused(requests, ARRAY_SIZE(requests), 1e9 / (8 * COST_NS), "Take a period of 8000000 or more.");
    check_refused(requests, 1, 1e9 / (2 * COST_NS), "may take half of a CPU already");
}

CP_TEST(cycles_count_by_the_highest_frequency)
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
CP_TEST(a_start_counts_what_runs)
{
    struct cp_slot_request requests[] = {request("taskClock", 4 * COST_NS)};
    struct cp_slot_request more[] = {request("timer", MS), request("cpuClock", 3 * COST_NS)};
    struct profile profile = {.n = 0};
    struct cp_error err = {0};
    int slots[2];

    cp__cost_set(COST_NS);
    if (cp_slots_start(requests, 1, slots, &err) < 0)
        SKIP("%s", err.message);
    CHECK_EQ(cp_slots_start(more, 2, slots, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "with the events beside it");
    CHECK_CONTAINS(err.message, "Take a period of 4000000 or more.");
    slots[0] = 0;
    cp_slots_stop(slots, 1);
    start_unread(&profile, more, 2);
    stop_profile(&profile);
    cp_slots_release(slots, 1);
    CHECK(sigprof_is(SIG_DFL));
}

/* ---- Events that cost too much --------------------------------------------------------------- */

static uint64_t cpu_of(const struct worker *worker)
{
    return cp__os_clock_ns_from_handler(cp__os_thread_clock(worker->tid));
}

/* Waits a moment for a reader's next pass. Fails if the thread has had 2 s of CPU time. */
static void wait_for_pass(const struct worker *worker, uint64_t start)
{
    usleep(1000);
    CHECK(cpu_of(worker) - start < 2000 * MS);
}

/* The cost is set so high that the samples of one event take longer than its period. That event is stopped,
 * and the thread's other event goes on. */
CP_TEST(an_event_that_costs_over_half_of_the_time_is_stopped)
{
    struct cp_slot_request requests[] = {request("taskClock", MS), request("taskClock", 50 * MS)};
    struct profile profile = {.n = 0};
    struct cp_slot_stats stats[2] = {{.size = sizeof stats[0]}, {.size = sizeof stats[0]}};
    struct worker worker;
    uint64_t start;

    start_worker(&worker, body_c, NULL);
    start_profile(&profile, requests, 2);
    start = cpu_of(&worker);
    cp__cost_set(10 * MS);
    do {
        wait_for_pass(&worker, start);
        cp_slots_stats(profile.slots[0], &stats[0]);
    } while (stats[0].ms_overloaded == 0);
    CHECK(stats[0].samples > 0);
    cp_slots_stats(profile.slots[1], &stats[1]);
    for (uint64_t before = stats[1].samples; stats[1].samples < before + 3;) {
        wait_for_pass(&worker, start);
        cp_slots_stats(profile.slots[1], &stats[1]);
    }
    stop_worker(&worker);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_overloaded, 1);
    CHECK(profile.stats[0].overloaded_ns >= 100 * MS);
    CHECK(profile.stats[0].samples >= stats[0].samples);
    CHECK(profile.stats[0].count < profile.stats[1].count);
    CHECK_EQ(profile.stats[1].ms_overloaded, 0);
    CHECK_EQ(profile.stats[1].overloaded_ns, 0);
}

static void body_blocks_sigprof(struct worker *worker)
{
    cp__os_block_from_handler();
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await() */
    burn_c(&worker->stop);
}

/* The thread blocks SIGPROF, so the test can make its handler look as if it never ended. */
CP_TEST(events_are_stopped_if_the_handler_gets_no_time)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    struct profile profile = {.n = 0};
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct worker worker;
    uint64_t start;

    start_profile(&profile, requests, 1);
    start_worker(&worker, body_blocks_sigprof, NULL);
    await(&worker.running, 2);
    start = cpu_of(&worker);
    cp_store_relaxed(&((struct cp__m *)worker.m)->runs, 1); /* relaxed: the handler does not run */
    do {
        wait_for_pass(&worker, start);
        cp_slots_stats(profile.slots[0], &stats);
    } while (stats.ms_overloaded == 0);
    stop_worker(&worker);
    stop_profile(&profile);
}

/* The M's own figures show that the handler takes most of the time. The test writes these figures, because
 * the thread blocks SIGPROF. The cost of a sample is unknown, so the event with the most samples is
 * stopped. */
CP_TEST(an_event_is_stopped_if_the_cost_is_unknown)
{
    struct cp_slot_request requests[] = {request("taskClock", MS), request("cpuClock", MS)};
    struct profile profile = {.n = 0};
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct worker worker;
    struct cp__m *m;
    uint64_t start;

    start_profile(&profile, requests, 2);
    start_worker(&worker, body_blocks_sigprof, NULL);
    await(&worker.running, 2);
    m = (struct cp__m *)worker.m;
    cp__cost_set(0);
    start = cpu_of(&worker);
    do {
        cp_add_single_writer(&m->stats[profile.slots[0]].interrupts, 1);
        cp_add_single_writer(&m->stats[profile.slots[1]].interrupts, 3);
        cp_add_single_writer(&m->handler_ns, 10 * MS);
        wait_for_pass(&worker, start);
        cp_slots_stats(profile.slots[1], &stats);
    } while (stats.ms_overloaded == 0);
    cp__cost_set(1);
    stop_worker(&worker);
    stop_profile(&profile);
}

/* The profile has a comment about the stopped event, and a frame with the weight of the samples that the
 * event would have had. */
CP_TEST(a_profile_tells_that_its_event_was_stopped)
{
    struct cp_memory memory = {.size = 0};
    struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "taskClock", MS);
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_session *session;
    struct cp_error err = {0};
    struct worker worker;
    uint64_t start;
    char *text;

    start_worker(&worker, body_c, NULL);
    if (cp_session_start(&session, &option, 1, &err) < 0)
        SKIP("%s", err.message);
    start = cpu_of(&worker);
    for (cp__cost_set(10 * MS); stats.ms_overloaded == 0; wait_for_pass(&worker, start))
        CHECK_EQ(cp_session_stats(session, 0, &stats), 0);
    for (start = cpu_of(&worker); cpu_of(&worker) - start < 10 * MS;)
        usleep(1000);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_session_write_text(session, 0, cp_writer_memory(&memory), &err), 0);
    text = calloc(1, memory.size + 1); /* strict sanitizers see strndup() look at what follows */
    memcpy(text, memory.data, memory.size);
    CHECK_CONTAINS(text, "# stopped: 1 # threads");
    CHECK_CONTAINS(text, "[stopped: samples took more than half of the time]");
    CHECK_CONTAINS(text, "stopped,stopped_ns"); /* the list of limits; a busy machine may have others, too */
    stop_worker(&worker);
    cp_session_close(session);
    free(memory.data);
    free(text);
}

/* An event whose rate is unknown at the start is stopped, too. */
CP_TEST(an_event_of_an_unknown_rate_is_stopped)
{
    struct cp_slot_request requests[] = {kernel_request("contextSwitches", 1)};
    struct profile profile = {.n = 0};
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct worker worker;
    uint64_t start;

    start_worker(&worker, body_switches, NULL);
    start_profile(&profile, requests, 1);
    start = cpu_of(&worker);
    cp__cost_set(1000 * MS);
    do {
        wait_for_pass(&worker, start);
        cp_slots_stats(profile.slots[0], &stats);
    } while (stats.ms_overloaded == 0);
    stop_worker(&worker);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_overloaded, 1);
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
    start = cpu_of(&worker);
    for (struct cp_slot_stats stats = {.size = sizeof stats}; stats.ms == 0; wait_for_pass(&worker, start))
        cp_slots_stats(slots[0], &stats);
    start = wall_ns();
    cp_slots_stop(slots, CP_EV_MAX);
    printf("the stop took %.1f ms\n", (double)(wall_ns() - start) / 1e6);
    stop_worker(&worker); /* the worker must get to notice the stop */
    cp_slots_release(slots, CP_EV_MAX);
    CHECK(sigprof_is(SIG_DFL));
}
