/* What a sample costs, measured if it is not known. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_COST_MEASURE_H
#define COUNTERPOINT_RUNTIME_ENGINE_COST_MEASURE_H

#include "runtime.h"

/* Measures the cost if it is not known, and again if the events would be refused for it. Not under the
 * runtime lock. */
void cp__cost_make_sure(const struct cp_slot_request *requests, size_t n, double running);

#endif
