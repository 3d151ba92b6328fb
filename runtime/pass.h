/* Looks at some Ms with each pass of a reader. */
#ifndef COUNTERPOINT_RUNTIME_PASS_H
#define COUNTERPOINT_RUNTIME_PASS_H

#include "m.h"

/* Brings Ms in line that could not be when the slots changed, and disables events that cost an M too much.
 * The cost of a pass depends on what the process did since the last pass, not on the number of Ms. Under
 * the runtime lock. */
void cp__pass(void);

#endif
