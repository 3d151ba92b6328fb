/* -counters: events that are counted while a benchmark's loop runs, on all threads of the process. */
#ifndef COUNTERPOINT_TESTING_COUNTS_H
#define COUNTERPOINT_TESTING_COUNTS_H

#include "testing.h"

#include <stdio.h>

struct cp__bench;

/* Chooses the events of a comma-separated list, and writes into the list. An event that does not work on
 * this machine is * left out, and a note says why. Returns -EINVAL or -ENAMETOOLONG if a name is not the
 * name of an event. */
int cp__counts_choose(char *list, struct cp_error *err);
/* Opens the chosen events for the calling thread and for the threads that it starts from now on. */
void cp__counts_open(void);
void cp__counts_reset(void);
void cp__counts_start(void);
void cp__counts_stop(void);
/* Prints the figures per operation, for n iterations, as parts of the benchmark's line. */
void cp__counts_print(FILE *stream, struct cp__bench *bench, double n);

#endif
