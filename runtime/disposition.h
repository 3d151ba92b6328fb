/* Decides when the library's signal handler is installed: while a slot runs or a caller holds the handler,
 * and until no signal of the library's can come any more. */
#ifndef COUNTERPOINT_RUNTIME_DISPOSITION_H
#define COUNTERPOINT_RUNTIME_DISPOSITION_H

#include <stdbool.h>

#include "error.h"

struct cp__m;

/* Installs the handler for samples that belong to no slot. cp__disposition_drop() ends that. Any thread may
 * call both. */
int cp__disposition_hold(struct cp_error *err);
void cp__disposition_drop(void);
/* Keeps the handler installed for as long as the process lives, because a signal of the library's may come at
 * any time. A child of a fork does not inherit that. */
void cp__disposition_keep_from_handler(void);

/* For a program whose calls of sigaction() for SIGPROF and SIGTRAP come here: sets and returns the handler
 * that the program has behind the library's. Returns -1 with errno as sigaction() does. */
struct sigaction;
int cp__disposition_exchange(int signal, const struct sigaction *action, struct sigaction *old);

/* All functions below are called under the runtime lock. */

/* Installs the handler if it is not installed. */
int cp__disposition_take(struct cp_error *err);
/* Installs the handler of SIGTRAP, unless it is installed. The handler stays from then on, because a
 * trap that is pending for a thread that sleeps arrives when the thread wakes, also after its event was
 * closed. */
int cp__disposition_take_traps(struct cp_error *err);
/* Returns whether a SIGPROF of a handle that was closed from outside may still be pending for m's thread.
 * If so, *is_blocked is whether the thread has SIGPROF blocked, and not only for a moment. */
bool cp__disposition_may_come_late(struct cp__m *m, bool *is_blocked);
/* Notes for each running slot whether the handler that its samples need has been replaced. If it was replaced
 * by SIG_DFL or SIG_IGN, puts it back: without it the next sample would end the process, or be dropped. */
void cp__disposition_look(void);
/* Restores the signal's disposition if no slot runs and no signal of the library's can come any more. */
void cp__disposition_settle(void);
/* In the child of a fork: restores the signal's disposition. */
void cp__disposition_forget(void);

#endif
