/* The engines. Each event and timer sends its signal to its own thread. */
#include "engines.h"

#include "events_linux.h"
#include "limits_linux.h"
#include "perf_m_linux.h"
#include "runtime/perf/perf_linux.h"
#include "runtime/prepare.h"
#include "timer_linux.h"

const struct cp__engine cp__engine_perf = {
    .index = CP__ENGINE_PERF,
    .size = sizeof(struct cp__perf_m),
    .tells_places = true,
    .open_from_handler = cp__events_open_from_handler,
    .enable_from_handler = cp__events_enable_from_handler,
    .close_from_handler = cp__events_close_from_handler,
    .close_from_outside = cp__events_close_from_outside,
    .on_signal_from_handler = cp__events_on_signal_from_handler,
    .keep_from_handler = cp__events_keep_from_handler,
    .hear = cp__events_hear,
    .begin_from_handler = cp__events_pause_from_handler,
    .end_from_handler = cp__events_resume_from_handler,
    .own_from_handler = cp__events_own_from_handler,
    .clear_from_handler = cp__events_clear_from_handler,
    .read = cp__events_read,
    .interval = cp__events_interval,
    .disable = cp__events_disable,
    .has_ended = cp__limits_have_ended,
    .restart = cp__limits_restart,
    .forget = cp__events_forget,
};

/* A timer on a CPU clock expires only at the kernel's ticks, so it leaves its thread some time. */
const struct cp__engine cp__engine_timer = {
    .index = CP__ENGINE_TIMER,
    .size = sizeof(struct cp__timer_m),
    .open_from_handler = cp__timer_open_from_handler,
    .close_from_handler = cp__timer_close_from_handler,
    .close_from_outside = cp__timer_close_from_outside,
    .on_signal_from_handler = cp__timer_on_signal_from_handler,
    .keep_from_handler = cp__timer_keep_from_handler,
};

const struct cp__engine *cp__engines_for(const struct cp_slot_request *request)
{
    return request->event == CP_CPUPROF_OS_TIMER ? &cp__engine_timer : &cp__engine_perf;
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

void cp__engines_prepare(void)
{
    cp__prepare();
    cp__perf_prepare();
}
