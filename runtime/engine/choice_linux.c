/*
 * Which engine the samples of an event come by: what the config asks for, then what the environment asks for.
 * If neither asks, traps are taken, unless something speaks against them here; design/0027-traps.md has the
 * reasons.
 */
#include "choice_linux.h"

#include <errno.h>

#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/event/rows.h"
#include "runtime/m.h"
#include "runtime/perf/traps_linux.h"

/* Replaces AUTO by the engine that is to be had. *why says why that is not traps. */
static int find_engine(enum cp_engine *engine, const char **why, struct cp_error *err)
{
    int result = cp__traps_ask_environment(engine, err);

    if (result < 0)
        return result;
    *why = *engine == CP_ENGINE_SIGNAL ? "it was asked for" : cp__traps_find_obstacle();
    return 0;
}

int cp__choose_engine(struct cp_slot_request *request, const char **why, struct cp_error *err)
{
    enum cp_engine *engine = &request->config.engine;
    bool is_demanded;
    int result;

    *why = NULL;
    if (request->event == CP_CPUPROF_OS_TIMER) {
        *engine = CP_ENGINE_SIGNAL;
        return 0;
    }
    result = find_engine(engine, why, err);
    if (result < 0)
        return result;
    is_demanded = *engine == CP_ENGINE_TRAP;
    *engine = *why == NULL ? CP_ENGINE_TRAP : CP_ENGINE_SIGNAL;
    if (*why == NULL || !is_demanded)
        return 0;
    return cp__error_because(err, -EOPNOTSUPP, "no traps",
                             "The event %s cannot be sampled by traps: %s. Take engine=signal, or leave the "
                             "choice to the library.",
                             cp__request_name(request).text, *why);
}

int cp_engine_choose(enum cp_engine *engine, const char **why, struct cp_error *err)
{
    enum cp_engine asked = CP_ENGINE_AUTO;
    int result;

    cp__fork_delay(); /* because an event is tried */
    cp__lock(&cp__runtime_lock);
    result = find_engine(&asked, why, err);
    cp__unlock(&cp__runtime_lock);
    cp__fork_allow();
    if (result == 0)
        *engine = *why == NULL ? CP_ENGINE_TRAP : CP_ENGINE_SIGNAL;
    return result;
}
