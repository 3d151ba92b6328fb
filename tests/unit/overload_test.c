/* Events whose samples leave a thread next to no time are stopped while they run: runtime/overload.c. */
#include "tests/support/burn.h"
#include "tests/support/puppet.h"
#include "tests/support/resources.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "pprof.h"
#include "runtime/base/os.h"
#include "runtime/cost.h"
#include "runtime/m.h"
#include "runtime/overload.h"

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

/* By the cost that is set, the samples of one event take nearly all of the time. That event is stopped when
 * it has done so in two windows, and the thread's other event goes on. */
SIM_TEST(an_event_that_leaves_its_thread_no_time_is_stopped)
{
    struct cp_slot_request requests[] = {request("taskClock", MS), request("taskClock", 50 * MS)};
    struct profile profile = {.n = 0};
    struct puppet puppet;

    start_unread(&profile, requests, 2);
    cp__cost_set(MS * 95 / 100);
    start_puppet(&puppet);
    run_and_read(&puppet, &profile, WINDOW);
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
    CHECK_EQ(profile.stats[0].samples, 300);
    CHECK_EQ(profile.stats[0].count, 300 * MS);
    CHECK_EQ(profile.stats[1].ms_overloaded, 0);
    CHECK_EQ(profile.stats[1].overloaded_ns, 0);
    CHECK_EQ(profile.stats[1].samples, 9);
    CHECK_EQ(profile.stats[1].count, 450 * MS);
}

/* Runs a thread under clocks of 4 and 2 ms, which together take 75 samples in a window, for six windows. */
static void run_two_clocks(struct profile *profile, uint64_t cost)
{
    struct cp_slot_request requests[] = {request("cpuClock", 4 * MS), request("taskClock", 2 * MS)};
    struct puppet puppet;

    start_unread(profile, requests, 2);
    cp__cost_set(cost);
    start_puppet(&puppet);
    for (int i = 0; i < 6; i++)
        run_and_read(&puppet, profile, WINDOW);
    end_puppet(&puppet);
    stop_profile(profile);
}

/* The samples of both events together cost nine tenths of the time, and nothing is stopped. */
SIM_TEST(what_leaves_its_thread_a_tenth_goes_on)
{
    struct profile profile = {.n = 0};

    run_two_clocks(&profile, MS * 12 / 10);
    CHECK_EQ(profile.stats[0].samples + profile.stats[1].samples, 150 + 300);
    CHECK_EQ(profile.stats[0].ms_overloaded + profile.stats[1].ms_overloaded, 0);
}

/* A little more, and the costlier event is stopped. What the other one costs is a third of the time. */
SIM_TEST(the_costliest_event_is_stopped)
{
    struct profile profile = {.n = 0};

    run_two_clocks(&profile, MS * 13 / 10);
    CHECK_EQ(profile.stats[0].ms_overloaded, 0);
    CHECK_EQ(profile.stats[0].samples, 150);
    CHECK_EQ(profile.stats[1].ms_overloaded, 1);
    CHECK_EQ(profile.stats[1].samples, 150);
    CHECK_EQ(profile.stats[1].overloaded_ns, 300 * MS);
}

/* One window alone may be that of a busy machine. */
SIM_TEST(one_window_stops_nothing)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    struct profile profile = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;

    start_unread(&profile, requests, 1);
    start_puppet(&puppet);
    m = (struct cp__m *)puppet.worker.m;
    for (int i = 0; i < 6; i++) {
        run_and_read(&puppet, &profile, WINDOW);
        if (i % 2 == 0)
            cp_add_single_writer(&m->handler_ns, WINDOW);
    }
    CHECK_EQ(overloaded(&profile, 0), 0);
    end_puppet(&puppet);
    stop_profile(&profile);
}

static void block_sigprof(uint64_t unused)
{
    (void)unused;
    cp__os_hold_samples();
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
    cp__cost_set(MS / 10);
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

/* A clock of 20 us whose samples take 27: one of three has two periods. */
SIM_TEST(records_without_breaks_tell_that_a_clock_leaves_no_time)
{
    CHECK(cp__overload_has_no_breaks_from_handler(300, 100, 300 * 27000));
    CHECK(!cp__overload_has_no_breaks_from_handler(300, 75, 300 * 25000)); /* these came in time */
    CHECK(!cp__overload_has_no_breaks_from_handler(300, 100, 300 * MS));   /* few long gaps */
    CHECK(!cp__overload_has_no_breaks_from_handler(3, 3, 3 * 27000));      /* too few */
}

/* The M's own figures show that the handler takes nearly all of the time. The test writes these figures,
 * because the thread blocks SIGPROF. The cost of a sample is unknown, so the event with the most samples is
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
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ(overloaded(&profile, 1), 0);
        cp_add_single_writer(&m->stats[profile.slots[0]].interrupts, 1);
        cp_add_single_writer(&m->stats[profile.slots[1]].interrupts, 3);
        cp_add_single_writer(&m->handler_ns, WINDOW - WINDOW / 10 + i / 2); /* too much from i = 2 on */
        run_and_read(&puppet, &profile, WINDOW);
    }
    CHECK_EQ(overloaded(&profile, 0), 0);
    CHECK_EQ(overloaded(&profile, 1), 1);
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
    cp__cost_set(MS * 95 / 100);
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
    CHECK_CONTAINS(text, "[stopped: samples left the thread no time]");
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

/* Context switches happen only if the thread goes on, and their samples need no interrupt of a timer, so the
 * measured cost says nothing about them. The time in the handler does. */
SIM_TEST(an_event_of_the_programs_own_doing_is_judged_by_the_handlers_time)
{
    struct cp_slot_request requests[] = {request("contextSwitches", 1)};
    struct profile profile = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;

    start_unread(&profile, requests, 1);
    cp__cost_set(1000 * MS);
    start_puppet(&puppet);
    m = (struct cp__m *)puppet.worker.m;
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(overloaded(&profile, 0), 0);
        run_puppet(&puppet, switch_and_burn, 5);
        if (i >= 4)
            cp_add_single_writer(&m->handler_ns, WINDOW);
        read_profile(&profile);
    }
    CHECK_EQ(overloaded(&profile, 0), 1);
    run_puppet(&puppet, switch_and_burn, 7);
    end_puppet(&puppet);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_overloaded, 1);
    CHECK_EQ(profile.stats[0].samples, 30);
    CHECK_EQ(profile.stats[0].overloaded_ns, WINDOW);
}

/* Looks at an M whose clock had n records in the last 200 ms, each of which stands for several periods. */
static bool has_no_breaks(uint64_t n)
{
    static struct cp__m m;

    m = (struct cp__m){.cpu_clock = CLOCK_MONOTONIC, .armed = 1};
    m.stats[0] = (struct cp__m_stats){.seq = 1, .interrupts = n, .multiples = n};
    m.window.seq[0] = 1;
    m.window.cpu_ns = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) - 200 * MS;
    cp__overload_look(&m, cp__os_clock_ns_from_handler(CLOCK_MONOTONIC));
    return m.window.was_too_much;
}

/* A kernel without timers of a high resolution looks at its clocks once a tick, which has many periods. */
CP_TEST(a_clock_of_ticks_leaves_its_thread_time)
{
    cp__cost_set(0);
    CHECK_EQ(cp__cost_known(), 0); /* else the records would be judged by the cost, too */
    CHECK(has_no_breaks(8000));
    CHECK(!has_no_breaks(50));
    CHECK(!has_no_breaks(200));
}

#define STEPS 3 /* so many looks at the event, the last of which finds that it stands */

static void *end_undetached(void *arg)
{
    struct worker *worker = arg;

    burn_a(MS);
    attach(worker);
    for (int step = 1; step <= STEPS; step++) {
        burn_a(20 * MS);
        cp_store_release(&worker->running, 1 + step); /* pairs with the acquire in await() */
        while (cp_load_acquire(&worker->stop) < step) /* pairs with the release in the test */
            usleep(NAP_US);
    }
    syscall(SYS_exit, 0); /* the C library does not hear of it */
    return NULL;
}

/* The event has reached its limit, and the reader knows since when it stands. The clock of a thread that has
 * ended is at 0. */
SIM_TEST(a_thread_that_ends_without_a_detach_misses_nothing_more)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    if (TEST_TSAN)
        SKIP("ThreadSanitizer must hear of the end of a thread");
    start_unread(&profile, requests, 1);
    cp__cost_set(10 * MS); /* the limit is five samples */
    CHECK_EQ(pthread_create(&worker.thread, NULL, end_undetached, &worker), 0);
    for (int step = 1; step <= STEPS; step++) {
        await(&worker.running, 1 + step); /* attach() has stored 1 */
        if (step < STEPS)
            read_profile(&profile);
        cp_store_release(&worker.stop, step); /* pairs with the acquire in end_undetached() */
    }
    CHECK_EQ(pthread_join(worker.thread, NULL), 0);
    for (int naps = 0; syscall(SYS_tgkill, getpid(), worker.tid, 0) == 0; naps++) { /* not quite gone yet */
        CHECK(naps < ENOUGH_NAPS);
        usleep(NAP_US);
    }
    read_profile(&profile);
    cp_slots_stats(profile.slots[0], &stats);
    CHECK(stats.overloaded_ns <= 60 * MS);
    cp_slots_stop(profile.slots, 1);
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
    CHECK(worker.cpu >= 200 * requests[0].config.period);
    CHECK(sigprof_is(SIG_DFL));
    cp_slots_release(profile.slots, 1);
}
