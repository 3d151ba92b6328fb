/* Asks about one event, without an M or a slot. */
#include <errno.h>

#include "engines.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/sized.h"
#include "runtime/event/rows.h"
#include "runtime/m.h"

int cp_event_probe(const struct cp_event_spec *spec, struct cp_error *err)
{
    struct cp_slot_request request;
    struct cp_event_spec own;
    int result = CP__TAKE(cp_event_spec, &own, spec, err);

    if (result == 0)
        result = cp__spec_request(&own, &request, err);
    if (result < 0 || own.kind == CP_EVENT_WAIT) /* the runtime tells of waits, on any machine */
        return result;
    cp__engines_prepare();
    cp__fork_delay(); /* because events are opened and closed again */
    result = cp__engines_probe(&request, 1, err);
    cp__fork_allow();
    return result;
}
