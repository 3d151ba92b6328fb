/* How far apart the runs of a benchmark are. */
#ifndef COUNTERPOINT_TESTING_SPREAD_H
#define COUNTERPOINT_TESTING_SPREAD_H

/* Takes note of one run's ns/op. */
void cp__spread_add(const char *benchmark, double ns_per_op);
/* Prints a line for each benchmark that ran more than once, and forgets all. */
void cp__spread_note(void);

#endif
