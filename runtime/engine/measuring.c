#include "measuring.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "engines.h"
#include "events_linux.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/base/thread.h"
#include "runtime/disposition.h"
#include "runtime/event/rows.h"
#include "runtime/m.h"
#include "runtime/moment.h"
#include "runtime/perf/perf_linux.h"
#include "runtime/receive.h"
#include "runtime/slot.h"

struct work {
    struct cp__m *m;
    int (*fn)(struct cp__m *m, void *arg);
    void *arg;
    int result;
};

static void *measure_as_m(void *arg)
{
    struct work *work = arg;
    struct cp__m *m = work->m;

    m->tid = cp__os_tid();
    m->cpu_clock = cp__os_thread_clock(m->tid);
    m->stack = cp__thread_stack();
    m->random = 1;
    m->claim = CP__CLAIM_SELF;
    m->is_of_library = true;
    cp_store_relaxed(&cp__m_current, m); /* relaxed: this thread and its handler only */
    cp_fence_signal();
    work->result = work->fn(m, work->arg);
    cp__os_open_samples(0); /* gives back a signal of the program's that waits for the thread */
    cp__os_block_from_handler();
    cp_store_relaxed(&cp__m_current, NULL); /* relaxed: the same */
    return NULL;
}

int cp__measuring_run(int (*fn)(struct cp__m *m, void *arg), void *arg, struct cp_error *err)
{
    struct work work = {.m = calloc(1, sizeof *work.m), .fn = fn, .arg = arg};
    int result = work.m == NULL ? -ENOMEM : cp__m_make_own(work.m, &cp__engine_perf);

    if (result == 0)
        result = cp__disposition_hold(err);
    if (result == 0) {
        result = cp__thread_run(measure_as_m, &work);
        cp__disposition_drop();
    }
    if (work.m != NULL)
        cp__m_free(work.m);
    return result < 0 ? result : work.result;
}

#define INTERVAL_NS 250000
#define INTERVAL_WITHOUT_LIMIT_NS 1000000

uint64_t cp__measuring_interval_ns(void)
{
    return cp__perf_has_limits ? INTERVAL_NS : INTERVAL_WITHOUT_LIMIT_NS;
}

int cp__measuring_arm(struct cp__m *m, enum cp_cpu_event event, uint64_t period, uint32_t limit)
{
    struct cp_slot_request request = {.event = event, .config = {.period = period}};
    struct cp__slot_config config = {
        .seq = 1, .kind = cp__config_event(event, &request.config)->kind, .limit = limit};
    int result;

    cp__request_encode(&request);
    config.config = request.config;
    cp__os_open_samples(0); /* the handler may have given a signal back, and left SIGPROF blocked */
    cp__fork_delay();
    cp_store_relaxed(&m->armed, 1); /* relaxed: of this thread */
    m->stats[0].counts_time = config.kind == CP_EVENT_CLOCK;
    m->handles[0] =
        (struct cp__handle){.seq = 1, .engine = &cp__engine_perf, .kind = config.kind, .signal = SIGPROF};
    result = cp__engine_perf.open_from_handler(m, 0, &config);
    if (result == 0)
        result = cp__engine_perf.enable_from_handler(m, 0);
    if (result < 0)
        cp__fork_allow();
    return result;
}

void cp__measuring_disarm(struct cp__m *m)
{
    struct cp__moment none;
    uint64_t mask = cp__os_block_from_handler();

    cp__moment_begin_from_handler(&none, NULL, CP__SINCE_HERE);
    m->handles[0].engine->close_from_handler(m, 0, &none);
    cp__take_pending_from_handler(m, &none);
    m->handles[0].seq = 0;
    cp_store_relaxed(&m->armed, 0); /* relaxed: of this thread */
    cp__os_unblock_from_handler(mask);
    cp__fork_allow();
}
