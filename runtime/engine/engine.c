/* The engine: events of perf_event_open(2), which raise SIGTRAP or SIGPROF, and timers, which raise SIGPROF.
 * Each event and timer sends its signal to its own thread. */
#include "runtime/engine.h"

#include "engines.h"
#include "events_linux.h"
#include "handler.h"
#include "limits_linux.h"
#include "timer_linux.h"

static int open_slot_from_handler(struct cp__m *m, int slot, const struct cp__slot_config *config)
{
    return m->handles[slot].kind == CP_EVENT_TIMER ? cp__timer_open_from_handler(m, slot, config)
                                                   : cp__events_open_from_handler(m, slot, config);
}

static void close_slot_from_handler(struct cp__m *m, int slot, struct cp__moment *moment)
{
    if (m->handles[slot].kind == CP_EVENT_TIMER) {
        cp__take_pending_from_handler(m, moment); /* from Linux 6.13 on, it would go with the timer */
        cp__timer_close_from_handler(m, slot);
    } else {
        cp__events_close_from_handler(m, slot, moment);
    }
}

int cp__engines_probe(struct cp_slot_request *requests, size_t n, struct cp_error *err)
{
    int result = 0;

    for (size_t i = 0; i < n && result == 0; i++) {
        if (requests[i].event == CP_CPUPROF_OS_TIMER)
            result = cp__timer_probe(err);
    }
    return result < 0 ? result : cp__events_probe(requests, n, err);
}

const struct cp__engine cp__engine = {
    .start = cp__events_start,
    .open_from_handler = open_slot_from_handler,
    .enable_from_handler = cp__events_enable_from_handler,
    .close_from_handler = close_slot_from_handler,
    .take_pending_from_handler = cp__take_pending_from_handler,
    .own_from_handler = cp__events_own_from_handler,
    .read = cp__events_read,
    .disable = cp__events_disable,
    .has_ended = cp__limits_have_ended,
    .restart = cp__limits_restart,
    .forget = cp__events_forget,
};
