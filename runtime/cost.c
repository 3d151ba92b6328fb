#include "cost.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "configure.h"
#include "disposition.h"
#include "engine.h"
#include "m.h"
#include "moment.h"
#include "prepare.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/base/thread.h"
#include "runtime/event/rows.h"
#include "slot.h"

static uint64_t cost_ns; /* shared, atomic: 0 until it has been measured */
/* Shared, atomic: no measurement begins before this time of CLOCK_MONOTONIC, because the last one found no
 * cost. */
static uint64_t failed_until_ns;
static uint32_t is_measuring; /* shared, atomic: 1 while a thread measures */

uint64_t cp__cost_known(void)
{
    return cp_load_relaxed(&cost_ns); /* relaxed: nothing else depends on the number */
}

uint64_t cp__cost_or_assumed_from_handler(void)
{
    uint64_t ns = cp_load_relaxed(&cost_ns);

    return ns != 0 ? ns : CP_SAMPLE_COST_ASSUMED_NS;
}

/* Overflows that nobody hears of, on a thread that does nothing else, end after this time. It is a
 * compromise: no program should stand still for longer, and at the periods that people use it is seconds
 * of samples. */
#define STARVED_NS 400000000u
/* The least cost that the limit is reckoned by, because a measured figure may be too small. */
#define LEAST_COST_NS 5000

/* A limit that an event never reaches. The kernel adds up limits in an int. */
#define NEVER (1u << 30)

uint32_t cp__cost_limit_from_handler(enum cp_event_kind kind)
{
    uint64_t cost = cp__cost_or_assumed_from_handler();
    uint64_t limit = STARVED_NS / CP_EV_MAX / (cost > LEAST_COST_NS ? cost : LEAST_COST_NS);

    if (kind != CP_EVENT_CLOCK && kind != CP_EVENT_HARDWARE)
        return NEVER;
    return limit > 2 ? (uint32_t)limit : 2;
}

void cp__cost_set(uint64_t ns)
{
    cp_store_relaxed(&cost_ns, ns); /* relaxed, both: nothing else depends on the numbers */
    cp_store_relaxed(&failed_until_ns, 0);
}

void cp__cost_forget(void)
{
    cp_store_relaxed(&is_measuring, 0); /* relaxed: this is the only thread */
}

/* ---- Measuring ------------------------------------------------------------------------------- */

/*
 * A thread of the library's own does the same work with and without an event that interrupts it. The thread
 * is an M that is not in the registry. Its signals are handled as any other M's, up to the sample buffer,
 * which this M lacks. The M's claim stays taken, so the handler does not look at the slots for this M.
 */

/* The first plan has samples so far apart that the thread makes progress on any machine, for a rough figure.
 * The second plan's samples take a quarter of the CPU, so that many samples come in a short time. */
struct plan {
    uint64_t interval_ns;
    unsigned intervals; /* a round */
    unsigned rounds;
};
#define MOST_ROUNDS 20
#define MOST_TRIES 100 /* rounds, including those in which another thread had the CPU */
/* On a busy machine the thread waits for a CPU between its rounds. After SOON_NS a few rounds are enough, and
 * if even these take too long, the cost stays unknown. */
#define LEAST_ROUNDS 3
#define SOON_NS 50000000u
#define LATE_NS 300000000u
static const struct plan rough = {.interval_ns = 250000, .intervals = 2, .rounds = 4};
static const struct plan fine = {.interval_ns = 20000, .intervals = 8, .rounds = MOST_ROUNDS};

struct measurement {
    struct cp__m *m;
    uint64_t ns; /* the cost of a sample; 0: unknown */
    int result;
};

static void work_rounds(uint64_t rounds)
{
    for (volatile uint64_t i = 0; i < rounds;)
        i = i + 1;
}

/* Returns how long the work takes, or 0 if another thread had the CPU meanwhile, because the time says little
 * then. */
static uint64_t time_work(uint64_t rounds)
{
    uint64_t switches = cp__os_thread_switches();
    uint64_t start = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    uint64_t took;

    work_rounds(rounds);
    took = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) - start;
    return cp__os_thread_switches() == switches ? took : 0;
}

/* Returns how many rounds of work_rounds() take about ns. */
static uint64_t work_of(uint64_t ns)
{
    uint64_t rounds = 1000;
    uint64_t took = time_work(rounds);

    for (int tries = 0; took < ns / 8 && tries < MOST_TRIES; tries++) {
        rounds *= took == 0 ? 1 : 2;
        took = time_work(rounds);
    }
    if (took == 0)
        took = ns;
    return 1 + (uint64_t)((double)rounds * (double)ns / (double)took);
}

static uint64_t interrupts_so_far(const struct cp__m *m)
{
    return cp_load_relaxed(&m->stats[0].interrupts) + cp_load_relaxed(&m->stats[0].lost); /* of this thread */
}

static int arm_clock(struct cp__m *m, uint64_t interval)
{
    struct cp_slot_request request = {.event = CP_CPUPROF_SW_TASK_CLOCK, .config.period = interval};
    struct cp__slot_config config = {.kind = CP_EVENT_CLOCK};
    int result;

    cp__request_encode(&request);
    config.config = request.config;
    cp_store_relaxed(&m->armed, 1); /* relaxed: of this thread */
    m->stats[0].counts_time = 1;
    m->handles[0] = (struct cp__handle){.seq = 1, .fd = -1, .kind = CP_EVENT_CLOCK, .period = interval};
    result = cp__engine.open_from_handler(m, 0, &config);
    return result < 0 ? result : cp__engine.enable_from_handler(m, 0);
}

static void disarm(struct cp__m *m)
{
    struct cp__moment none;
    uint64_t mask = cp__os_block_from_handler();

    cp__moment_begin_from_handler(&none, NULL, CP__SINCE_HERE);
    cp__engine.close_from_handler(m, 0, &none);
    cp__engine.take_pending_from_handler(m, &none);
    m->handles[0].seq = 0;
    cp_store_relaxed(&m->armed, 0); /* relaxed: of this thread */
    cp__os_unblock_from_handler(mask);
}

struct round {
    uint64_t ns;
    uint64_t samples;
};

/* Does the work with samples. All of *round is 0 if another thread had the CPU meanwhile, or if a SIGPROF of
 * the program came; the handler has given such a signal back and left SIGPROF blocked. A fork waits until the
 * round has ended, because the child would not find the event's descriptor. */
static int time_sampled(struct cp__m *m, const struct plan *plan, uint64_t rounds, struct round *round)
{
    uint64_t before = interrupts_so_far(m);
    uint64_t foreign = m->foreign;
    int result;

    cp__os_unblock_from_handler(0);
    cp__fork_delay();
    result = arm_clock(m, plan->interval_ns);
    if (result == 0) {
        round->ns = time_work(rounds);
        disarm(m);
        if (m->foreign != foreign)
            round->ns = 0;
        round->samples = round->ns == 0 ? 0 : interrupts_so_far(m) - before;
    }
    cp__fork_allow();
    return result;
}

/* Does what ceil() does. A call of ceil() would need the mathematical library, which a program may not have
 * linked. */
static double round_up_period(double value)
{
    const double whole = value < 1e18 ? (double)(uint64_t)value : value;

    return whole < value ? whole + 1 : whole;
}

/* Returns the cost of a sample in ns: the least of several rounds, because anything else that happens on the
 * machine only adds to a round. Returns 0 if there were no samples. */
static uint64_t least_cost(const struct round *sampled, size_t n, uint64_t alone)
{
    double least = 0;

    for (size_t i = 0; i < n; i++) {
        double cost = ((double)sampled[i].ns - (double)alone) / (double)sampled[i].samples;

        if (cost > 0 && (least == 0 || cost < least))
            least = cost;
    }
    return (uint64_t)round_up_period(least);
}

/* Returns whether another round is needed after so many tries, of which n were good. */
static bool is_round_wanted(const struct plan *plan, unsigned n, unsigned tries, uint64_t start)
{
    uint64_t passed = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) - start;

    return n < plan->rounds && tries < MOST_TRIES && passed < (n < LEAST_ROUNDS ? LATE_NS : SOON_NS);
}

/* Takes turns with rounds with and without samples, so that both meet the machine at its quietest. */
static int measure_by(struct measurement *measurement, const struct plan *plan)
{
    uint64_t rounds = work_of(plan->intervals * plan->interval_ns);
    uint64_t alone = UINT64_MAX;
    struct round sampled[MOST_ROUNDS];
    uint64_t start = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    unsigned n = 0;

    for (unsigned i = 0; is_round_wanted(plan, n, i, start); i++) {
        uint64_t took = time_work(rounds);
        int result = time_sampled(measurement->m, plan, rounds, &sampled[n]);

        if (result < 0)
            return result;
        if (took != 0 && took < alone)
            alone = took;
        n += sampled[n].samples != 0;
    }
    measurement->ns = alone == UINT64_MAX || n < LEAST_ROUNDS ? 0 : least_cost(sampled, n, alone);
    return 0;
}

static int refine(struct measurement *measurement)
{
    struct plan plan = fine;

    if (4 * measurement->ns > plan.interval_ns)
        plan.interval_ns = 4 * measurement->ns;
    return measure_by(measurement, &plan);
}

static void *measure(void *arg)
{
    struct measurement *measurement = arg;
    struct cp__m *m = measurement->m;

    m->tid = cp__os_tid();
    m->cpu_clock = cp__os_thread_clock(m->tid);
    m->stack = cp__thread_stack();
    m->random = 1;
    m->claim = CP__CLAIM_SELF;
    m->is_of_library = true;
    cp_store_relaxed(&cp__m_current, m); /* relaxed: this thread and its handler only */
    cp_fence_signal();
    cp__os_unblock_from_handler(0);
    measurement->result = measure_by(measurement, &rough);
    if (measurement->result == 0 && measurement->ns != 0 && 4 * measurement->ns < rough.interval_ns)
        measurement->result = refine(measurement);
    cp__os_unblock_from_handler(0); /* gives back a signal of the program's that waits for this thread */
    cp__os_block_from_handler();
    cp_store_relaxed(&cp__m_current, NULL); /* relaxed: this thread and its handler only */
    return NULL;
}

static int measure_cost(uint64_t *ns, struct cp_error *err)
{
    struct measurement measurement = {.m = calloc(1, sizeof *measurement.m)};
    int result = measurement.m == NULL ? -ENOMEM : cp__disposition_hold(err);

    if (result == 0) {
        /* The thread blocks all signals, because the program's signals are for the program's threads. */
        result = cp__thread_run(measure, &measurement);
        if (result == 0)
            result = measurement.result;
        cp__disposition_drop();
    }
    free(measurement.m);
    *ns = result < 0 ? 0 : measurement.ns;
    return result;
}

/* ---- One after the other --------------------------------------------------------------------- */

/* A measurement takes at most 0.6 s, unless its thread gets no CPU. A wait must end, because the measuring
 * thread may itself wait for the thread that asks, if the program has a pthread_create() of its own. */
#define LONGEST_WAIT_NS 1000000000u
/* A measurement that fails has kept a CPU busy for up to 0.6 s. */
#define FAILURE_LASTS_NS 10000000000u

static bool has_failed(void)
{
    /* relaxed: nothing else depends on the number */
    return cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) < cp_load_relaxed(&failed_until_ns);
}

/* Waits for the turn to measure. Returns false if another thread has been measuring for too long. */
static bool begin_turn(void)
{
    uint64_t start = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    uint32_t nobody = 0;

    while (!cp_compare_exchange(&is_measuring, &nobody, 1u)) { /* pairs with the release in end_turn() */
        uint64_t passed = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) - start;

        if (passed >= LONGEST_WAIT_NS)
            return false;
        cp__os_futex_wait(&is_measuring, 1, (int)((LONGEST_WAIT_NS - passed) / 1000000u) + 1);
        nobody = 0;
    }
    return true;
}

static void end_turn(void)
{
    cp_store_release(&is_measuring, 0); /* pairs with the acquire in begin_turn() */
    cp__os_futex_wake_from_handler(&is_measuring);
}

/* Measures, unless another thread has measured while this thread waited for its turn. */
static int measure_in_turn(uint64_t *ns, struct cp_error *err)
{
    int result = 0;

    if (has_failed())
        return -ENODATA;
    if (!begin_turn())
        return -EBUSY;
    *ns = cp__cost_known();
    if (*ns == 0)
        result = has_failed() ? -ENODATA : measure_cost(ns, err);
    if (*ns != 0)
        cp__cost_set(*ns);
    else if (result == 0) /* relaxed: nothing else depends on the number */
        cp_store_relaxed(&failed_until_ns, cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + FAILURE_LASTS_NS);
    end_turn();
    return *ns == 0 && result == 0 ? -ENODATA : result;
}

static const char *why_not(int result)
{
    switch (result) {
    case -ENODATA:
        return "a taskClock has no samples, or no CPU was free for it in the last 10 s";
    case -EBUSY:
        return "another thread has been measuring it for more than a second";
    default:
        return strerror(-result);
    }
}

uint64_t cp_sample_cost_ns(struct cp_error *err)
{
    uint64_t ns = cp__cost_known();
    int cancel_state, result;

    if (ns != 0)
        return ns;
    cp__prepare();
    /* A thread that ended here would keep the turn for ever, and the measuring thread would write to its
     * stack. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    result = measure_in_turn(&ns, err);
    pthread_setcancelstate(cancel_state, NULL);
    if (result < 0)
        cp__error(err, result,
                  "What a sample costs cannot be measured here: %s. A taskClock of perf_event_open is needed "
                  "for it.",
                  why_not(result));
    return ns;
}

/* ---- How much of a CPU a start may take ------------------------------------------------------ */

#define MOST 0.5 /* the share of a CPU that samples may take */

/* Returns whether the event may happen in every cycle of the processor, as instructions and cycles of any
 * kind do. How often other events happen is unknown before the program runs. */
static bool is_cycle_like(enum cp_cpu_event event, const struct cp__event *row)
{
    return event == CP_CPUPROF_HW_CPU_CYCLES || event == CP_CPUPROF_HW_INSTRUCTIONS ||
           (row->name != NULL && strcmp(row->name, "refCycles") == 0);
}

/* Returns the least CPU time, in ns, in which one such event can happen; 0 if that is unknown beforehand. */
static double unit_ns(enum cp_cpu_event event, const struct cp_cpu_profile_config *config)
{
    const struct cp__event *row = cp__config_event(event, config);

    if (row == NULL)
        return 0;
    if (row->kind == CP_EVENT_CLOCK)
        return 1;
    return is_cycle_like(event, row) ? 1e9 / (double)cp__os_highest_hz() : 0;
}

double cp__cost_rate(enum cp_cpu_event event, const struct cp_cpu_profile_config *config)
{
    double interval = unit_ns(event, config) * (double)config->period;

    return interval == 0 ? 0 : 1e9 / interval;
}

/* Returns the request with the most samples a second, and the sum of all requests' samples a second. */
static size_t find_fastest(const struct cp_slot_request *requests, size_t n, double *sum)
{
    double most = 0;
    size_t found = 0;

    *sum = 0;
    for (size_t i = 0; i < n; i++) {
        double rate = cp__cost_rate(requests[i].event, &requests[i].config);

        *sum += rate;
        if (rate > most) {
            most = rate;
            found = i;
        }
    }
    return found;
}

static int refuse_rate(const struct cp_slot_request *request, double others, uint64_t cost,
                       struct cp_error *err)
{
    const double left = MOST * 1e9 / (double)cost - others; /* the samples a second that remain */
    const struct cp__event_text name = cp__request_name(request);
    const double unit = unit_ns(request->event, &request->config);
    const char *beside = others == 0 ? "" : "with the events beside it, ";

    if (left <= 0)
        return cp__error_because(
            err, -EINVAL, "too little time between samples",
            "A sample of %s every %" PRIu64
            " cannot be taken: the events beside it may take half of a CPU already, at %" PRIu64
            " ns a sample on this machine. Stop some of these, or give them longer periods.",
            name.text, request->config.period, cost);
    return cp__error_because(err, -EINVAL, "too little time between samples",
                             "A sample of %s every %" PRIu64
                             " may take more than half of a CPU: %sa sample costs its thread %" PRIu64
                             " ns on this machine. Take a period of %.0f or more.",
                             name.text, request->config.period, beside, cost,
                             round_up_period(1e9 / left / unit));
}

int cp__cost_check(const struct cp_slot_request *requests, size_t n, double running, struct cp_error *err)
{
    uint64_t cost = cp__cost_known();
    double sum;
    size_t fastest = find_fastest(requests, n, &sum);
    double rate = cp__cost_rate(requests[fastest].event, &requests[fastest].config);

    if (rate == 0 || (running + sum) * (double)cost <= MOST * 1e9)
        return 0;
    return refuse_rate(&requests[fastest], running + sum - rate, cost, err);
}

bool cp__cost_matters(const struct cp_slot_request *requests, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (requests[i].event != CP_CPUPROF_OS_TIMER)
            return true;
    }
    return false;
}
