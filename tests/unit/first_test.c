/* An event's first period, which is drawn: that threads which are shorter than a period have their share of
 * the samples, and that each event gets its own period in time. */
#include "runtime/engine/perf_m_linux.h"
#include "tests/support/burn.h"

#include <linux/perf_event.h>

#include "runtime/cost.h"
#include "runtime/engine/first_linux.h"
#include "runtime/m.h"
#include "tests/support/inside.h"
#include "tests/support/stub_syscall.h"

#define PERIOD MS

static int periods_given;     /* atomic: how often an event was given another period */
static uint64_t giving_takes; /* ns of the thread's CPU time, each time */

static long stub_syscall(long number, const long a[6])
{
    if (number == SYS_ioctl && (unsigned long)a[1] == PERF_EVENT_IOC_PERIOD) {
        cp_fetch_add_relaxed(&periods_given, 1); /* relaxed: read after the threads have ended */
        if (giving_takes != 0)
            sim_happen((struct sim_run){SIM_TIME, giving_takes, 0});
    }
    return hand_on(number, a);
}

static struct cp_slot_request drawn_request(const char *event, enum cp_engine engine)
{
    struct cp_slot_request made = request(event, PERIOD);

    made.config.engine = engine;
    sim->draws = true;
    return made;
}

/* ---- Shares ---------------------------------------------------------------------------------- */

/* The bounds are five standard deviations from what is expected: one run of three million is outside of them.
 * */
static void check_share(uint64_t samples, double expected)
{
    double most = 5;

    while (most * most < 25 * expected)
        most++;
    CHECKF((double)samples >= expected - most && (double)samples <= expected + most, "%llu of %g +- %g",
           (unsigned long long)samples, expected, most);
}

static bool has_ring = true;

/* Runs threads one after the other, each for so many ns. Each has a sample with a chance of ns / PERIOD. */
static void check_threads(const char *event, enum cp_engine engine, int threads, uint64_t ns)
{
    struct profile profile = {.n = 0};
    struct cp_slot_request made;

    sim->pmu.is_there = true;
    sim->clock_ns = 1000; /* CPU time passes while the library tries whether a PMU counts */
    made = drawn_request(event, engine);
    start_profile(&profile, &made, 1);
    sim->clock_ns = 0;
    sim->ring_memory = has_ring ? UINT64_MAX : 0; /* a start without one would be refused */
    for (int i = 0; i < threads; i++) {
        struct worker worker;

        run_attached(&worker, body_a, &ns);
    }
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].count, (uint64_t)threads * ns);
    CHECK_EQ(profile.seen[0].leaf[IN_A], profile.seen[0].weight);
    CHECK_EQ(profile.stats[0].lost + profile.stats[0].dropped + profile.stats[0].overruns, 0);
    CHECK_EQ((uint64_t)periods_given, profile.stats[0].samples);
    check_share(profile.stats[0].samples, threads * ((double)ns / (double)PERIOD));
}

SIM_TEST(threads_of_half_a_period_have_half_a_sample_each)
{
    check_threads("taskClock", CP_ENGINE_SIGNAL, 1000, PERIOD / 2);
}

SIM_TEST(threads_of_a_tenth_of_a_period_have_a_tenth_of_a_sample_each)
{
    check_threads("taskClock", CP_ENGINE_TRAP, 2000, PERIOD / 10);
}

SIM_TEST(short_threads_have_their_share_of_a_pmus_samples)
{
    check_threads("cycles", CP_ENGINE_SIGNAL, 1000, PERIOD / 2);
}

/* Each kind of core has an event of its own. */
SIM_TEST(short_threads_have_their_share_on_each_kind_of_core)
{
    sim->pmu.kinds = 2;
    play_two_kinds_of_cores(SIM_PMU_TYPE + 1, SIM_PMU_TYPE + 2);
    check_threads("cycles", CP_ENGINE_SIGNAL, 1000, PERIOD / 2);
}

SIM_TEST(short_threads_have_their_share_without_a_ring)
{
    has_ring = false;
    check_threads("taskClock", CP_ENGINE_SIGNAL, 1000, PERIOD / 2);
}

static void *run_before_attach(void *arg)
{
    const uint64_t *ns = arg;
    struct cp_m *m;

    burn_b(ns[0]);
    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    burn_a(ns[1]);
    cp_m_detach(m);
    return NULL;
}

/* Runs threads that attach when they have run for `before`, and end `after` later. If it is taken, what they
 * ran before is sampled, too: in the attach. */
static void check_begun(const char *event, uint64_t before, uint64_t after, bool is_taken)
{
    enum { THREADS = 1000 };
    struct profile profile = {.n = 0};
    struct cp_slot_request made;
    uint64_t ns[] = {before, after};
    pthread_t thread;

    sim->pmu.is_there = true;
    sim->clock_ns = 1000;
    made = drawn_request(event, CP_ENGINE_SIGNAL);
    start_profile(&profile, &made, 1);
    sim->clock_ns = 0;
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&thread, NULL, run_before_attach, ns), 0);
        pthread_join(thread, NULL);
    }
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].count, THREADS * (after + (is_taken ? before : 0)));
    CHECK_EQ(profile.stats[0].unsampled + profile.stats[0].unarmed_ns, 0);
    CHECK_EQ(profile.stats[0].ms_ns, THREADS * (after + (is_taken ? before : 0)));
    check_share(profile.seen[0].leaf[IN_A], THREADS * ((double)after / (double)PERIOD));
    check_share(profile.stats[0].samples - profile.seen[0].leaf[IN_A],
                is_taken ? THREADS * ((double)before / (double)PERIOD) : 0);
}

SIM_TEST(what_a_thread_runs_before_it_attaches_has_its_share)
{
    check_begun("taskClock", PERIOD * 4 / 10, PERIOD * 2 / 10, true);
}

SIM_TEST(what_a_thread_runs_before_it_attaches_has_its_share_of_a_timers_ticks)
{
    check_begun("timer", PERIOD * 4 / 10, PERIOD * 2 / 10, true);
}

/* It is told as the time of a thread that is no M. */
SIM_TEST(a_thread_that_attaches_after_a_period_begins_with_its_attach)
{
    check_begun("taskClock", PERIOD, PERIOD * 2 / 10, false);
}

SIM_TEST(nobody_knows_in_which_mode_a_thread_was_before_the_attach)
{
    check_begun("taskClock:u", PERIOD * 4 / 10, PERIOD * 2 / 10, false);
}

SIM_TEST(nobody_knows_what_a_pmu_would_have_counted_before_the_attach)
{
    check_begun("cycles", PERIOD * 4 / 10, PERIOD * 2 / 10, false);
}

static void body_mostly_in_the_kernel(struct worker *worker)
{
    (void)worker;
    SIM_RUN_KERNEL(PERIOD / 2);
    burn_a(PERIOD / 4);
}

/* What was drawn ends in the kernel for half of the threads. */
SIM_TEST(time_in_a_kernel_that_is_excluded_is_nobodys_sample)
{
    enum { THREADS = 1000 };
    struct cp_slot_request made;
    struct profile profile = {.n = 0};

    sim->paranoid = 2;
    made = drawn_request("taskClock", CP_ENGINE_SIGNAL);
    start_profile(&profile, &made, 1);
    for (int i = 0; i < THREADS; i++) {
        struct worker worker;

        run_attached(&worker, body_mostly_in_the_kernel, NULL);
    }
    stop_profile(&profile);
    check_share(profile.stats[0].samples, THREADS / 4.0);
}

/* ---- The periods after the first one --------------------------------------------------------- */

/* What a thread's profile is checked by, after its body. */
struct spent {
    int slot;
    uint64_t phase;
    uint64_t ns;
    bool is_blocked;
    int given; /* periods_given, before the handler runs for the last time */
};

static void set_blocked(bool is_blocked)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(is_blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static void read_slot(int slot)
{
    struct profile_part part = {&(struct profile){.n = 0}, 0};

    cp_slots_read(slot, see, &part);
}

static void body_of_long_thread(struct worker *worker)
{
    struct spent *spent = worker->arg;
    const struct cp__m *m = (struct cp__m *)worker->m;

    spent->phase = cp__perf_of(m)->handles[spent->slot].periods.phase;
    set_blocked(spent->is_blocked);
    burn_a(spent->ns / 2);
    if (spent->is_blocked)
        read_slot(spent->slot);
    burn_a(spent->ns - spent->ns / 2);
    if (spent->is_blocked)
        read_slot(spent->slot);
    spent->given =
        cp_load_relaxed(&periods_given); /* relaxed: this thread, or the one that has waited for it */
    set_blocked(false);
}

/* After the first period, each is a whole one, and has one sample. */
SIM_TEST(a_long_thread_has_a_sample_of_each_period)
{
    static const enum cp_engine engines[] = {CP_ENGINE_SIGNAL, CP_ENGINE_TRAP};

    for (int i = 0; i < 20; i++) {
        struct cp_slot_request made = drawn_request("taskClock", engines[i % 2]);
        struct profile profile = {.n = 0};
        struct spent spent = {.ns = 10 * PERIOD + PERIOD / 3};
        struct worker worker;

        periods_given = 0;
        start_unread(&profile, &made, 1);
        spent.slot = profile.slots[0];
        run_attached(&worker, body_of_long_thread, &spent);
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].samples, (spent.phase + spent.ns) / PERIOD);
        CHECK_EQ(profile.stats[0].signals, profile.stats[0].samples);
        CHECK_EQ(profile.stats[0].lost + profile.stats[0].overruns + profile.stats[0].late, 0);
        CHECK_EQ(periods_given, 1);
    }
}

/* ---- Ends -------------------------------------------------------------------------------------- */

/* How a profile ends for a thread, whose last period is over before the clock's timer tells. */
enum end { THREAD_ENDS, THREAD_STOPS, OTHERS_STOP };

struct ending {
    struct profile *profile;
    enum end end;
    uint64_t until; /* how much the event has to count, with what its first period lacks */
    uint64_t ns;    /* so much at once; 0: until */
    uint64_t phase;
    int is_over;
};

static void body_ends(struct worker *worker)
{
    struct ending *ending = worker->arg;
    const struct cp__m *m = (struct cp__m *)worker->m;

    ending->phase = cp__perf_of(m)->handles[ending->profile->slots[0]].periods.phase;
    burn_a(ending->ns != 0 ? ending->ns : ending->until - ending->phase);
    if (ending->end == THREAD_STOPS)
        stop_profile(ending->profile);
    cp_store_release(&ending->is_over, 1); /* pairs with the acquire in await() */
    if (ending->end == OTHERS_STOP)
        await(&worker->stop, 1);
}

static void end_profile(struct profile *profile, struct ending *ending, enum end end)
{
    struct cp_slot_request made = drawn_request("taskClock", CP_ENGINE_SIGNAL);
    struct worker worker;

    ending->profile = profile;
    ending->end = end;
    start_unread(profile, &made, 1);
    start_worker(&worker, body_ends, ending);
    await(&ending->is_over, 1);
    if (end == OTHERS_STOP) {
        stop_profile(profile);
        stop_worker(&worker);
        return;
    }
    join_worker(&worker);
    if (end == THREAD_ENDS)
        stop_profile(profile);
}

/* The second period begins when the handler has given it, and no sample comes earlier than a period later. If
 * the thread ends in between, its own last period is a sample of where it is then. Nobody else knows that
 * place. */
SIM_TEST(a_period_that_begins_late_is_no_loss)
{
    giving_takes = PERIOD / 40;
    for (int i = 0; i < 30; i++) {
        const enum end end = (enum end)(i % 3);
        struct profile profile = {.n = 0};
        struct ending ending = {.until = 5 * PERIOD - PERIOD / 80};

        end_profile(&profile, &ending, end);
        CHECK_EQ(profile.stats[0].count, ending.until - ending.phase + giving_takes);
        CHECK_EQ(profile.stats[0].samples, end == OTHERS_STOP ? 4 : 5);
        CHECK_EQ(profile.seen[0].in[IN_A], 4);
        CHECK_EQ(profile.stats[0].unsampled + profile.stats[0].late + profile.stats[0].lost, 0);
    }
}

SIM_TEST(a_period_that_is_not_over_is_no_sample_of_the_end)
{
    giving_takes = PERIOD / 40;
    for (int i = 0; i < 20; i++) {
        struct profile profile = {.n = 0};
        struct ending ending = {.until = 5 * PERIOD - PERIOD / 40 - 1};

        end_profile(&profile, &ending, THREAD_ENDS);
        CHECK_EQ(profile.stats[0].samples, 4);
        CHECK_EQ(profile.stats[0].unsampled, 0);
    }
}

/* The clock has a sample of its first period, and counts on without any. */
static void body_outruns_its_clock(struct worker *worker)
{
    const struct ending *ending = worker->arg;
    const int fd = cp__perf_of((struct cp__m *)worker->m)->handles[ending->profile->slots[0]].events[0].fd;
    const uint64_t far = 1000000 * PERIOD;

    burn_a(PERIOD);
    CHECK_EQ(syscall(SYS_ioctl, fd, PERF_EVENT_IOC_PERIOD, &far), 0);
    burn_b(2 * PERIOD);
}

/* The timer of a clock is late by less than a period. */
SIM_TEST(periods_that_are_long_over_are_no_samples_of_the_end)
{
    for (int i = 0; i < 20; i++) {
        struct cp_slot_request made = drawn_request("taskClock", CP_ENGINE_SIGNAL);
        struct profile profile = {.n = 0};
        struct ending ending = {.profile = &profile};
        struct worker worker;

        start_unread(&profile, &made, 1);
        run_attached(&worker, body_outruns_its_clock, &ending);
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].samples, 1);
        CHECK_EQ(profile.stats[0].unsampled, 2);
    }
}

/* Half of the threads have a sample, although the event begins with a period that a thread can bear. */
SIM_TEST(a_first_period_that_is_longer_than_drawn_is_no_loss)
{
    for (int i = 0; i < 30; i++) {
        const enum end end = (enum end)(i % 3);
        struct profile profile = {.n = 0};
        struct ending ending = {.ns = PERIOD / 2 - PERIOD / 80};

        cp__cost_set(PERIOD / 4);
        end_profile(&profile, &ending, end);
        CHECK_EQ(profile.stats[0].count, ending.ns);
        CHECK_EQ(profile.stats[0].samples, end != OTHERS_STOP && ending.phase + ending.ns >= PERIOD);
        CHECK_EQ(profile.stats[0].unsampled + profile.stats[0].late + profile.stats[0].lost, 0);
    }
}

/* ---- Blocked signals --------------------------------------------------------------------------- */

/* The event overflows by its first period until a reader looks. Most of its records find the ring full, if
 * the first period is short. Each period has one sample, or is told as lost. */
SIM_TEST(a_thread_that_blocks_the_signal_gets_its_period_from_outside)
{
    for (int i = 0; i < 20; i++) {
        struct cp_slot_request made = drawn_request("taskClock", CP_ENGINE_SIGNAL);
        struct profile profile = {.n = 0};
        struct spent spent = {.ns = 40 * PERIOD, .is_blocked = true};
        struct worker worker;
        uint64_t told;

        periods_given = 0;
        start_unread(&profile, &made, 1);
        spent.slot = profile.slots[0];
        run_attached(&worker, body_of_long_thread, &spent);
        stop_profile(&profile);
        told = profile.stats[0].samples + profile.stats[0].lost;
        CHECKF(told >= 39 && told <= 41, "%llu", (unsigned long long)told);
        CHECK_EQ(spent.given, 1);
    }
}

/* ---- What is asked for ----------------------------------------------------------------------- */

/* A software event that is given another period overflows at once. */
SIM_TEST(the_first_period_of_a_software_event_is_whole)
{
    struct worker worker = {.body = NULL};
    struct perf_event_attr attr;

    attach(&worker);
    for (int i = 0; i < 20; i++) {
        struct cp_slot_request made = drawn_request("contextSwitches", CP_ENGINE_TRAP);
        struct profile profile = {.n = 0};

        start_unread(&profile, &made, 1);
        for (int k = 0; k < CP__CORE_PMUS; k++)
            CHECK_EQ(cp__perf_of((struct cp__m *)worker.m)->handles[profile.slots[0]].events[k].first, 0);
        stop_profile(&profile);
        sim_opened(&attr);
    }
    CHECK_EQ(periods_given, 0);
    cp_m_detach(worker.m);
}

CP_TEST(an_event_is_opened_with_a_period_that_a_thread_can_bear)
{
    const struct cp__slot_config config = {.kind = CP_EVENT_CLOCK, .config = {.period = 10 * MS}};
    const uint64_t least = 2 * cp__cost_or_assumed_from_handler();
    struct cp__m m = {.random = 1};
    int n_short = 0;

    for (int i = 0; i < 10000; i++) {
        uint64_t drawn = cp__first_draw_from_handler(&m, &config);
        uint64_t first = cp__first_bearable_from_handler(drawn, config.kind, 10 * MS);

        CHECK(drawn >= 1 && drawn <= 10 * MS);
        CHECK_EQ(first, drawn > least ? drawn : least);
        n_short += drawn < least;
    }
    CHECK(n_short > 0);
    CHECK(cp__first_leaves_time_from_handler(4 * least, CP_EVENT_CLOCK));
    CHECK(!cp__first_leaves_time_from_handler(4 * least - 1, CP_EVENT_CLOCK));
    /* counted several times in a nanosecond; a fault may cause the next one */
    CHECK(!cp__first_leaves_time_from_handler(4 * least, CP_EVENT_HARDWARE));
    CHECK(!cp__first_leaves_time_from_handler(UINT64_MAX, CP_EVENT_SOFTWARE));
    cp__cost_set(10 * MS);
    /* and none that is longer than its own */
    CHECK_EQ(cp__first_bearable_from_handler(1, config.kind, 10 * MS), 10 * MS);
    m.is_of_library = true;
    CHECK_EQ(cp__first_draw_from_handler(&m, &config), 10 * MS);
}
