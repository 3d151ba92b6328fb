/* When the engine's signal handler is in place: while a slot runs or somebody holds the handler, and until no
 * signal of the engine's can come any more. */
#ifndef COUNTERPOINT_RUNTIME_DISPOSITION_H
#define COUNTERPOINT_RUNTIME_DISPOSITION_H

#include "error.h"

#include <stdbool.h>

/* Puts the handler in place for samples that belong to no slot; cp__disposition_drop() lets it go. Any
 * thread may call them. */
int cp__disposition_hold(struct cp_error *err);
void cp__disposition_drop(void);

/* The rest: under the runtime lock. */

/* Puts the handler in place, unless it is in place already. */
int cp__disposition_take(struct cp_error *err);
/* Whether the handler was put in place. */
bool cp__disposition_is_taken(void);
/* Puts the signal's disposition back if no slot runs and no signal of the engine's can come any more. */
void cp__disposition_settle(void);
/* In the child of a fork: puts the disposition back. */
void cp__disposition_forget(void);

#endif
