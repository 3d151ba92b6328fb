/* What a sample costs in this process, and which starts are refused for it. */
#include "cost.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/fail.h"
#include "runtime/base/os.h"
#include "runtime/event/rows.h"
#include "turn.h"

/* ---- The cost -------------------------------------------------------------------------------- */

/* All numbers here are loaded and stored relaxed: nothing else depends on them. */
static uint64_t least_ns; /* shared, atomic: the least cost that was ever noted; 0: none yet */
/* Shared, atomic: the least cost since a test has set one, or what the test has set; 0: the cost is measured
 * when it is needed. */
static uint64_t known_ns;
static uint32_t is_set; /* shared, atomic: 1 if a test has set known_ns */
struct cp__measured cp__cost_measured;

uint64_t cp__cost_known(void)
{
    return cp_load_relaxed(&known_ns);
}

uint64_t cp__cost_or_assumed_from_handler(void)
{
    uint64_t ns = cp_load_relaxed(&known_ns);

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

    if (!cp__event_may_starve(kind))
        return NEVER;
    return limit > 2 ? (uint32_t)limit : 2;
}

void cp__cost_note(uint64_t ns)
{
    uint64_t least = cp_load_relaxed(&least_ns);
    uint64_t known = cp_load_relaxed(&known_ns);

    if (least == 0 || ns < least)
        cp_store_relaxed(&least_ns, ns);
    if (cp_load_relaxed(&is_set) == 0 && (known == 0 || ns < known))
        cp_store_relaxed(&known_ns, ns);
}

/* An interrupt alone takes longer than the one, and a machine on which a sample takes longer than the other
 * has no use for samples. */
#define LEAST_TAKEN_NS 200
#define MOST_TAKEN_NS 1000000

bool cp__cost_take_over(uint64_t ns)
{
    if (ns < LEAST_TAKEN_NS || ns > MOST_TAKEN_NS)
        return false;
    cp__cost_note(ns);
    return true;
}

void cp__cost_set(uint64_t ns)
{
    const uint64_t measured = cp_load_relaxed(&least_ns);
    const uint64_t least = measured != 0 ? measured : CP_SAMPLE_COST_ASSUMED_NS;

    if (ns != 0 && ns < least) {
        fprintf(stderr,
                "The cost of a sample was set to %" PRIu64 " ns, which is less than the %s %" PRIu64
                " ns: periods would be taken that leave a thread no time.\n",
                ns, measured != 0 ? "measured" : "assumed", least);
        abort();
    }
    cp_store_relaxed(&is_set, ns != 0);
    cp_store_relaxed(&known_ns, ns);
    cp_store_relaxed(&cp__cost_measured.failed_until_ns, 0);
}

bool cp__cost_is_set(void)
{
    return cp_load_relaxed(&is_set) != 0;
}

/* ---- How much of a CPU a start may take ------------------------------------------------------ */

/* The share of a CPU that samples may take by the least cost that was seen: all of it, because what costs
 * more cannot work on this machine. What runs is judged by what it takes: see overload.c. */
#define MOST 1.0

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

/* Does what ceil() does. A call of ceil() would need the mathematical library, which a program may not have
 * linked. */
static double round_up_period(double value)
{
    const double whole = value < 1e18 ? (double)(uint64_t)value : value;

    return whole < value ? whole + 1 : whole;
}

/* Returns how the cost is known, for a message. */
static const char *how_known(void)
{
    return cp__cost_known() != 0 ? "on this machine"
                                 : "by assumption, because the cost cannot be measured here";
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
            " cannot be taken: the events beside it may take a whole CPU already. A sample costs its thread "
            "%" PRIu64 " ns %s. Stop some of these events, or give them longer periods.",
            name.text, request->config.period, cost, how_known());
    return cp__error_because(err, -EINVAL, "too little time between samples",
                             "A sample of %s every %" PRIu64
                             " would leave a thread no time: %sa sample costs its thread %" PRIu64
                             " ns %s. Take a period of %.0f or more; with %.0f, samples take a tenth.",
                             name.text, request->config.period, beside, cost, how_known(),
                             round_up_period(1e9 / left / unit), round_up_period(1e10 / left / unit));
}

double cp__cost_share(const struct cp_slot_request *requests, size_t n, double running)
{
    double sum;

    find_fastest(requests, n, &sum);
    return sum == 0 ? 0 : (running + sum) * (double)cp__cost_or_assumed_from_handler() / 1e9;
}

int cp__cost_check(const struct cp_slot_request *requests, size_t n, double running, struct cp_error *err)
{
    double sum;
    size_t fastest = find_fastest(requests, n, &sum);
    double rate = cp__cost_rate(requests[fastest].event, &requests[fastest].config);

    if (cp__cost_share(requests, n, running) <= MOST)
        return 0;
    return refuse_rate(&requests[fastest], running + sum - rate, cp__cost_or_assumed_from_handler(), err);
}
