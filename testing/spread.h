/* How much the results of repeated runs of a benchmark differ. */
#ifndef COUNTERPOINT_TESTING_SPREAD_H
#define COUNTERPOINT_TESTING_SPREAD_H

/* Stores the ns/op of one run of the benchmark. */
void cp__spread_add(const char *benchmark, double ns_per_op);
/* Prints a line for each benchmark that ran more than once, and forgets all stored results. */
void cp__spread_note(void);

#endif
