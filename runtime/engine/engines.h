/* All engines. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_ENGINES_H
#define COUNTERPOINT_RUNTIME_ENGINE_ENGINES_H

#include "runtime.h"
#include "runtime/engine.h"

/* The engines' places in an M. */
enum {
    CP__ENGINE_PERF,
    CP__ENGINE_TIMER,
};

/* Events of perf_event_open(2), which raise SIGTRAP or SIGPROF. */
extern const struct cp__engine cp__engine_perf;
/* Timers on the Ms' CPU clocks, which raise SIGPROF. */
extern const struct cp__engine cp__engine_timer;

/* Returns the engine that samples the event of request. */
const struct cp__engine *cp__engines_for(const struct cp_slot_request *request);
/* Prepares the core and the engines, once. Called before the first event is opened. */
void cp__engines_prepare(void);
/* Opens the events on the calling thread as an M would, all of them together, and closes them. Fills err if
 * one of them fails, or opens and counts nothing (-ENODATA). Lowers each config's precise_ip to the level
 * that works. */
int cp__engines_probe(struct cp_slot_request *requests, size_t n, struct cp_error *err);

#endif
