/* -counters: what is counted over a benchmark's loop, on all threads of its process. */
#ifndef COUNTERPOINT_TESTING_COUNTS_H
#define COUNTERPOINT_TESTING_COUNTS_H

#include "testing.h"

#include <stdio.h>

struct cp__bench;

/* Takes the events of a list, which is written into. Those that do not work here are told, once, and left
 * out. -EINVAL where a name makes no sense. */
int cp__counts_choose(char *list, struct cp_error *err);
/* Opens them for the calling thread and those that it starts from then on. */
void cp__counts_open(void);
void cp__counts_reset(void);
void cp__counts_start(void);
void cp__counts_stop(void);
/* The figures of n iterations, as the benchmark's line shows them. */
void cp__counts_print(FILE *stream, struct cp__bench *bench, double n);

#endif
