#include "meter.h"

#include <errno.h>
#include <string.h>

#include "core_cycles.h"
#include "runtime/base/fail.h"
#include "runtime/base/lock.h"
#include "runtime/event/rows.h"

struct cp__meter cp__meters[CP__METERS];

static struct cp__lock meters_lock = CP__LOCK_INIT(CP__RANK_METERS);
static uint64_t last_seq; /* under the lock */

/* Makes a meter of a name, without its place among the meters. */
static int parse_meter(struct cp__meter *meter, const char *name, struct cp_error *err)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    int result;

    *meter = (struct cp__meter){.kind = CP__METER_CPU_TIME, .name = "cpuTime"};
    if (strcmp(name, meter->name) == 0)
        return 0;
    *meter = (struct cp__meter){.kind = CP__METER_CORE_CYCLES, .name = "coreCycles"};
    if (strcmp(name, meter->name) == 0)
        return cp__core_cycles_probe(err);
    *meter = (struct cp__meter){.kind = CP__METER_EVENT};
    result = cp_event_parse(name, &spec, err);
    if (result < 0)
        return result;
    if (spec.event == CP_CPUPROF_OS_TIMER)
        return cp__error_because(
            err, -EINVAL, "no event to count",
            "The event timer cannot be counted: the timer is a clock's signal and not an "
            "event of the kernel. Use cpuTime, the CPU time of the G.");
    if (spec.kind == CP_EVENT_WAIT)
        return cp__error_because(err, -EINVAL, "no event to count",
                                 "The event %s cannot be counted: the runtime tells of waits, and not the "
                                 "kernel. The time of a round, without its cpuTime, is what it has waited.",
                                 spec.name);
    memcpy(meter->name, spec.name, sizeof meter->name);
    result = cp__spec_request(&spec, &meter->request, err);
    meter->request.name = NULL; /* the spec's, which ends here */
    return result < 0 ? result : cp__meter_try(meter, err);
}

/* Puts a meter into a free place. Other threads may look at the references there: see close_unused(). */
static void put_meter(struct cp__meter *place, const struct cp__meter *meter)
{
    place->seq = ++last_seq;
    place->kind = meter->kind;
    place->request = meter->request;
    memcpy(place->name, meter->name, sizeof place->name);
}

/* Finds the place of a meter, or a free one. Under the lock. */
static int find_meter_place(const struct cp__meter *wanted)
{
    int place = -ENOSPC;

    for (int i = CP__METERS - 1; i >= 0; i--) {
        if (cp__meters[i].refs == 0)
            place = i;
    }
    for (int i = 0; i < CP__METERS; i++) {
        if (cp__meters[i].refs != 0 && cp__meters[i].kind == wanted->kind &&
            strcmp(cp__meters[i].name, wanted->name) == 0)
            place = i;
    }
    return place;
}

int cp__meter_take(const char *name, struct cp_error *err)
{
    struct cp__meter meter;
    int result = parse_meter(&meter, name, err);

    if (result < 0)
        return result;
    cp__lock(&meters_lock);
    result = find_meter_place(&meter);
    if (result >= 0 && cp__meters[result].refs == 0)
        put_meter(&cp__meters[result], &meter);
    if (result >= 0)
        cp_store_relaxed(&cp__meters[result].refs,
                         cp__meters[result].refs + 1); /* relaxed: see close_unused() */
    cp__unlock(&meters_lock);
    if (result < 0)
        return cp__error(err, result,
                         "The watches of this process count %d different events, and there can be no more: "
                         "close watches, or count fewer events.",
                         CP__METERS);
    return result;
}

void cp__meter_release(unsigned meter)
{
    cp__lock(&meters_lock);
    cp_store_relaxed(&cp__meters[meter].refs, cp__meters[meter].refs - 1); /* relaxed: see close_unused() */
    cp__unlock(&meters_lock);
}

void cp__meters_forget(void)
{
    cp__lock_reset(&meters_lock);
}
