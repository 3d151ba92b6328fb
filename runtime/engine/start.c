/* Starting slots: the calls that choose by which engine each event is sampled. */
#include <errno.h>

#include "choice_linux.h"
#include "cost_measure.h"
#include "engines.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/chunk.h"
#include "runtime/cost.h"
#include "runtime/coverage.h"
#include "runtime/disposition.h"
#include "runtime/event/rows.h"
#include "runtime/m.h"
#include "runtime/outside.h"
#include "runtime/slot.h"
#include "runtime/switch_cost.h"
#include "runtime/unwind/code.h"
#include "switch_measure.h"

/* How long a start waits for Ms that are just changing their handles or are in their handler. Later passes
 * arm those that are not ready then. */
#define LONGEST_START_NS 20000000u

static int find_free(size_t n, int *found, struct cp_error *err)
{
    size_t i = 0;

    for (int slot = 0; slot < CP_EV_MAX && i < n; slot++) {
        if (cp__slot_is_free(slot))
            found[i++] = slot;
    }
    if (i == n)
        return 0;
    return cp__error(
        err, -EBUSY,
        "%zu event%s cannot start: %zu of the %d that this process can sample at once are free. Stop another "
        "session first, or wait for its end.",
        n, n == 1 ? "" : "s", i, CP_EV_MAX);
}

/* Refuses what the runtime tells of, because a slot samples what happens while a thread runs. */
static int refuse_wait(const struct cp_slot_request *request, struct cp_error *err)
{
    if (cp__config_event(request->event, &request->config)->kind != CP_EVENT_WAIT)
        return 0;
    return cp__error(
        err, -EINVAL,
        "The event %s cannot be sampled by a slot, because what waits does not run. Record the event "
        "by a session: cp_session_start() or cp_start_cpu_profile_with_config(), with "
        "cp_option_event().",
        cp__request_name(request).text);
}

/* Copies the requests, and checks them. */
static int take_requests(struct cp_slot_request *to, const struct cp_slot_request *from, size_t n,
                         struct cp_error *err)
{
    int result;

    if (n == 0 || n > CP_EV_MAX)
        return cp__error(err, -EINVAL, "%zu events were given: a start takes 1 to %d.", n, CP_EV_MAX);
    result = cp__requests_take(to, from, n, err);
    for (size_t i = 0; i < n && result == 0; i++) {
        result = cp__request_check(&to[i], err);
        if (result == 0)
            result = refuse_wait(&to[i], err);
    }
    return result;
}

/* Makes what the M needs for the slots: their buffers, and what their engines keep. */
static int make_room_in(struct cp__m *m, const struct cp_slot_request *requests, size_t n, uint32_t slots)
{
    int result = cp__m_make_buffers(m, slots);

    for (size_t i = 0; i < n && result == 0; i++)
        result = cp__m_make_own(m, cp__engines_for(&requests[i]));
    return result;
}

static int make_buffers(const struct cp_slot_request *requests, size_t n, const int *found,
                        struct cp_error *err)
{
    int result = cp__pool_resize(cp__slots_in_use() + (unsigned)n);
    uint32_t mask = cp__slots_mask(found, n);

    for (struct cp__m *m = cp__ms; m != NULL && result == 0; m = m->next)
        result = make_room_in(m, requests, n, mask);
    if (result < 0)
        return cp__error(err, result,
                         "There is no memory for the sample buffers: %zu KiB for each event and CPU, and a "
                         "page for each event and M. Free some, or sample fewer events.",
                         CP__POOL_BYTES / 1024);
    return 0;
}

/* Decides by which engine each event is sampled, and why. */
static int choose_engines(struct cp_slot_request *requests, size_t n, const char **why, struct cp_error *err)
{
    int result = 0;

    for (size_t i = 0; i < n && result == 0; i++)
        result = cp__choose_engine(&requests[i], &why[i], err);
    return result;
}

/* Puts the handlers in place that the events need. */
static int take_signals(const struct cp_slot_request *requests, size_t n, struct cp_error *err)
{
    int result = cp__disposition_take(err);

    for (size_t i = 0; i < n && result == 0; i++) {
        if (requests[i].config.engine == CP_ENGINE_TRAP)
            result = cp__disposition_take_traps(err);
    }
    return result;
}

/* Starts the slots. Everything that may fail comes before the first config is published. */
static int start_slots(struct cp_slot_request *requests, size_t n, int *found, struct cp_error *err)
{
    const char *why[CP_EV_MAX];
    double samples, switches;
    uint32_t percent;
    int result = find_free(n, found, err);

    if (result == 0)
        result = choose_engines(requests, n, why, err);
    if (result == 0)
        result = cp__engines_probe(requests, n, err);
    if (result == 0)
        result = cp__cost_check(requests, n, cp__slots_rate(), err);
    samples = cp__cost_share(requests, n, cp__slots_rate());
    switches = result == 0 ? cp__switch_share(requests, n) : 0;
    if (result == 0)
        result = cp__switch_check(requests, n, samples, switches, err);
    if (result == 0)
        result = make_buffers(requests, n, found, err);
    if (result == 0)
        result = take_signals(requests, n, err);
    if (result < 0) {
        cp__pool_resize(cp__slots_in_use());
        return result;
    }
    percent = (uint32_t)(100 * cp__switch_and_sample_share(samples, switches));
    for (size_t i = 0; i < n; i++) {
        cp__slot_publish(found[i], &requests[i], cp__engines_for(&requests[i]),
                         cp__cost_rate(requests[i].event, &requests[i].config));
        cp__slot_kept_stats(found[i])->engine_reason = why[i];
        cp__slot_kept_stats(found[i])->cost_percent = percent;
    }
    cp__coverage_begin(cp__slots_mask(found, n));
    cp__slots_next_generation();
    return 0;
}

static double running_rate(void)
{
    double rate;

    cp__lock(&cp__runtime_lock);
    rate = cp__slots_rate();
    cp__unlock(&cp__runtime_lock);
    return rate;
}

/* Returns whether one of the events needs the costs, so that these are measured before a start: all events
 * except the timer do. */
static bool is_cost_needed(const struct cp_slot_request *requests, size_t n)
{
    while (n > 0 && requests[n - 1].event == CP_CPUPROF_OS_TIMER)
        n--;
    return n > 0;
}

int cp_slots_start(const struct cp_slot_request *requests, size_t n, int *found, struct cp_error *err)
{
    struct cp_slot_request reached[CP_EV_MAX];
    int result = take_requests(reached, requests, n, err);

    if (result < 0)
        return result;
    for (size_t i = 0; i < n; i++)
        cp__request_encode(&reached[i]);
    cp__engines_prepare();
    cp__code_update();
    if (is_cost_needed(reached, n)) {
        cp__cost_make_sure(reached, n, running_rate());
        cp__switch_costs_make_sure(reached, n, running_rate());
    }
    cp__fork_delay(); /* because events are opened and closed again */
    cp__lock(&cp__runtime_lock);
    cp__ms_free_forgotten();
    cp__disposition_look();
    result = start_slots(reached, n, found, err);
    cp__disposition_settle();
    cp__unlock(&cp__runtime_lock);
    cp__fork_allow();
    cp__outside_look_at_slots();
    if (result == 0)
        cp__outside_settle(0, LONGEST_START_NS);
    return result;
}
