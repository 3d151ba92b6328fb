/* Asking about one event, without an M or a slot. */
#include <errno.h>

#include "fork.h"
#include "m.h"
#include "os.h"
#include "runtime/base/fail.h"
#include "runtime/event/rows.h"

int cp_event_encode(const struct cp_event_spec *spec, struct cp_event_encoding *encoding)
{
    const struct cp__event *row = cp__event(spec->event, &spec->encoding);

    if (row == NULL || row->kind == CP_EVENT_TIMER)
        return -EINVAL;
    if (spec->event == CP_CPUPROF_NAMED)
        *encoding = spec->encoding;
    else
        *encoding = (struct cp_event_encoding){.type = row->perf_type,
                                               .config = spec->event == CP_CPUPROF_HW_RAW ? spec->raw_event
                                                                                          : row->perf_config};
    return 0;
}

int cp__spec_request(const struct cp_event_spec *spec, struct cp_slot_request *request, struct cp_error *err)
{
    const struct cp__event *row = cp__event(spec->event, &spec->encoding);
    bool has_preset = spec->preset_period != 0 || (row != NULL && row->preset_period != 0);
    int result;

    *request = (struct cp_slot_request){.event = spec->event, .name = spec->name};
    result = cp_cpu_profile_config_init(&request->config, spec, has_preset ? 0 : 1, err);
    return result < 0 ? result : cp__request_check(request, err);
}

int cp_event_probe(const struct cp_event_spec *spec, struct cp_error *err)
{
    struct cp_slot_request request;
    int result = cp__spec_request(spec, &request, err);

    if (result < 0)
        return result;
    cp__m_prepare();
    if (spec->event == CP_CPUPROF_OS_TIMER)
        return cp__os_timer_probe(err);
    cp__fork_delay(); /* events are opened, and closed again */
    result = cp__perf_probe(&request, 1, err);
    cp__fork_allow();
    return result;
}
