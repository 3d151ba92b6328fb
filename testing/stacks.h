#ifndef COUNTERPOINT_TESTING_STACKS_H
#define COUNTERPOINT_TESTING_STACKS_H

#include <stdio.h>
#include <sys/types.h>

/*
 * Prints the stacks of the threads of a child process, the thread "first" before the others. The process is
 * stopped meanwhile. Frames of the handler and the exit function in child.c that told of the end are left
 * out. If the system forbids ptrace(), a line that says so is printed instead.
 */
void cp__stacks_print(FILE *stream, pid_t pid, pid_t first);

#endif
