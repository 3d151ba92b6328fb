/*
 * What samples cost, and how much of a CPU they may take.
 *
 * A sample of perf_event_open(2) costs the thread that it interrupts an interrupt, a signal and a run of the
 * handler: a few microseconds on one machine, some tens on another. An event whose period is shorter than
 * that leaves its thread no time at all. So the cost is measured once in a process, and a start is refused
 * whose events, together with those that run, could take more than half of a CPU.
 */
#ifndef COUNTERPOINT_RUNTIME_COST_H
#define COUNTERPOINT_RUNTIME_COST_H

#include "runtime.h"

/* The cost in ns that has been measured; 0 if it is not known (yet). */
uint64_t cp__cost_known(void);
/* Sets the measured cost to ns; 0: it is measured when it is needed. A program that tests something else sets
 * a cost so low that no period is refused, however slow the machine is. */
void cp__cost_set(uint64_t ns);
/* In the child of a fork: nobody measures, whoever did so in the parent. */
void cp__cost_forget(void);

/* How many samples a second of CPU time the config can come to; 0 if that is not known beforehand. */
double cp__cost_rate(enum cp_cpu_event event, const struct cp_cpu_profile_config *config);
/* Whether the cost of a sample has to be known for one of the events, and so is measured before they start:
 * for all but the timer. */
bool cp__cost_matters(const struct cp_slot_request *requests, size_t n);
/* Whether the events stay within half of a CPU beside those that run, which come to running samples a second.
 * -EINVAL and the reason if they do not. */
int cp__cost_check(const struct cp_slot_request *requests, size_t n, double running, struct cp_error *err);

/* The highest frequency of the processors in Hz, as the system tells it; a guess if it does not. */
uint64_t cp__os_highest_hz(void);

#endif
