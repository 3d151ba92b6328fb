/* SIGPROF and SIGTRAP: their handlers, the handlers that were there before, and their pending signals. */
#ifndef COUNTERPOINT_RUNTIME_BASE_SIGNALS_H
#define COUNTERPOINT_RUNTIME_BASE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"

/* The kernel's TRAP_PERF, which not every C library names: the si_code of an event's trap. */
#define CP__TRAP_PERF 6

/* Says which handler the two signals have when it is installed. Once, before all other calls. */
void cp__signals_use(void (*handler)(int, siginfo_t *, void *));
/* Installs the handler of one of the two signals; under the runtime lock. */
int cp__signal_install(int signal, struct cp_error *err);
/* Puts back the handler that was there before. Under the runtime lock, when no such signal of ours can come
 * any more. */
void cp__signal_restore(int signal);
/* Returns whether the library's handler was installed, and has not been given back since. */
bool cp__signal_was_installed_from_handler(int signal);
/* Returns whether the library's handler is in place. */
bool cp__signal_is_ours(int signal);
/* Returns whether a handler that is not the library's is in place: neither SIG_DFL nor SIG_IGN. */
bool cp__signal_is_of_program(int signal);
/* If the program has put SIG_DFL or SIG_IGN in the place of the library's handler, installs the handler
 * again, which does for the program's signals what these two do. Returns whether it has. Under the runtime
 * lock. */
bool cp__signal_mend(int signal);
/* Whether the kernel would have ended the process for the signal if the library had no handler. */
bool cp__signal_is_deadly_from_handler(const siginfo_t *info);
/* Does what sigaction() would do without the library: if the library's handler is in place, sets and returns
 * the handler behind it. For a program whose calls come here (preload/). Under the runtime lock. Returns -1
 * with errno as sigaction() does. */
int cp__signal_exchange(int signal, const struct sigaction *action, struct sigaction *old);
/* Ends the process by the signal's default action, as soon as the calling thread does not block the signal:
 * if that is so when a handler returns, a core file shows the place that the handler has interrupted. */
void cp__signal_take_default_from_handler(int signal);
/* Passes a signal that is not the profiler's to the handler that was there before. If there was none, SIGPROF
 * is ignored, and SIGTRAP does what it would have done without the library. */
void cp__signal_chain_from_handler(int signal, siginfo_t *info, void *ucontext);

/* Sends a signal that is not ours to the process again, or to the calling thread, and keeps the signal
 * blocked in this thread after the handler has returned. So another thread takes the signal, or it stays
 * pending for a thread that waits for it. */
void cp__signal_give_back_from_handler(siginfo_t *info, void *ucontext, bool is_for_thread);

/* Takes such a pending signal off the calling thread, which has the signal blocked; false if none is pending
 * for this thread. What is pending for the process stays so. */
bool cp__signal_take_pending_from_handler(int signal, siginfo_t *info);
/* Makes the signal pending again. */
void cp__signal_requeue_from_handler(siginfo_t *info);

/* Whether the kernel sent the signal for a descriptor with O_ASYNC, as it does for events without traps. */
bool cp__signal_is_poll_from_handler(const siginfo_t *info);
/* Whether a timer has raised the signal. If so, *data is the timer's value. */
bool cp__signal_is_tick_from_handler(const siginfo_t *info, uint64_t *data);
/* Whether an event has raised the signal as a trap. If so, *data is the event's sig_data. */
bool cp__signal_is_trap_from_handler(const siginfo_t *info, uint64_t *data);

#endif
