/* Which engine the samples of an event come by. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_CHOICE_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_CHOICE_LINUX_H

#include "runtime.h"

/* Decides which engine the request's samples come by, and writes it to the request's config. *why is a phrase
 * that says why it is not the trap engine, or NULL; it is never freed. Returns 0, or a negative errno value
 * if the engine that was asked for is not to be had. Under the runtime lock. */
int cp__choose_engine(struct cp_slot_request *request, const char **why, struct cp_error *err);

#endif
