/* The handler of SIGPROF and SIGTRAP. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_HANDLER_H
#define COUNTERPOINT_RUNTIME_ENGINE_HANDLER_H

#include <signal.h>

#include "runtime/engine.h"
#include "runtime/moment.h"

void cp__on_signal_from_handler(int signal, siginfo_t *info, void *ucontext);

/* See take_pending_from_handler of struct cp__engine. */
void cp__take_pending_from_handler(struct cp__m *m, struct cp__moment *moment);

#endif
