/* The program that a command starts and waits for. */
#ifndef COUNTERPOINT_CMD_CHILD_H
#define COUNTERPOINT_CMD_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "commands.h"

/*
 * Starts the program with its arguments. prepare() runs in the new process before the program does; a result
 * other than 0 means that errno says why there will be no program; NULL: nothing is to be prepared. From then
 * on, SIGTERM and SIGHUP go to the program, and keys such as Ctrl-C are the program's alone.
 */
typedef int child_prepare_fn(const void *context);
enum status child_start(pid_t *pid, const char *path, char **argv, child_prepare_fn *prepare,
                        const void *context);
/* Returns whether the program has ended, and stores its status, as wait(2) does. */
bool child_has_ended(pid_t pid, int *status);
/* Returns the exit status that a command takes over: the program's, or 128 and the number of the signal that
 * ended it. */
enum status child_exit_status(int status);

#endif
