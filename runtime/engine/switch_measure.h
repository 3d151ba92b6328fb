/* What a switch between threads costs with armed events, measured if it is not known. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_SWITCH_MEASURE_H
#define COUNTERPOINT_RUNTIME_ENGINE_SWITCH_MEASURE_H

#include "runtime.h"

/* Measures the costs if the threads of this process are switched so often that it may matter which events
 * they get and the costs are not known, and again if the events would be refused for them. Not under the
 * runtime lock. */
void cp__switch_costs_make_sure(const struct cp_slot_request *requests, size_t n, double running);

#endif
