#ifndef COUNTERPOINT_TESTING_STACKS_H
#define COUNTERPOINT_TESTING_STACKS_H

#include <stdio.h>
#include <sys/types.h>

/*
 * Prints the stacks of a child process' threads, the one called first at the head. The process is stopped
 * meanwhile. Frames of child.c's handler or exit function that told of the end are left out. Where the system
 * forbids to look, that is printed.
 */
void cp__stacks_print(FILE *stream, pid_t pid, pid_t first);

#endif
