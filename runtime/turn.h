/* The turn to measure: one thread at a time measures what a sample costs. */
#ifndef COUNTERPOINT_RUNTIME_TURN_H
#define COUNTERPOINT_RUNTIME_TURN_H

#include <stdbool.h>

/* Takes the turn, and waits for it for a second at most. Returns false if another thread has the turn for
 * longer. Neither call is a cancellation point. */
bool cp__turn_begin(void);
void cp__turn_end(void);
/* In the child of a fork: nobody has the turn, even if a thread had it in the parent. */
void cp__turn_forget(void);

#endif
