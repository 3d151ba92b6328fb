/* Asks for the cost of a sample, which is measured when it is needed, by one thread at a time. */
#include "cost_ask.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "engines.h"
#include "runtime/base/fail.h"
#include "runtime/cost.h"
#include "runtime/turn.h"

/* Measures, unless another thread has noted another cost than `before` while this thread waited for its
 * turn. Returns 0 if the cost is known. */
static int measure_in_turn(uint64_t before, struct cp_error *err)
{
    uint64_t ns;
    int result;

    if (cp__cost_has_failed())
        return -ENODATA;
    if (!cp__turn_begin())
        return -EBUSY;
    ns = cp__cost_known();
    result = ns != before ? 0 : cp__cost_has_failed() ? -ENODATA : cp__cost_measure(&ns, err);
    if (result == 0 && ns != 0)
        cp__cost_note(ns);
    else if (result == 0)
        cp__cost_note_failure();
    cp__turn_end();
    return result == 0 && ns == 0 ? -ENODATA : result;
}

/* The same, without a cancellation point: a thread that ended here would keep the turn for ever, and the
 * measuring thread would write to its stack. */
static int measure_in_peace(uint64_t before, struct cp_error *err)
{
    int cancel_state, result;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    result = measure_in_turn(before, err);
    pthread_setcancelstate(cancel_state, NULL);
    return result;
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
    int result;

    if (ns != 0)
        return ns;
    cp__engines_prepare();
    result = measure_in_peace(0, err);
    if (result < 0)
        cp__error(err, result,
                  "What a sample costs cannot be measured here: %s. A taskClock of perf_event_open is needed "
                  "for it.",
                  why_not(result));
    return cp__cost_known();
}

/* A cost that would refuse a start is measured again, because a busy machine makes it too high, at most this
 * often. */
#define MOST_TRIES 3

void cp__cost_make_sure(const struct cp_slot_request *requests, size_t n, double running)
{
    cp_sample_cost_ns(NULL);
    for (int tries = 1; tries < MOST_TRIES && cp__cost_known() != 0 && !cp__cost_is_set() &&
                        cp__cost_check(requests, n, running, NULL) < 0;
         tries++)
        measure_in_peace(cp__cost_known(), NULL);
}
