#include "switch_cost.h"

#include <errno.h>
#include <inttypes.h>

#include "engine.h"
#include "m.h"
#include "runtime/base/fail.h"
#include "runtime/base/os.h"
#include "runtime/event/rows.h"
#include "slot.h"

/* ---- The costs ------------------------------------------------------------------------------- */

/* Shared, atomic. The costs are loaded and stored relaxed: is_known orders them. */
static struct cp__switch_costs known;
static uint32_t is_known; /* shared, atomic: 1 if the costs were noted or set */
static uint32_t is_set;   /* shared, atomic: 1 if a test has set the costs */

bool cp__switch_costs_are_known(void)
{
    return cp_load_acquire(&is_known) != 0; /* pairs with the release in cp__switch_costs_note() */
}

static void set_known(const struct cp__switch_costs *costs)
{
    cp_store_relaxed(&known.bare, costs->bare);
    cp_store_relaxed(&known.soon, costs->soon);
    cp_store_relaxed(&known.later, costs->later);
    cp_store_relaxed(&known.other, costs->other);
    cp_store_release(&is_known, 1u); /* pairs with the acquire in cp__switch_costs_are_known() */
}

/* Whatever else happens on the machine makes a figure too high more often than too low. */
static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void cp__switch_costs_note(const struct cp__switch_costs *costs)
{
    static const struct cp__switch_costs none;
    struct cp__switch_costs least = costs != NULL ? *costs : none;

    if (cp__switch_costs_are_set() || (costs == NULL && cp__switch_costs_are_known()))
        return;
    if (cp__switch_costs_are_known()) {
        least.bare = lesser(least.bare, known.bare);
        least.soon = lesser(least.soon, known.soon);
        least.later = lesser(least.later, known.later);
        least.other = lesser(least.other, known.other);
    }
    set_known(&least);
}

void cp__switch_costs_tell(struct cp__switch_costs *costs)
{
    *costs = (struct cp__switch_costs){.bare = 0};
    if (!cp__switch_costs_are_known())
        return;
    costs->bare = cp_load_relaxed(&known.bare);
    costs->soon = cp_load_relaxed(&known.soon);
    costs->later = cp_load_relaxed(&known.later);
    costs->other = cp_load_relaxed(&known.other);
}

bool cp__switch_costs_take_over(const struct cp__switch_costs *costs)
{
    const uint64_t most = 50 * (uint64_t)CP__SWITCH_MOST_NS;

    if (costs->bare == 0 || costs->bare > most || costs->soon > most || costs->later > most ||
        costs->other > most)
        return false;
    cp__switch_costs_note(costs);
    return true;
}

void cp__switch_costs_set(const struct cp__switch_costs *costs)
{
    cp_store_relaxed(&is_set, 1u); /* relaxed: nothing else depends on it */
    set_known(costs);
}

bool cp__switch_costs_are_set(void)
{
    return cp_load_relaxed(&is_set) != 0; /* relaxed: as above */
}

/* Returns how likely it is that a clock expires before the next tick when its thread gets the CPU. The clock
 * has anything from 0 to a period left then, and the tick is anything from 0 to its distance away. */
static double is_soon(uint64_t period)
{
    const double periods_a_tick = (double)cp__os_tick_ns() / (double)(period != 0 ? period : 1);

    return periods_a_tick >= 1 ? 1 - 1 / (2 * periods_a_tick) : periods_a_tick / 2;
}

static uint64_t cost_of_clock(uint64_t period)
{
    const uint64_t soon = cp_load_relaxed(&known.soon), later = cp_load_relaxed(&known.later);

    if (soon <= later) /* the machine's noise */
        return later;
    return later + (uint64_t)(is_soon(period) * (double)(soon - later));
}

uint64_t cp__switch_cost_known(enum cp_event_kind kind, uint64_t period)
{
    if (!cp__switch_costs_are_known())
        return 0;
    switch (kind) {
    case CP_EVENT_TIMER: /* the kernel looks at it at ticks, and at no switch */
    case CP_EVENT_WAIT:  /* the kernel knows nothing of it */
        return 0;
    case CP_EVENT_CLOCK:
        return cost_of_clock(period);
    default:
        return cp_load_relaxed(&known.other);
    }
}

uint64_t cp__switch_ns(uint64_t cost, uint64_t switches, uint64_t cpu_ns)
{
    const uint64_t each = switches == 0 ? 0 : cpu_ns / switches, bare = cp_load_relaxed(&known.bare);
    const uint64_t left = each > bare ? each - bare : 0;

    return switches * lesser(cost, left);
}

/* ---- Several events -------------------------------------------------------------------------- */

/* The kernel sets the CPU's timer for the clock that expires first. The other events are taken off and put
 * back. */
struct events {
    uint64_t most; /* the cost of the costliest one alone */
    unsigned n;    /* without timers */
};

static uint64_t add_event(struct events *events, enum cp_event_kind kind, uint64_t period)
{
    const uint64_t alone = cp__switch_cost_known(kind, period);

    events->most = alone > events->most ? alone : events->most;
    events->n += kind != CP_EVENT_TIMER;
    return alone;
}

static uint64_t cost_of_events(const struct events *events)
{
    return events->most + (events->n > 1 ? events->n - 1 : 0) * cp__switch_cost_known(CP_EVENT_SOFTWARE, 1);
}

uint64_t cp__switch_cost_of_m(const struct cp__m *m, uint64_t *of_slot)
{
    struct events events = {.n = 0};
    /* relaxed, both: this may be late */
    uint32_t counting = cp_load_relaxed(&m->armed) & ~cp_load_relaxed(&m->off);

    for (; counting != 0; counting &= counting - 1) {
        const int slot = __builtin_ctz(counting);
        struct cp__slot_config config;

        if (cp__slot_config_from_handler(slot, &config))
            of_slot[slot] = add_event(&events, config.kind, config.config.period);
    }
    return cost_of_events(&events);
}

static enum cp_event_kind kind_of(const struct cp_slot_request *request)
{
    return cp__config_event(request->event, &request->config)->kind;
}

static uint64_t cost_of_request(const struct cp_slot_request *request)
{
    return cp__switch_cost_known(kind_of(request), request->config.period);
}

uint64_t cp__switch_cost_with_running(const struct cp_slot_request *requests, size_t n)
{
    struct events events = {.n = 0};

    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        struct cp__slot_config config;

        if (cp__slot_config_from_handler(slot, &config))
            add_event(&events, config.kind, config.config.period);
    }
    for (size_t i = 0; i < n; i++)
        add_event(&events, kind_of(&requests[i]), requests[i].config.period);
    return cost_of_events(&events);
}

/* ---- Before a start -------------------------------------------------------------------------- */

/* A look at a thread's figures takes 2 us. */
#define MOST_LOOKS 64
/* A thread that has just begun tells little of what it will do. */
#define LEAST_CPU_NS 10000000

/* Returns how often m's thread has been switched in a ns of its CPU time so far; 0 if it had little. */
static double switches_a_ns(const struct cp__m *m)
{
    uint64_t switches, cpu_ns;

    if (!cp__os_switches_of(m->tid, &switches, &cpu_ns) || cpu_ns < LEAST_CPU_NS)
        return 0;
    return (double)switches / (double)cpu_ns;
}

/* Returns the most switches in a ns of a thread's CPU time. */
static double most_switches_a_ns(void)
{
    size_t n = 0, i = 0;
    double most = 0;

    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next)
        n++;
    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next, i++) {
        if (i % (n / MOST_LOOKS + 1) == 0) {
            const double one = cp__m_is_gone(m) ? 0 : switches_a_ns(m);

            most = one > most ? one : most;
        }
    }
    return most;
}

double cp__switch_share(const struct cp_slot_request *requests, size_t n)
{
    const uint64_t cost = cp__switch_cost_with_running(requests, n);
    double longer;

    if (cost == 0)
        return 0;
    longer = most_switches_a_ns() * (double)cost; /* than the thread would take without the events */
    return longer / (1 + longer);
}

/* What leaves a thread less is stopped while it runs. */
#define MOST_TOGETHER 0.9
/* Below that, switches do not matter beside samples, which are checked by themselves. */
#define LEAST_SHARE 0.01

int cp__switch_check(const struct cp_slot_request *requests, size_t n, double samples, double switches,
                     struct cp_error *err)
{
    size_t costliest = 0;

    if (switches < LEAST_SHARE || cp__switch_and_sample_share(samples, switches) <= MOST_TOGETHER)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if (cost_of_request(&requests[i]) > cost_of_request(&requests[costliest]))
            costliest = i;
    }
    return cp__error_because(
        err, -EINVAL, "too little time between switches",
        "A sample of %s every %" PRIu64
        " would leave a thread next to no time: samples may take %.0f %% of its time, and its switches %.0f "
        "%% of the rest, because it loses its CPU so often. Take a period of 10 ms or more, or the timer, "
        "which costs nothing at a switch.",
        cp__request_name(&requests[costliest]).text, requests[costliest].config.period, 100 * samples,
        100 * switches);
}
