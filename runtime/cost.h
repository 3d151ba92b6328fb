/*
 * What samples cost, and how much of a CPU they may take.
 *
 * A sample of perf_event_open(2) costs the thread that it interrupts an interrupt, a signal and a run of
 * the handler: a few microseconds on one machine, some tens on another. An event whose period is shorter
 * than that leaves its thread no time at all. So the cost is measured, and a start is refused whose
 * events, together with those that run, leave nothing.
 */
#ifndef COUNTERPOINT_RUNTIME_COST_H
#define COUNTERPOINT_RUNTIME_COST_H

#include "runtime.h"

/* Returns the least cost in ns that this process has measured; 0 if the cost is not known yet. */
uint64_t cp__cost_known(void);
/* The same; CP_SAMPLE_COST_ASSUMED_NS if the cost is not known. */
uint64_t cp__cost_or_assumed_from_handler(void);
/* Returns whether events of that kind happen only if the program goes on, as page faults and context
 * switches do: their samples can slow a thread down, and cannot starve it. They need no interrupt of a timer,
 * so they are cheaper than the measured cost, too. */
static inline bool cp__event_is_own_doing(enum cp_event_kind kind)
{
    return kind == CP_EVENT_SOFTWARE;
}
/* Returns whether an event of that kind can leave its thread no time: a clock, or a PMU's event. */
static inline bool cp__event_may_starve(enum cp_event_kind kind)
{
    return kind == CP_EVENT_CLOCK || kind == CP_EVENT_HARDWARE;
}
/* Returns the limit of a sampling event: after so many samples that nothing renews, the kernel disables the
 * event. The limits of CP_EV_MAX events together are what 0.4 s of nothing but overflows come to. Only
 * clocks and a PMU's events can leave a thread no time. What the program itself causes has a limit that is
 * never reached: a single system call may cause thousands of page faults. */
uint32_t cp__cost_limit_from_handler(enum cp_event_kind kind);
/* Notes a measured cost. */
void cp__cost_note(uint64_t ns);
/* Notes a cost that another process on this machine has measured just before, so that this process need not
 * measure. Returns false, and notes nothing, if no sample of any machine costs that. */
bool cp__cost_take_over(uint64_t ns);
/* For tests: sets the cost to ns, in place of the measured one, until the next call. With 0, the cost is
 * measured when it is needed. Ends the process if ns is less than what this process has measured, or assumes:
 * periods would be taken that leave a thread no time. */
void cp__cost_set(uint64_t ns);
/* How often the cost was measured. */
extern struct cp__measured cp__cost_measured;
/* Returns whether a test has set the cost. */
bool cp__cost_is_set(void);

/* Returns how many samples a second of CPU time the config allows; 0 if that is unknown beforehand. */
double cp__cost_rate(enum cp_cpu_event event, const struct cp_cpu_profile_config *config);
/* Returns the share of a CPU that the events may take, together with running events that allow running
 * samples a second; 0 if no rate is known beforehand. */
double cp__cost_share(const struct cp_slot_request *requests, size_t n, double running);
/* Checks that the events leave their thread some time, together with the running events, which allow running
 * samples a second. Returns -EINVAL and fills err if they do not. */
int cp__cost_check(const struct cp_slot_request *requests, size_t n, double running, struct cp_error *err);

/* Returns the highest frequency of the processors in Hz, or a guess if the system does not tell it. */
uint64_t cp__os_highest_hz(void);

#endif
