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

/* Returns the measured cost in ns; 0 if the cost is not known yet. */
uint64_t cp__cost_known(void);
/* Sets the measured cost to ns; with 0, the cost is measured when it is needed. Tests of something else set a
 * low cost, so that no period is refused, however slow the machine is. */
void cp__cost_set(uint64_t ns);
/* In the child of a fork: no thread measures, even if one did so in the parent. */
void cp__cost_forget(void);

/* Returns how many samples a second of CPU time the config allows; 0 if that is unknown beforehand. */
double cp__cost_rate(enum cp_cpu_event event, const struct cp_cpu_profile_config *config);
/* Returns whether one of the events needs the cost of a sample, so that the cost is measured before they
 * start: all events except the timer do. */
bool cp__cost_matters(const struct cp_slot_request *requests, size_t n);
/* Checks that the events stay within half of a CPU, together with the running events, which allow running
 * samples a second. Returns -EINVAL and fills err if they do not. */
int cp__cost_check(const struct cp_slot_request *requests, size_t n, double running, struct cp_error *err);

/* Returns the highest frequency of the processors in Hz, or a guess if the system does not tell it. */
uint64_t cp__os_highest_hz(void);

#endif
