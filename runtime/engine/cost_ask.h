/* What a sample costs, measured if it is not known. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_COST_ASK_H
#define COUNTERPOINT_RUNTIME_ENGINE_COST_ASK_H

#include "runtime.h"

/* Measures the cost, on a thread of its own. Returns 0 or a negative errno value; *ns is 0 if the cost was
 * not found. One thread at a time. */
int cp__cost_measure(uint64_t *ns, struct cp_error *err);
/* Measures the cost if it is not known, and again if the events would be refused for it. Not under the
 * runtime lock. */
void cp__cost_make_sure(const struct cp_slot_request *requests, size_t n, double running);

#endif
