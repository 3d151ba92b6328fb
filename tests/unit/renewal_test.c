/* What is added to the limit of an event, and when; and what a reader makes of an event that has ended. The
 * test plays the part of the events themselves; the thread's CPU clock is the simulated kernel's. */
#include "runtime/engine/limits_linux.h"

#include <linux/perf_event.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/os.h"
#include "runtime/cost.h"
#include "runtime/ended.h"
#include "runtime/engine/engines.h"
#include "runtime/engine/perf_m_linux.h"
#include "runtime/perf/perf_linux.h"
#include "tests/support/stub_syscall.h"
#include "tests/support/test.h"

#define MS ((uint64_t)1000000)
#define COST_NS MS /* of a sample */
#define SLOT 3
#define LIMIT 10

/* ---- The kernel ------------------------------------------------------------------------------ */

#define FIRST_FD 4000 /* of the made events; no descriptor of the process has this number */
#define FIRST_ID 77

/* The events of an M, as the kernel has them. */
static struct {
    struct cp__count count;
    bool moves;     /* the event counts between two calls */
    unsigned reads; /* how often its count was asked for */
    unsigned refreshes;
    uint64_t added; /* to its limit */
    uint64_t period;
} events[2];

static long stub_syscall(long number, const long a[6])
{
    const long i = a[0] - FIRST_FD;

    if ((number != SYS_read && number != SYS_ioctl) || i < 0 || i > 1)
        return hand_on(number, a);
    if (number == SYS_read) {
        memcpy((void *)a[1], &events[i].count, sizeof events[i].count);
        events[i].count.time_enabled += events[i].moves;
        events[i].reads++;
        return sizeof events[i].count;
    }
    CHECK((unsigned long)a[1] == PERF_EVENT_IOC_REFRESH || (unsigned long)a[1] == PERF_EVENT_IOC_PERIOD ||
          (unsigned long)a[1] == PERF_EVENT_IOC_ID);
    if ((unsigned long)a[1] == PERF_EVENT_IOC_ID) {
        *(uint64_t *)a[2] = FIRST_ID + (uint64_t)i;
    } else if ((unsigned long)a[1] == PERF_EVENT_IOC_PERIOD) {
        memcpy(&events[i].period, (const void *)a[2], sizeof events[i].period);
    } else {
        events[i].refreshes++;
        events[i].added += (unsigned long)a[2];
    }
    return 0;
}

/* ---- The M ----------------------------------------------------------------------------------- */

static struct cp__m m;
static struct cp__perf_m perf;
static struct cp__perf_handle *const handle = &perf.handles[SLOT];

static uint64_t now(void)
{
    return cp__os_clock_ns_from_handler(m.cpu_clock);
}

/* Makes an M with n events, whose limits are whole at time 0. */
static void make_m(enum cp_event_kind kind, uint64_t period, int n)
{
    cp__perf_has_limits = cp__perf_has_lost_count = true;
    cp__cost_set(COST_NS);
    memset(events, 0, sizeof events);
    memset(&m, 0, sizeof m);
    m.cpu_clock = cp__os_thread_clock(cp__os_tid());
    m.armed = 1u << SLOT;
    m.stats[SLOT].seq = 1;
    m.stats[SLOT].may_starve = 1;
    m.stats[SLOT].armed_at = now();
    events[0].count.time_enabled = events[1].count.time_enabled = 5; /* it has just begun */
    m.own[CP__ENGINE_PERF].memory = &perf;
    m.handles[SLOT] = (struct cp__handle){
        .seq = 1,
        .engine = &cp__engine_perf,
        .kind = kind,
        .signal = SIGPROF,
        .is_open = true,
    };
    *handle = (struct cp__perf_handle){
        .seq = 1,
        .period = period,
        .events = {{.fd = FIRST_FD, .id = FIRST_ID}, {.fd = FIRST_FD + 1, .id = FIRST_ID + 1}},
        .n_events = n,
        .limit = LIMIT,
        .kind = kind};
}

/* Lets event number i have overflowed n times more by that time, as the M has heard. */
static void overflow(int i, uint64_t n, uint64_t time_enabled)
{
    cp__limits_take_from_handler(handle, i, n);
    events[i].count.time_enabled = time_enabled;
}

/* Returns what has been added to the limit of event number i since the last call. */
static uint64_t added_to(int i)
{
    uint64_t n = events[i].added;

    events[i].added = 0;
    return n;
}

/* Lets the handler look at the limits; returns what it has added to that of the first event. */
static uint64_t renew(void)
{
    cp__limits_renew_from_handler(&m);
    return added_to(0);
}

/* ---- The handler ----------------------------------------------------------------------------- */

SIM_TEST(events_begin_with_their_limit)
{
    make_m(CP_EVENT_HARDWARE, 1000, 2);
    SIM_RUN(77);
    CHECK_EQ(cp__limits_begin_from_handler(&m, SLOT), 0);
    CHECK_EQ(added_to(0), LIMIT);
    CHECK_EQ(added_to(1), LIMIT);
    CHECK_EQ(m.stats[SLOT].armed_at, now());
}

SIM_TEST(what_was_used_is_added_once)
{
    make_m(CP_EVENT_CLOCK, 2 * MS, 1);
    overflow(0, 4, 8 * MS);
    CHECK_EQ(renew(), 0); /* less than a half is used */
    overflow(0, 1, 10 * MS);
    CHECK_EQ(renew(), 5);
    CHECK_EQ(renew(), 0);
    overflow(0, 3, 20 * MS);
    m.stats[SLOT].counts[0].lost = events[0].count.lost = 2; /* these were overflows, too */
    CHECK_EQ(renew(), 5);
    CHECK_EQ(renew(), 0);
    CHECK_EQ(handle->events[0].renewed, 10);
}

/* A reader finds out first whether the thread can bear that. */
SIM_TEST(an_event_at_its_limit_is_not_renewed)
{
    make_m(CP_EVENT_CLOCK, 2 * MS, 1);
    overflow(0, LIMIT, 20 * MS);
    CHECK_EQ(renew(), 0);
    make_m(CP_EVENT_CLOCK, 2 * MS, 1);
    overflow(0, LIMIT - 1, 20 * MS);
    events[0].count.lost = 1; /* no record has told that yet */
    CHECK_EQ(renew(), 0);
}

/* At this period a clock's samples would take all of the time. The later ones came too late for that, and the
 * thread had less than half as much time again as they cost. */
SIM_TEST(progress_is_judged_since_the_last_renewal)
{
    make_m(CP_EVENT_CLOCK, COST_NS, 1);
    overflow(0, 5, 100 * MS);
    CHECK_EQ(renew(), 5);
    overflow(0, 5, 107 * MS);
    CHECK_EQ(renew(), 0);
    events[0].count.time_enabled = 108 * MS;
    CHECK_EQ(renew(), 5);
}

/* The other events of the thread took their time, too. */
SIM_TEST(progress_is_judged_by_all_events)
{
    make_m(CP_EVENT_HARDWARE, 1000, 1);
    m.armed |= 1u;
    perf.handles[0].kind = CP_EVENT_CLOCK;
    m.stats[SLOT].interrupts = 6;
    m.stats[0].interrupts = 4;
    overflow(0, 6, 14 * MS);
    CHECK_EQ(renew(), 0);
    events[0].count.time_enabled = 15 * MS;
    CHECK_EQ(renew(), 6);
    m.stats[SLOT].interrupts += 6;
    m.stats[0].interrupts += 100; /* a more frequent event is judged by itself */
    overflow(0, 6, (15 + 18) * MS);
    CHECK_EQ(renew(), 6);
    m.stats[SLOT].interrupts += 6; /* and from now on it is alone */
    overflow(0, 6, (15 + 18 + 10) * MS);
    CHECK_EQ(renew(), 6);
}

/* What other events did before an event began says nothing about it. */
SIM_TEST(progress_is_judged_since_an_event_began)
{
    make_m(CP_EVENT_HARDWARE, 1000, 1);
    m.armed |= 1u;
    perf.handles[0].kind = CP_EVENT_CLOCK;
    m.stats[0].interrupts = 100;
    CHECK_EQ(cp__limits_begin_from_handler(&m, SLOT), 0);
    added_to(0);
    m.stats[SLOT].interrupts = 6;
    overflow(0, 6, 10 * MS);
    CHECK_EQ(renew(), 6);
}

/* A clock that is sampled after two periods comes in time then, and not earlier. */
SIM_TEST(a_longer_period_is_in_time_when_it_is_over)
{
    make_m(CP_EVENT_CLOCK, COST_NS, 1);
    handle->stretch = 2;
    cp__cost_set(COST_NS * 3 / 2);
    overflow(0, 6, 12 * MS); /* by its samples alone, the thread would not have got on */
    CHECK_EQ(renew(), 6);
    m.stats[SLOT].counts[0].lost = events[0].count.lost = 8; /* records of throttling, in the time of three */
    overflow(0, 0, 18 * MS);
    CHECK_EQ(renew(), 4);
}

/* Of other events nobody knows when they should have come. */
SIM_TEST(progress_is_judged_by_all_samples)
{
    make_m(CP_EVENT_HARDWARE, 1000, 1);
    overflow(0, 6, 8 * MS);
    CHECK_EQ(renew(), 0);
    events[0].count.time_enabled = 9 * MS;
    CHECK_EQ(renew(), 6);
}

/* The kernel counts lost records of throttling as lost samples. */
SIM_TEST(a_clock_is_renewed_by_no_more_than_its_time_allows)
{
    make_m(CP_EVENT_CLOCK, 2 * MS, 1);
    overflow(0, 0, 6 * MS);
    m.stats[SLOT].counts[0].lost = events[0].count.lost = 8;
    CHECK_EQ(renew(), 4);
    CHECK_EQ(handle->events[0].renewed, 8);
}

SIM_TEST(nobody_renews_what_must_not_count)
{
    for (int i = 0; i < 3; i++) {
        make_m(CP_EVENT_CLOCK, 2 * MS, 1);
        overflow(0, 5, 10 * MS);
        m.is_of_library = i == 0;
        m.off = i == 1 ? 1u << SLOT : 0;
        perf.paused = i == 2 ? 1u << SLOT : 0;
        CHECK_EQ(renew(), 0);
        CHECK_EQ(events[0].refreshes, 0);
    }
}

/* ---- Without a ring -------------------------------------------------------------------------- */

/* Tells the handler that the first event has sent the signal of its last overflow; returns what was added. */
static uint64_t end_without_ring(bool moves, uint64_t time_enabled)
{
    make_m(CP_EVENT_CLOCK, COST_NS, 1);
    m.stats[SLOT].ringless = 1;
    CHECK(!cp__limits_are_used_up_from_handler(&m, SLOT));
    overflow(0, LIMIT - 1, time_enabled);
    CHECK(!cp__limits_are_used_up_from_handler(&m, SLOT));
    overflow(0, 1, time_enabled);
    CHECK(cp__limits_are_used_up_from_handler(&m, SLOT));
    events[0].count.lost = 2;
    events[0].moves = moves;
    CHECK_EQ(renew(), 0); /* that is for the signal to say */
    cp__limits_ended_from_handler(&m, SLOT, 0);
    CHECK_EQ(m.claim, CP__CLAIM_NONE);
    return added_to(0);
}

SIM_TEST(an_event_without_a_ring_begins_anew)
{
    CHECK_EQ(end_without_ring(false, 100 * MS), LIMIT);
    CHECK_EQ(handle->events[0].renewed, LIMIT + 2);
    CHECK_EQ(handle->events[0].renewed_at, 100 * MS);
    CHECK(!cp__limits_are_used_up_from_handler(&m, SLOT));
    CHECK_EQ(end_without_ring(true, 100 * MS), 0); /* a reader has let it count meanwhile */
    CHECK_EQ(end_without_ring(false, 14 * MS), 0); /* it left its thread no time */
}

/* ---- After a pause --------------------------------------------------------------------------- */

/* Resumes the event, of which `taken` overflows are known, in a time in which the thread got on or not;
 * returns what was added. If records may have been lost, the kernel is asked. */
static uint64_t resume(uint64_t taken, bool gets_on, unsigned refreshes)
{
    make_m(CP_EVENT_HARDWARE, 1000, 1);
    perf.ring.crowded = taken > 3;
    overflow(0, taken, gets_on ? 100 * MS : taken * COST_NS);
    m.stats[SLOT].counts[0].time_enabled = events[0].count.time_enabled;
    cp__limits_resume_from_handler(&m, SLOT);
    CHECK_EQ(events[0].refreshes, refreshes);
    return added_to(0);
}

SIM_TEST(a_paused_event_is_resumed_and_renewed_when_half_is_used)
{
    CHECK_EQ(resume(0, true, 1), 0);
    CHECK_EQ(events[0].reads, 1);
    CHECK_EQ(resume(1, true, 1), 0);
    CHECK_EQ(events[0].reads, 0);
    CHECK_EQ(resume(4, true, 1), 0);
    CHECK_EQ(events[0].reads, 1);
    CHECK_EQ(resume(5, true, 1), 5);
    CHECK_EQ(resume(5, false, 1), 0);
    CHECK_EQ(resume(LIMIT - 1, false, 1), 0);
    CHECK_EQ(resume(LIMIT, true, 0), 0); /* a limit that is used up stays used up */
}

/* If nothing tells what was lost, the limit could be used up. */
SIM_TEST(a_paused_event_is_resumed_with_one_more_if_its_losses_are_not_known)
{
    make_m(CP_EVENT_HARDWARE, 1000, 1);
    cp__perf_has_lost_count = false;
    overflow(0, 1, 100 * MS);
    cp__limits_resume_from_handler(&m, SLOT);
    CHECK_EQ(added_to(0), 0);
    overflow(0, 2, 200 * MS);
    perf.ring.crowded++;
    cp__limits_resume_from_handler(&m, SLOT);
    CHECK_EQ(added_to(0), 1);
    CHECK_EQ(events[0].refreshes, 2);
}

/* Lets event number i have used up its limit. */
static void use_up(int i)
{
    handle->events[i].taken = handle->events[i].renewed + handle->limit;
}

/* ---- A reader -------------------------------------------------------------------------------- */

static bool has_ended(void)
{
    struct cp__ending ending;

    return cp__limits_have_ended(&m, SLOT, &ending);
}

/* The thread runs on the first kind of core, and the event of the second kind has ended. */
SIM_TEST(each_event_may_end)
{
    make_m(CP_EVENT_HARDWARE, 1000, 2);
    events[0].moves = true;
    events[0].count.time_enabled = events[1].count.time_enabled = 50 * MS;
    CHECK(!has_ended());
    CHECK(has_ended());
    events[1].moves = true;
    CHECK(has_ended()); /* it had not counted up to this look */
    CHECK(!has_ended());
}

/* So a thread that gets no time again and again stands still for twice as long as the first time, all in
 * all. */
SIM_TEST(a_restart_with_a_longer_period_has_a_shorter_limit)
{
    static const uint32_t limits[] = {500, 250, 125, 125};

    make_m(CP_EVENT_HARDWARE, 1000, 1);
    handle->limit = 1000;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        uint64_t overflows = handle->events[0].renewed + handle->limit;

        use_up(0);
        events[0].count.time_enabled = handle->events[0].seen = overflows * COST_NS;
        cp__limits_restart(&m, SLOT);
        CHECK_EQ(added_to(0), limits[i]);
        CHECK_EQ(handle->limit, limits[i]);
        CHECK_EQ(handle->events[0].renewed, overflows);
    }
    use_up(0);
    events[0].count.time_enabled = handle->events[0].seen = 10000 * MS; /* the thread had its time */
    cp__limits_restart(&m, SLOT);
    CHECK_EQ(added_to(0), 125);
}

/* The figures are those of the event that has ended, and not of the last one. */
SIM_TEST(the_event_that_has_ended_is_told_and_judged)
{
    for (int ended = 0; ended < 2; ended++) {
        struct cp__ending ending = {.time_enabled = 0};

        make_m(CP_EVENT_HARDWARE, 1000, 2);
        use_up(ended);
        events[ended].count.time_enabled = LIMIT * COST_NS; /* it left its thread no time */
        events[!ended].count.time_enabled = 500 * MS;
        events[!ended].moves = true;
        CHECK(!cp__limits_have_ended(&m, SLOT, &ending));
        CHECK(cp__limits_have_ended(&m, SLOT, &ending));
        CHECK_EQ(ending.time_enabled, LIMIT * COST_NS);
        CHECK(!ending.is_disabled);
        added_to(0), added_to(1);
        cp__limits_restart(&m, SLOT);
        CHECK_EQ(added_to(ended), LIMIT);
        CHECK_EQ(added_to(!ended), 0);
        CHECK_EQ(handle->stretch, 2);
        use_up(ended);
        SIM_RUN(600 * MS);
        cp__limits_tell_end_from_handler(&m, SLOT, false);
        CHECK_EQ(m.stats[SLOT].stopped_ns, 600 * MS - LIMIT * COST_NS);
    }
}

SIM_TEST(a_reader_renews_for_a_thread_that_blocks_the_signal)
{
    make_m(CP_EVENT_CLOCK, 2 * MS, 1);
    events[0].count = (struct cp__count){.time_enabled = 10 * MS, .lost = 5};
    CHECK(!has_ended());
    CHECK_EQ(added_to(0), 5);
    CHECK_EQ(handle->events[0].renewed_at, 10 * MS);
}

/* Only the event that stands gets a new limit, whatever the other has used. Both get the longer period. */
SIM_TEST(an_event_that_left_no_time_is_restarted_with_a_longer_period)
{
    make_m(CP_EVENT_HARDWARE, 1000, 2);
    cp__perf_has_lost_count = false;
    for (uint64_t stretch = 2; stretch <= 2048; stretch *= 2) {
        events[0].count.time_enabled = handle->events[0].seen = stretch * 10 * MS;
        events[1].count.time_enabled = (handle->events[1].seen = stretch * 10 * MS) + 1;
        handle->events[0].renewed_at = handle->events[0].seen - LIMIT * COST_NS;
        use_up(0);
        cp__limits_restart(&m, SLOT);
        CHECK_EQ(added_to(0), LIMIT);
        CHECK_EQ(added_to(1), 0);
        CHECK_EQ(handle->stretch, stretch <= 1024 ? stretch : 1024);
        CHECK_EQ(events[0].period, 1000 * handle->stretch);
        CHECK_EQ(events[1].period, 1000 * handle->stretch);
    }
    make_m(CP_EVENT_HARDWARE, 1000, 1);
    use_up(0);
    events[0].count.time_enabled = handle->events[0].seen = 100 * MS; /* the thread had its time */
    cp__limits_restart(&m, SLOT);
    CHECK_EQ(added_to(0), LIMIT);
    CHECK_EQ(events[0].period, 0);
}

/* ---- What is told ---------------------------------------------------------------------------- */

SIM_TEST(an_end_is_told_at_the_close)
{
    for (int i = 0; i < 4; i++) {
        make_m(CP_EVENT_CLOCK, MS, 1);
        if (i != 2)
            use_up(0);
        events[0].count.time_enabled = 20 * MS;
        SIM_RUN((i == 3 ? 20 : 90) * MS +
                MS / 2); /* the CPU clock also has what the kernel's switches take */
        events[0].moves = i == 1;
        m.off = i == 2 ? 1u << SLOT : 0;
        cp__limits_tell_end_from_handler(&m, SLOT, false);
        CHECK_EQ(m.stats[SLOT].stops, i == 0);
        CHECK_EQ(m.stats[SLOT].stopped_ns, i == 0 ? 70 * MS + MS / 2 : 0);
    }
}

/* The handler that stops the slot has paused the event, or whoever stops it has disabled the event, which
 * therefore stands in any case. */
SIM_TEST(the_end_of_an_event_that_stands_anyway_is_told_at_the_close)
{
    for (int i = 0; i < 4; i++) {
        bool has_ended = i % 2 != 0;

        make_m(CP_EVENT_HARDWARE, 1000, 1);
        overflow(0, has_ended ? LIMIT : LIMIT - 1, 20 * MS);
        perf.paused = i < 2 ? 1u << SLOT : 0;
        m.off = i < 2 ? 0 : 1u << SLOT;
        SIM_RUN(90 * MS);
        cp__limits_tell_end_from_handler(&m, SLOT, false);
        CHECK_EQ(m.stats[SLOT].stops, has_ended);
        CHECK_EQ(m.stats[SLOT].stopped_ns, has_ended ? 70 * MS : 0);
        CHECK_EQ(m.stats[SLOT].disabled_ns, 0);
    }
}

/* Lets the thread run for so long, then looks at its events as a reader's pass does. */
static void pass(uint64_t ns)
{
    SIM_RUN(ns);
    cp__ended_look(&m, now());
}

/* The event has ended at 20 ms, and then again when it has counted for 10 ms more. */
SIM_TEST(what_an_event_has_missed_is_told_once)
{
    make_m(CP_EVENT_CLOCK, MS, 1);
    use_up(0);
    events[0].count.time_enabled = 20 * MS;
    for (int i = 0; i < 4; i++)
        pass(10 * MS);
    CHECK_EQ(m.stats[SLOT].stops, 1);
    CHECK_EQ(m.stats[SLOT].stopped_ns, 10 * MS); /* at 30 ms */
    CHECK_EQ(added_to(0), LIMIT);
    use_up(0);
    events[0].count.time_enabled = 30 * MS;
    m.stats[SLOT].interrupts = 10;
    for (int i = 0; i < 4; i++)
        pass(10 * MS);
    CHECK_EQ(m.stats[SLOT].stops, 2);
    CHECK_EQ(m.stats[SLOT].stopped_ns, 40 * MS); /* at 70 ms, when it had counted for 30 */
    CHECK_EQ(m.claim, CP__CLAIM_NONE);
}

/* The program has disabled the event at 20 ms, when it had used a little of its limit. It counts again up to
 * the rest, and its period stays. */
SIM_TEST(an_event_that_the_program_has_disabled_goes_on)
{
    make_m(CP_EVENT_CLOCK, MS, 1);
    handle->events[0].taken = LIMIT / 2;
    events[0].count.time_enabled = 20 * MS;
    for (int i = 0; i < 4; i++)
        pass(10 * MS);
    CHECK_EQ(m.stats[SLOT].stops, 0);
    CHECK_EQ(m.stats[SLOT].stopped_ns, 0);
    CHECK_EQ(m.stats[SLOT].disabled_ns, 20 * MS); /* as it still stands at 40 ms */
    CHECK(events[0].refreshes > 0);
    CHECK_EQ(added_to(0), LIMIT / 2); /* at the first look, when it might still count */
    CHECK_EQ(handle->stretch, 0);
    pass(5 * MS);
    cp__limits_tell_end_from_handler(&m, SLOT, false);
    CHECK_EQ(m.stats[SLOT].disabled_ns, 25 * MS);
}

/* The thread had 2 ms more than the event has counted: switches. While it sleeps, every event stands. */
SIM_TEST(an_event_whose_thread_sleeps_is_told_by_its_limit_alone)
{
    for (int i = 0; i < 3; i++) {
        make_m(CP_EVENT_CLOCK, MS, 1);
        overflow(0, i == 2 ? LIMIT : 1, 98 * MS);
        SIM_RUN(100 * MS);
        sim->clock_ns = i == 1; /* its thread runs, and its event does not count */
        cp__limits_tell_end_from_handler(&m, SLOT, true);
        CHECK_EQ(m.stats[SLOT].stops, i == 2);
        CHECK_EQ(m.stats[SLOT].disabled_ns / MS, i == 1 ? 2 : 0);
    }
}

/* A slot that starts again has no records at first, like the config before. */
SIM_TEST(the_event_of_a_new_config_is_looked_at)
{
    make_m(CP_EVENT_CLOCK, MS, 1);
    events[0].moves = true;
    for (int i = 0; i < 4; i++)
        pass(10 * MS);
    CHECK_EQ(m.stats[SLOT].stops, 0);
    m.stats[SLOT].seq = m.handles[SLOT].seq = handle->seq = 2;
    use_up(0);
    events[0].moves = false;
    for (int i = 0; i < 4; i++)
        pass(10 * MS);
    CHECK_EQ(m.stats[SLOT].stops, 1);
}

/* What the program itself causes has a limit that it does not reach. */
SIM_TEST(an_event_that_cannot_end_is_not_asked)
{
    make_m(CP_EVENT_SOFTWARE, MS, 1);
    m.stats[SLOT].may_starve = 0;
    for (int i = 0; i < 4; i++)
        pass(10 * MS);
    CHECK_EQ(events[0].reads, 0);
}

SIM_TEST(an_event_is_asked_as_seldom_as_that_tells_anything)
{
    make_m(CP_EVENT_CLOCK, MS, 1);
    events[0].moves = true;
    for (int i = 0; i < 100; i++)
        pass(MS / 10);
    CHECK_EQ(events[0].reads, 0);
    for (int i = 0; i < 100; i++)
        pass(MS / 10);
    CHECK_EQ(events[0].reads, 10);
    CHECK_EQ(m.stats[SLOT].stops, 0);
}

/* The handler has disabled the event for its own time. */
SIM_TEST(an_event_is_not_asked_while_the_handler_runs)
{
    make_m(CP_EVENT_HARDWARE, 1000, 1);
    m.runs = 1;
    for (int i = 0; i < 10; i++)
        pass(10 * MS);
    CHECK_EQ(events[0].reads, 0);
    m.runs = 2;
    use_up(0);
    for (int i = 0; i < 2; i++)
        pass(10 * MS);
    CHECK_EQ(m.stats[SLOT].stops, 1);
}
