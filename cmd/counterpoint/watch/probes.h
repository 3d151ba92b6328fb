/*
 * Probes at functions, by perf_event_open(2): breakpoints that the kernel puts at the first instruction of a
 * function and, when that is reached, at the return address.
 *
 * The kernel checks the right to open such an event again for each copy that it makes of the event, on the
 * thread that starts another, and reads the path of the file from that thread's memory. So an event that
 * threads inherit makes the watched program's clone() fail with EACCES or EFAULT. Therefore each probe counts
 * on a CPU, whatever runs there, and whoever reads the records knows which threads are the program's. Each
 * CPU has one group of events with one ring: the leader, what is counted, and two probes for each function.
 * The leader's records are starts and ends of threads and, if anything is counted, each switch from one
 * thread to another, as a sample with all counts, and as two records that have none: samples of the idle task
 * are missing now and then (seen on Linux 6.18). All records of a group have all counts.
 *
 * The kernel removes the probes when the events are closed, and so also if this process is killed.
 */
#ifndef COUNTERPOINT_CMD_WATCH_PROBES_H
#define COUNTERPOINT_CMD_WATCH_PROBES_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "functions.h"
#include "record.h"
#include "runtime/watch/snapshot.h"

/* ---- What is counted: counts_linux.c --------------------------------------------------------- */

struct watch_counts;

/* Reads the names of events, with commas between; NULL: none. Returns 0, or a negative errno value and a
 * sentence. */
int watch_counts_new(struct watch_counts **counts, const char *names, struct cp_error *err);
void watch_counts_free(struct watch_counts *counts);
size_t watch_counts_n(const struct watch_counts *counts);
/* Returns the quantities beside time. */
const struct cp__watch_quantity *watch_counts_quantities(const struct watch_counts *counts);
/* Opens what is to be counted on a CPU, in the group of a leader, and appends the descriptors to fds. Returns
 * how many there are, or a negative errno value and a sentence. */
int watch_counts_open(const struct watch_counts *counts, int cpu, int leader, int *fds, struct cp_error *err);
/* Makes the counts of a record from its time and the values of leader and events. */
void watch_counts_take(const struct watch_counts *counts, const uint64_t *values, size_t n,
                       struct watch_record *record);
/* The same for a record of a switch, SWITCH or RESUME, which has no values. */
void watch_counts_take_switch(const struct watch_counts *counts, struct watch_record *record);

/* ---- Probes: probes_linux.c ------------------------------------------------------------------ */

struct watch_probes;

/* Opens all probes; they begin at once. Returns 0, or a negative errno value and a sentence. */
int watch_probes_open(struct watch_probes **probes, const struct watch_function *functions, size_t n,
                      const struct watch_counts *counts, struct cp_error *err);
/* Removes the probes. What was recorded can be read still. */
void watch_probes_stop(struct watch_probes *probes);
void watch_probes_free(struct watch_probes *probes);
/* Waits until there is much to read, or so many ms have passed, or a signal was caught, or extra_fd, if it is
 * not -1, can be read. */
void watch_probes_wait(const struct watch_probes *probes, int extra_fd, int ms);
/* Gives the records to fn, in the order of time: those of which no earlier one can come any more; all: what
 * is left, too. Returns 0, -ENOMEM, or what else fn has returned last other than 0. */
typedef int watch_record_fn(void *context, const struct watch_record *record);
int watch_probes_read(struct watch_probes *probes, bool all, watch_record_fn *fn, void *context);
/* Returns whether the processor's counters could not be kept for what is counted. */
bool watch_probes_have_failed(const struct watch_probes *probes);

#endif
