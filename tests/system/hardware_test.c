/* Samples of hardware events: each period of each event is a sample, of the function, the thread and the G
 * that ran. tests/live/pmu_test.c asks a real PMU. */
#include <sys/wait.h>

#include "sched.h"
#include "tests/support/burn.h"

/* In events, of which a simulated PMU counts one each ns. */
#define PERIOD MS

static struct cp_slot_request by(enum cp_engine engine, const char *event, uint64_t period)
{
    struct cp_slot_request made = request(event, period);

    made.config.engine = engine;
    return made;
}

/* Starts events, and lets CPU time pass while the library tries whether they count. */
static void start_tried(struct profile *profile, const struct cp_slot_request *requests, size_t n)
{
    sim->pmu.is_there = true;
    sim->clock_ns = 1000;
    start_profile(profile, requests, n);
    sim->clock_ns = 0;
}

static void run_profiled(struct profile *profile, const struct cp_slot_request *requests, size_t n,
                         void (*body)(struct worker *), uint64_t ns)
{
    struct worker worker;

    start_tried(profile, requests, n);
    run_attached(&worker, body, &ns);
    stop_profile(profile);
}

/* Checks that a slot has so many samples, in the functions themselves, and that nothing else is told of. */
static void check_samples(const struct profile *profile, size_t i, uint64_t in_a, uint64_t in_b)
{
    const struct cp_slot_stats *stats = &profile->stats[i];

    CHECK_EQ(profile->seen[i].leaf[IN_A], in_a);
    CHECK_EQ(profile->seen[i].leaf[IN_B], in_b);
    CHECK_EQ(profile->seen[i].weight, in_a + in_b);
    CHECK_EQ(stats->samples, in_a + in_b);
    CHECK_EQ(stats->lost + stats->dropped + stats->foreign + stats->ms_refused + stats->ms_ringless, 0);
    CHECK_EQ(stats->overruns + stats->truncated + stats->throttled + stats->stalled, 0);
}

/* ---- One event ------------------------------------------------------------------------------- */

static void body_a_then_b(struct worker *worker)
{
    burn_a(*(const uint64_t *)worker->arg);
    burn_b(3 * *(const uint64_t *)worker->arg);
}

SIM_TEST(cycles_are_shared_by_functions_as_their_time_is)
{
    for (enum cp_engine engine = CP_ENGINE_TRAP; engine <= CP_ENGINE_SIGNAL; engine++) {
        struct cp_slot_request cycles = by(engine, "cycles", PERIOD);
        struct profile profile = {.n = 0};

        run_profiled(&profile, &cycles, 1, body_a_then_b, 50 * MS);
        check_samples(&profile, 0, 50, 150);
        CHECK_EQ(profile.stats[0].engine, engine);
        CHECK_EQ(profile.stats[0].signals, 200);
        CHECK_EQ(profile.stats[0].late, 0);
        CHECK_EQ(profile.stats[0].count, 200 * MS);
        CHECK_EQ(profile.stats[0].time_running, 200 * MS);
        CHECK_EQ(profile.stats[0].ms, 1);
    }
}

SIM_TEST(cycles_belong_to_the_thread_that_spent_them)
{
    struct cp_slot_request cycles = request("cycles", PERIOD);
    struct profile profile = {.n = 0};
    struct worker workers[2];
    uint64_t ns = 50 * MS, other_ns = 70 * MS;

    start_tried(&profile, &cycles, 1);
    start_worker(&workers[0], body_a, &ns);
    start_worker(&workers[1], body_b, &other_ns);
    join_worker(&workers[0]);
    join_worker(&workers[1]);
    stop_profile(&profile);
    check_samples(&profile, 0, 50, 70);
    CHECK_EQ(profile.stats[0].ms, 2);
}

/* ---- Several events -------------------------------------------------------------------------- */

SIM_TEST(two_events_with_periods_that_do_not_meet_are_both_whole)
{
    for (enum cp_engine engine = CP_ENGINE_TRAP; engine <= CP_ENGINE_SIGNAL; engine++) {
        struct cp_slot_request requests[] = {by(engine, "cycles", 1000004),
                                             by(engine, "instructions", 700002)};
        struct profile profile = {.n = 0};

        run_profiled(&profile, requests, 2, body_a, 200 * MS);
        check_samples(&profile, 0, 200 * MS / 1000004, 0);
        check_samples(&profile, 1, 200 * MS / 700002, 0);
    }
}

/* The second counter overflows while the handler works for the first one. */
SIM_TEST(two_events_of_one_period_are_both_whole)
{
    for (enum cp_engine engine = CP_ENGINE_TRAP; engine <= CP_ENGINE_SIGNAL; engine++) {
        struct cp_slot_request requests[] = {by(engine, "cycles", PERIOD),
                                             by(engine, "instructions", PERIOD)};
        struct profile profile = {.n = 0};

        run_profiled(&profile, requests, 2, body_a, 100 * MS);
        check_samples(&profile, 0, 100, 0);
        check_samples(&profile, 1, 100, 0);
    }
}

/* In each tick, three of eight events have a counter. In eight ticks, each has had one for three. */
SIM_TEST(more_events_than_counters_take_turns_and_say_so)
{
    const uint64_t ns = 10 * CP_EV_MAX * 4 * MS, running = ns / CP_EV_MAX * 3;
    struct cp_slot_request requests[CP_EV_MAX];
    struct profile profile = {.n = 0};

    sim->pmu.counters = 3;
    for (size_t i = 0; i < CP_EV_MAX; i++)
        requests[i] = request("cycles", PERIOD + 2 * i);
    run_profiled(&profile, requests, CP_EV_MAX, body_a, ns);
    for (size_t i = 0; i < CP_EV_MAX; i++) {
        CHECK_EQ(profile.stats[i].time_enabled, ns);
        CHECK_EQ(profile.stats[i].time_running, running);
        CHECK_EQ(profile.stats[i].count, running);
        check_samples(&profile, i, running / (PERIOD + 2 * i), 0);
    }
}

/* ---- Signals --------------------------------------------------------------------------------- */

static void block_sigprof(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(how, &set, NULL);
}

static void body_blocks_sometimes(struct worker *worker)
{
    for (int i = 0; i < 10; i++) {
        burn_a(*(const uint64_t *)worker->arg);
        block_sigprof(SIG_BLOCK);
        burn_b(*(const uint64_t *)worker->arg);
        block_sigprof(SIG_UNBLOCK);
    }
}

/* While SIGPROF is blocked, ten records wait for one signal, and none of them has a stack of its own. */
SIM_TEST(one_signal_brings_all_records_that_waited)
{
    struct cp_slot_request cycles = by(CP_ENGINE_SIGNAL, "cycles", PERIOD);
    struct profile profile = {.n = 0};

    run_profiled(&profile, &cycles, 1, body_blocks_sometimes, 10 * MS);
    check_samples(&profile, 0, 100, 100);
    CHECK_EQ(profile.stats[0].late, 100);
    CHECK_EQ(profile.stats[0].signals, 10 * 10 + 10);
}

/* The next start may get the descriptors of the last one. A signal that is still coming must not be taken for
 * one of the new events, and not for somebody else's. */
SIM_TEST(starts_and_stops_leave_no_signal_behind)
{
    struct cp_slot_request requests[] = {by(CP_ENGINE_SIGNAL, "cycles", 20000),
                                         by(CP_ENGINE_SIGNAL, "instructions", 30000)};
    struct worker worker = {.body = NULL};

    attach(&worker);
    for (int i = 0; i < 30; i++) {
        struct profile profile = {.n = 0};

        start_tried(&profile, requests, 2);
        block_sigprof(SIG_UNBLOCK);
        burn_a(600000);
        block_sigprof(SIG_BLOCK);
        burn_b(60000);
        stop_profile(&profile); /* with a signal pending */
        check_samples(&profile, 0, 30, 3);
        check_samples(&profile, 1, 20, 2);
        CHECK_EQ(profile.stats[0].signals, 31);
        CHECK_EQ(profile.stats[1].signals, 21);
    }
    cp_m_detach(worker.m);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

SIM_TEST(a_childs_end_does_not_stop_its_parents_counters)
{
    struct cp_slot_request cycles = request("cycles", PERIOD);
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    attach(&worker);
    start_tried(&profile, &cycles, 1);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            burn_b(5 * MS);
            _exit(0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
        burn_a(5 * MS);
    }
    stop_profile(&profile);
    cp_m_detach(worker.m);
    check_samples(&profile, 0, 50, 0);
}

/* ---- Which G a sample belongs to ------------------------------------------------------------- */

#define GS 300
#define ROUNDS 10

struct crowd {
    uint64_t id[GS];
    unsigned samples[GS];
    unsigned next;
};

static struct crowd crowd;

/* Each G runs for one period in each round, so that each round is one sample. */
static void member(void *unused)
{
    unsigned i = cp_fetch_add_relaxed(&crowd.next, 1u); /* relaxed: each call gets another number */
    char name[16];

    (void)unused;
    snprintf(name, sizeof name, "%u", i);
    CHECK_EQ(cp_label_set("member", name), 0);
    crowd.id[i] = cp_g_self()->id;
    for (int round = 0; round < ROUNDS; round++) {
        burn_a(PERIOD);
        cp_yield(); /* and goes on with another M, maybe */
    }
}

static void start_crowd(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < GS; i++)
        CHECK_EQ(cp_go(member, NULL), 0);
}

static void note_owner(void *context, const struct cp_sample *sample)
{
    unsigned i;

    (void)context;
    CHECK_EQ(cp_labels_count(sample->labels), 1);
    i = (unsigned)strtoul(cp_labels_value(sample->labels, 0), NULL, 10);
    CHECK(i < GS);
    CHECK_EQ(sample->g_id, crowd.id[i]);
    crowd.samples[i] += (unsigned)sample->weight;
}

SIM_TEST(each_g_has_the_samples_of_its_own_cycles)
{
    struct cp_slot_request cycles = request("cycles", PERIOD);
    struct cp_sched_options four = {.size = sizeof four, .threads = 4};
    struct profile profile = {.look = note_owner};
    struct cp_error err = {0};

    start_tried(&profile, &cycles, 1);
    CHECKF(cp_sched_run(&four, start_crowd, NULL, &err) == 0, "%s", err.message);
    stop_profile(&profile);
    check_samples(&profile, 0, GS * ROUNDS, 0);
    CHECK_EQ(profile.stats[0].signals, GS * ROUNDS);
    for (unsigned i = 0; i < GS; i++)
        CHECK_EQ(crowd.samples[i], ROUNDS);
}
