/*
 * What armed events cost when their threads lose the CPU and get it again.
 *
 * The kernel takes the events of a thread off the CPU and puts them back at each switch. If a clock of the
 * thread expires before the kernel's next tick, the kernel also sets the CPU's timer each time, and a virtual
 * machine is left for that. A thread that wakes others thousands of times a second pays more for that than
 * for samples.
 *
 * engine/switch_measure.c measures the cost. Nobody starves by it, because a switch is progress of the
 * thread's own: what switches take is added to what samples take of the rest.
 */
#ifndef COUNTERPOINT_RUNTIME_SWITCH_COST_H
#define COUNTERPOINT_RUNTIME_SWITCH_COST_H

#include "runtime.h"

struct cp__m;

/* What it takes longer, in ns, that a thread loses its CPU and gets it again, with one event that is armed on
 * the thread; and what it takes without events. */
struct cp__switch_costs {
    uint64_t bare;
    uint64_t soon;  /* a clock that expires before the next tick */
    uint64_t later; /* a clock that expires after several ticks */
    uint64_t other; /* an event that only counts */
};

/* More than a switch was seen to cost. */
#define CP__SWITCH_MOST_NS 20000.0

/* Returns whether the costs were measured, or set; all of them are 0 if they could not be measured. */
bool cp__switch_costs_are_known(void);
/* Notes the costs, or what is less than before; NULL: they cannot be measured. One thread at a time. */
void cp__switch_costs_note(const struct cp__switch_costs *costs);
/* Stores the costs as they are known; all are 0 if they are not. */
void cp__switch_costs_tell(struct cp__switch_costs *costs);
/* Notes costs that another process on this machine has measured just before. Returns false, and notes
 * nothing, if no switch costs that, or none was measured. */
bool cp__switch_costs_take_over(const struct cp__switch_costs *costs);
/* For tests: sets the costs, which are not measured any more. */
void cp__switch_costs_set(const struct cp__switch_costs *costs);
bool cp__switch_costs_are_set(void);
/* Returns what a switch costs with an event of that kind and period; 0 if that is not known. */
uint64_t cp__switch_cost_known(enum cp_event_kind kind, uint64_t period);

/* Returns how much of cpu_ns went to the events at so many switches, by what they cost at each. A switch
 * takes some time without events, too, and that time is the thread's, whatever the cost was measured to
 * be. */
uint64_t cp__switch_ns(uint64_t cost, uint64_t switches, uint64_t cpu_ns);

/* Returns what a switch of m's thread costs with all of m's events that count, and adds up in *of_slot, which
 * has CP_EV_MAX places, what each of them would cost alone. */
uint64_t cp__switch_cost_of_m(const struct cp__m *m, uint64_t *of_slot);

/* Returns what a switch costs with the events of the requests and those that run. */
uint64_t cp__switch_cost_with_running(const struct cp_slot_request *requests, size_t n);
/* Returns the greatest share of its CPU time that one of the Ms' threads would lose to the events at its
 * switches, together with the events that run, by how often each thread has been switched so far: 0 to 1. A
 * process with many Ms has 64 of them looked at. Under the runtime lock. */
double cp__switch_share(const struct cp_slot_request *requests, size_t n);
/* Checks that switches, and samples that take this share of a CPU, leave each thread a tenth of its time.
 * Returns -EINVAL and fills err if they do not: what runs would be stopped for that, too. See overload.c. */
int cp__switch_check(const struct cp_slot_request *requests, size_t n, double samples, double switches,
                     struct cp_error *err);
/* Returns the share of a thread's time that samples and switches take together. What switches take has no
 * samples of its own: the two do not simply add up. */
static inline double cp__switch_and_sample_share(double samples, double switches)
{
    return samples >= 1 ? samples : samples + (1 - samples) * switches;
}

#endif
