/* The signals that end a program that has no handler for them. */
#ifndef COUNTERPOINT_PRELOAD_DEADLY_H
#define COUNTERPOINT_PRELOAD_DEADLY_H

#include <signal.h>
#include <stdbool.h>

/* Returns whether this library's handler stands for the default action of the signal. */
bool cp__deadly_takes(int number);
/* Returns the handler, as sigaction() takes it. */
const struct sigaction *cp__deadly_action(void);
/* Returns whether an action is that. */
bool cp__deadly_is(const struct sigaction *action);
/* Of signals.c: sets and returns the program's handler, as sigaction() does. */
int cp__deadly_exchange(int number, const struct sigaction *action, struct sigaction *old);

#endif
