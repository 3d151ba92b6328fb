/* Which engine the samples of an event come by. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_CHOICE_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_CHOICE_LINUX_H

#include "runtime.h"
#include "runtime/engine.h"

/* See choose of struct cp__engine. */
int cp__choose_engine(struct cp_slot_request *request, const char **why, struct cp_error *err);

#endif
