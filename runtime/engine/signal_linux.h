/* SIGPROF: its handler, the handler that was there before, and its pending signals. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_SIGNAL_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_SIGNAL_LINUX_H

#include <signal.h>

#include "runtime/engine.h"

/* Installs the handler; under the runtime lock. */
int cp__signal_install(void (*handler)(int, siginfo_t *, void *), struct cp_error *err);
/* Puts back the handler that was there before. Under the runtime lock, when no SIGPROF of ours can come
 * any more. */
void cp__signal_restore(void);
/* Returns whether the library's handler is in place. */
bool cp__signal_is_ours(void);
/* Passes a SIGPROF that is not the profiler's to the handler that was there before, if there was one. */
void cp__signal_chain_from_handler(int signal, siginfo_t *info, void *ucontext);

/* Sends a SIGPROF that is not ours to the process again, and keeps SIGPROF blocked in the calling thread
 * after the handler has returned. So another thread takes the signal, or it stays pending for a thread that
 * waits for it. */
void cp__signal_give_back_from_handler(siginfo_t *info, void *ucontext);

/* Takes a pending SIGPROF off the calling thread, which has SIGPROF blocked; false if none is pending. */
bool cp__signal_take_pending_from_handler(siginfo_t *info);
/* Makes the signal pending again. */
void cp__signal_requeue_from_handler(siginfo_t *info);

/* Sends a kick with a number to the thread; 0 or a negative errno value.
 * cp__signal_is_kick_from_handler() recognises a kick and tells its number. */
int cp__signal_kick(pid_t tid, uint32_t number);
bool cp__signal_is_kick_from_handler(const siginfo_t *info, uint32_t *number);

#endif
