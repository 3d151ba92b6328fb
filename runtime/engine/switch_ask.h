/* What a switch between threads costs with armed events, measured if it is not known. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_SWITCH_ASK_H
#define COUNTERPOINT_RUNTIME_ENGINE_SWITCH_ASK_H

#include "runtime.h"
#include "runtime/switch_cost.h"

/* Measures the costs, on threads of its own. Returns 0 or a negative errno value: -ENODATA if no CPU was free
 * for it. One thread at a time. */
int cp__switch_costs_measure(struct cp__switch_costs *costs);
/* Measures the costs if the threads of this process are switched so often that it may matter which events
 * they get and the costs are not known, and again if the events would be refused for them. Not under the
 * runtime lock. */
void cp__switch_costs_make_sure(const struct cp_slot_request *requests, size_t n, double running);

#endif
